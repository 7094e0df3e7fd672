"""Programs own columns and walk down the rows."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "column_sum", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _column_sum(x_ptr, out_ptr, rows, columns, R: tl.constexpr, C: tl.constexpr):
    column = tl.program_id(0) * C + tl.arange(0, C)
    sums = tl.zeros((R, C), tl.float32)
    for first in range(0, rows, R):
        row = first + tl.arange(0, R)
        inside = (row < rows)[:, None] & (column < columns)[None, :]
        sums += tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=inside, other=0)
    tl.store(out_ptr + column, tl.sum(sums, axis=0), mask=column < columns)


def kernel_function(x):
    rows, columns = x.shape
    out = torch.empty((columns,), dtype=x.dtype, device=x.device)
    _column_sum[(triton.cdiv(columns, 32),)](x, out, rows, columns, R=16, C=32)
    return out
