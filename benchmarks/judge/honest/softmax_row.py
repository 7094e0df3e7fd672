"""One row per program, held in registers."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "softmax", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    start = tl.program_id(0) * columns
    x = tl.load(x_ptr + start + offsets, mask=offsets < columns, other=-float("inf"))
    weights = tl.exp(x - tl.max(x))
    tl.store(out_ptr + start + offsets, weights / tl.sum(weights), mask=offsets < columns)


def kernel_function(x):
    rows, columns = x.shape
    out = torch.empty_like(x)
    _softmax[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns), num_warps=8)
    return out
