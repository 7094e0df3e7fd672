"""Square tiles, read along one dimension and written along the other."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "transpose", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _transpose(x_ptr, out_ptr, rows, columns, T: tl.constexpr):
    row = tl.program_id(0) * T + tl.arange(0, T)
    column = tl.program_id(1) * T + tl.arange(0, T)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    tile = tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=inside)
    tl.store(out_ptr + column[:, None] * rows + row[None, :], tl.trans(tile), mask=tl.trans(inside))


def kernel_function(x):
    rows, columns = x.shape
    out = torch.empty((columns, rows), dtype=x.dtype, device=x.device)
    _transpose[(triton.cdiv(rows, 32), triton.cdiv(columns, 32))](x, out, rows, columns, T=32)
    return out
