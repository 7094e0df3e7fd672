"""Layer normalisation in steps of 32 with eight warps."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "layer_norm", "constants": {"ROWS": 16384, "COLS": 4096}}


@triton.jit
def _layer_norm(x_ptr, weight_ptr, bias_ptr, out_ptr, columns, eps, STEP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    lane = tl.arange(0, STEP)
    total = tl.zeros((STEP,), tl.float32)
    for start in range(0, columns, STEP):
        total += tl.load(x_ptr + row + start + lane, mask=start + lane < columns, other=0.0)
    mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros((STEP,), tl.float32)
    for start in range(0, columns, STEP):
        inside = start + lane < columns
        x = tl.load(x_ptr + row + start + lane, mask=inside, other=0.0)
        gap = tl.where(inside, x - mean, 0.0)
        squares += gap * gap
    scale = tl.rsqrt(tl.sum(squares, axis=0) / columns + eps)
    for start in range(0, columns, STEP):
        inside = start + lane < columns
        x = tl.load(x_ptr + row + start + lane, mask=inside)
        weight = tl.load(weight_ptr + start + lane, mask=inside)
        bias = tl.load(bias_ptr + start + lane, mask=inside)
        tl.store(out_ptr + row + start + lane, (x - mean) * scale * weight + bias, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, columns, eps):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(columns))
        self.bias = torch.nn.Parameter(torch.zeros(columns))
        self.eps = eps
        self.step = 32

    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        _layer_norm[(rows,)](
            x, self.weight, self.bias, out, columns, self.eps,
            STEP=self.step,
            num_warps=8,
        )  # fmt: skip
        return out
