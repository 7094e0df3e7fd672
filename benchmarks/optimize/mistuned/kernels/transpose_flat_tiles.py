"""Transposed copy in tiles of 2 x 512: one side is never coalesced."""

import triton
import triton.language as tl

MISTUNED = {"problem": "transpose", "constants": {}}


@triton.jit
def _transpose(x_ptr, out_ptr, rows, columns, R: tl.constexpr, C: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    x = tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=inside)
    turned = out_ptr + column[:, None] * rows + row[None, :]
    tl.store(turned, tl.trans(x), mask=tl.trans(inside))


def kernel_function(x):
    rows, columns = x.shape
    out = x.new_empty((columns, rows))
    _transpose[(triton.cdiv(rows, 2), triton.cdiv(columns, 512))](
        x, out, rows, columns, R=2, C=512, num_warps=8
    )
    return out
