"""Softmax of a row in a single warp: 128 values a lane."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "softmax", "constants": {"ROWS": 8192}}


@triton.jit
def _softmax(x_ptr, out_ptr, columns, WIDTH: tl.constexpr):
    column = tl.arange(0, WIDTH)
    inside = column < columns
    row = tl.program_id(0) * columns
    x = tl.load(x_ptr + row + column, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row + column, e / tl.sum(e, axis=0), mask=inside)


def kernel_function(x):
    rows, columns = x.shape
    out = torch.empty_like(x)
    _softmax[(rows,)](x, out, columns, WIDTH=triton.next_power_of_2(columns), num_warps=1)
    return out
