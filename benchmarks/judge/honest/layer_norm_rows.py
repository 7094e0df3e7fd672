"""Several rows per program, as a module with the reference's parameters."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "layer_norm", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _layer_norm(x_ptr, w_ptr, b_ptr, out_ptr, rows, columns, eps, R: tl.constexpr, C: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    column = tl.arange(0, C)[None, :]
    inside = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0)
    mean = tl.sum(x, axis=1, keep_dims=True) / columns
    centred = tl.where(inside, x - mean, 0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=1, keep_dims=True) / columns + eps)
    w = tl.load(w_ptr + column, mask=column < columns)
    b = tl.load(b_ptr + column, mask=column < columns)
    tl.store(out_ptr + row * columns + column, centred * scale * w + b, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, columns, eps):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(columns))
        self.bias = torch.nn.Parameter(torch.zeros(columns))
        self.eps = eps

    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        grid = (triton.cdiv(rows, 2),)
        block = triton.next_power_of_2(columns)
        _layer_norm[grid](x, self.weight, self.bias, out, rows, columns, self.eps, R=2, C=block)
        return out
