"""Sums of columns, 8 columns a program: 32 bytes of each row."""

import triton
import triton.language as tl

MISTUNED = {"problem": "column_sum", "constants": {"ROWS": 16384}}


@triton.jit
def _column_sum(x_ptr, out_ptr, rows, columns, R: tl.constexpr, C: tl.constexpr):
    column = tl.program_id(0) * C + tl.arange(0, C)
    total = tl.zeros((R, C), tl.float32)
    for start in range(0, rows, R):
        row = start + tl.arange(0, R)
        inside = (row < rows)[:, None] & (column < columns)[None, :]
        total += tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + column, tl.sum(total, axis=0), mask=column < columns)


def kernel_function(x):
    rows, columns = x.shape
    out = x.new_empty(columns)
    _column_sum[(triton.cdiv(columns, 8),)](x, out, rows, columns, R=4, C=8, num_warps=1)
    return out
