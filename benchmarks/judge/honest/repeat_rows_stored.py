"""Stores every copy."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "repeat_rows", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _repeat(x_ptr, out_ptr, times, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    value = 2.0 * tl.load(x_ptr + row)
    tl.store(out_ptr + row * times + offsets, value, mask=offsets < times)


def kernel_function(x, times):
    out = torch.empty((x.shape[0], times), dtype=x.dtype, device=x.device)
    _repeat[(x.shape[0], triton.cdiv(times, 4096))](x, out, times, BLOCK=4096)
    return out
