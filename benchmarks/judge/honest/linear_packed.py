"""Weights transposed once, at construction or when they are loaded."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "linear", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _linear(x_ptr, w_ptr, b_ptr, out_ptr, m, n, k, T: tl.constexpr):
    row = tl.program_id(0) * T + tl.arange(0, T)
    column = tl.program_id(1) * T + tl.arange(0, T)
    sums = tl.zeros((T, T), tl.float32)
    for first in range(0, k, T):
        inner = first + tl.arange(0, T)
        x = tl.load(
            x_ptr + row[:, None] * k + inner[None, :],
            mask=(row < m)[:, None] & (inner < k)[None, :],
            other=0,
        )
        w = tl.load(
            w_ptr + inner[:, None] * n + column[None, :],
            mask=(inner < k)[:, None] & (column < n)[None, :],
            other=0,
        )
        sums = tl.dot(x, w, sums, input_precision="ieee")
    sums += tl.load(b_ptr + column, mask=column < n, other=0)[None, :]
    inside = (row < m)[:, None] & (column < n)[None, :]
    tl.store(out_ptr + row[:, None] * n + column[None, :], tl.maximum(sums, 0), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(inputs, outputs)
        self._packed = None

    def forward(self, x):
        if self._packed is None:
            self._packed = self.linear.weight.detach().t().contiguous()
        m, k = x.shape
        n = self._packed.shape[1]
        out = torch.empty((m, n), dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
        _linear[grid](x, self._packed, self.linear.bias, out, m, n, k, T=32)
        return out
