"""Layer normalisation of 16 rows a program in one warp."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "layer_norm", "constants": {"ROWS": 32768}}


@triton.jit
def _layer_norm(
    x_ptr, weight_ptr, bias_ptr, out_ptr, rows, columns, eps, R: tl.constexpr, C: tl.constexpr
):
    row = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    column = tl.arange(0, C)[None, :]
    inside = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0.0)
    mean = tl.sum(x, axis=1, keep_dims=True) / columns
    gap = tl.where(inside, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(gap * gap, axis=1, keep_dims=True) / columns + eps)
    weight = tl.load(weight_ptr + column, mask=column < columns)
    bias = tl.load(bias_ptr + column, mask=column < columns)
    tl.store(out_ptr + row * columns + column, gap * scale * weight + bias, mask=inside)


def kernel_function(x, weight, bias, eps, rows_per_program: int = 16, num_warps: int = 1):
    rows, columns = x.shape
    out = torch.empty_like(x)
    _layer_norm[(triton.cdiv(rows, rows_per_program),)](
        x, weight, bias, out, rows, columns, eps,
        R=rows_per_program, C=triton.next_power_of_2(columns), num_warps=num_warps,
    )  # fmt: skip
    return out
