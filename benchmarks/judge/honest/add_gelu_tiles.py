"""A fused chain over two-dimensional tiles; the bias is read once per tile."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "add_gelu", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _add_gelu(x_ptr, y_ptr, bias_ptr, out_ptr, rows, columns, R: tl.constexpr, C: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    column = tl.program_id(1) * C + tl.arange(0, C)
    bias = tl.load(bias_ptr + column, mask=column < columns)
    offsets = row * columns + column[None, :]
    inside = (row < rows) & (column[None, :] < columns)
    z = (
        tl.load(x_ptr + offsets, mask=inside)
        + tl.load(y_ptr + offsets, mask=inside)
        + bias[None, :]
    )
    tl.store(out_ptr + offsets, 0.5 * z * (1 + tl.erf(z * 0.7071067811865476)), mask=inside)


def kernel_function(x, y, bias):
    rows, columns = x.shape
    out = torch.empty_like(x)
    _add_gelu[(triton.cdiv(rows, 8), triton.cdiv(columns, 128))](
        x, y, bias, out, rows, columns, R=8, C=128
    )
    return out
