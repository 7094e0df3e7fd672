"""Linear layer and ReLU in 16 x 16 tiles of depth 128."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "linear", "constants": {"BATCH": 4096}}


@triton.jit
def _linear(
    x_ptr, weight_ptr, bias_ptr, out_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        depth = start + tl.arange(0, BK)
        x_mask = (row < M)[:, None] & (depth < K)[None, :]
        w_mask = (depth < K)[:, None] & (column < N)[None, :]
        x = tl.load(x_ptr + row[:, None] * K + depth[None, :], mask=x_mask, other=0.0)
        w = tl.load(weight_ptr + column[None, :] * K + depth[:, None], mask=w_mask, other=0.0)
        total = tl.dot(x, w, total, input_precision="ieee")
    total += tl.load(bias_ptr + column, mask=column < N, other=0.0)[None, :]
    out_mask = (row < M)[:, None] & (column < N)[None, :]
    tl.store(out_ptr + row[:, None] * N + column[None, :], tl.maximum(total, 0.0), mask=out_mask)


class ModelNew(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(inputs, outputs)

    def forward(self, x):
        m, k = x.shape
        n = self.linear.out_features
        out = torch.empty((m, n), dtype=x.dtype, device=x.device)
        block = {"BM": 16, "BN": 16, "BK": 128}
        grid = (triton.cdiv(m, block["BM"]), triton.cdiv(n, block["BN"]))
        _linear[grid](x, self.linear.weight, self.linear.bias, out, m, n, k, **block)
        return out
