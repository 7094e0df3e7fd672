"""Tiles visited in groups of rows, for the L2 cache."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "matmul", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _matmul(a_ptr, b_ptr, c_ptr, m, n, k, G: tl.constexpr, T: tl.constexpr):
    rows = tl.cdiv(m, T)
    columns = tl.cdiv(n, T)
    group = tl.program_id(0) // (G * columns)
    height = tl.minimum(rows - group * G, G)
    inside_group = tl.program_id(0) % (G * columns)
    row = (group * G + inside_group % height) * T + tl.arange(0, T)
    column = inside_group // height * T + tl.arange(0, T)
    sums = tl.zeros((T, T), tl.float32)
    for first in range(0, k, T):
        inner = first + tl.arange(0, T)
        a = tl.load(
            a_ptr + row[:, None] * k + inner[None, :],
            mask=(row < m)[:, None] & (inner < k)[None, :],
            other=0,
        )
        b = tl.load(
            b_ptr + inner[:, None] * n + column[None, :],
            mask=(inner < k)[:, None] & (column < n)[None, :],
            other=0,
        )
        sums = tl.dot(a, b, sums, input_precision="ieee")
    inside = (row < m)[:, None] & (column < n)[None, :]
    tl.store(c_ptr + row[:, None] * n + column[None, :], sums, mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        m, k = a.shape
        n = b.shape[1]
        c = torch.empty((m, n), dtype=a.dtype, device=a.device)
        _matmul[(triton.cdiv(m, 32) * triton.cdiv(n, 32),)](a, b, c, m, n, k, G=4, T=32)
        return c
