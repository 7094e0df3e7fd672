"""Stores what eager stores, and shows it as eager does."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "broadcast_view", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _double(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, 2.0 * x, mask=offsets < count)


def kernel_function(x, times):
    out = torch.empty_like(x)
    _double[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out.expand(-1, times)
