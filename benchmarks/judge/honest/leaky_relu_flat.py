"""One block of a flat view per program."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "leaky_relu", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _leaky(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, tl.where(x >= 0, x, 0.1 * x), mask=offsets < count)


def kernel_function(x):
    out = torch.empty_like(x)
    _leaky[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out
