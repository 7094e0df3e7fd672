"""Two programs per tile that add their halves of the inner dimension into zeros."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "matmul", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _matmul(a_ptr, b_ptr, c_ptr, m, n, k, half, T: tl.constexpr):
    row = tl.program_id(0) * T + tl.arange(0, T)
    column = tl.program_id(1) * T + tl.arange(0, T)
    start = tl.program_id(2) * half
    end = tl.minimum(start + half, k)
    sums = tl.zeros((T, T), tl.float32)
    for first in range(start, end, T):
        inner = first + tl.arange(0, T)
        a = tl.load(
            a_ptr + row[:, None] * k + inner[None, :],
            mask=(row < m)[:, None] & (inner < end)[None, :],
            other=0,
        )
        b = tl.load(
            b_ptr + inner[:, None] * n + column[None, :],
            mask=(inner < end)[:, None] & (column < n)[None, :],
            other=0,
        )
        sums = tl.dot(a, b, sums, input_precision="ieee")
    inside = (row < m)[:, None] & (column < n)[None, :]
    tl.atomic_add(c_ptr + row[:, None] * n + column[None, :], sums, mask=inside)


def kernel_function(a, b):
    m, k = a.shape
    n = b.shape[1]
    c = torch.zeros((m, n), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32), 2)
    _matmul[grid](a, b, c, m, n, k, triton.cdiv(k, 2), T=32)
    return c
