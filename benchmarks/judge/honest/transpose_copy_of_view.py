"""A kernel copies as it is; the result is a transposed view of the copy."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "transpose", "needs": "cpu", "verdicts": ["correct", "library"]}


@triton.jit
def _copy(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, value, mask=offsets < count)


def kernel_function(x):
    copy = torch.empty_like(x)
    _copy[(triton.cdiv(x.numel(), 1024),)](x, copy, x.numel(), BLOCK=1024)
    return copy.t().contiguous()
