"""A batch per grid plane, tiles within."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "bmm", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _bmm(a_ptr, b_ptr, c_ptr, m, n, k, T: tl.constexpr):
    row = tl.program_id(0) * T + tl.arange(0, T)
    column = tl.program_id(1) * T + tl.arange(0, T)
    batch = tl.program_id(2)
    sums = tl.zeros((T, T), tl.float32)
    for first in range(0, k, T):
        inner = first + tl.arange(0, T)
        a = tl.load(
            a_ptr + batch * m * k + row[:, None] * k + inner[None, :],
            mask=(row < m)[:, None] & (inner < k)[None, :],
            other=0,
        )
        b = tl.load(
            b_ptr + batch * k * n + inner[:, None] * n + column[None, :],
            mask=(inner < k)[:, None] & (column < n)[None, :],
            other=0,
        )
        sums = tl.dot(a, b, sums, input_precision="ieee")
    inside = (row < m)[:, None] & (column < n)[None, :]
    tl.store(c_ptr + batch * m * n + row[:, None] * n + column[None, :], sums, mask=inside)


def kernel_function(a, b):
    batch, m, k = a.shape
    n = b.shape[2]
    c = torch.empty((batch, m, n), dtype=a.dtype, device=a.device)
    _bmm[(triton.cdiv(m, 32), triton.cdiv(n, 32), batch)](a, b, c, m, n, k, T=32)
    return c
