"""Group normalisation in steps of 128 with sixteen warps."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "group_norm", "constants": {"BATCH": 64}}


@triton.jit
def _group_norm(
    x_ptr, weight_ptr, bias_ptr, out_ptr, groups, per_group, pixels, eps, BLOCK: tl.constexpr
):
    group = tl.program_id(0)
    size = per_group * pixels
    base = group.to(tl.int64) * size
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        x = tl.load(x_ptr + base + start + lane, mask=start + lane < size, other=0.0)
        total += x
    mean = tl.sum(total, axis=0) / size
    for start in range(0, size, BLOCK):
        inside = start + lane < size
        x = tl.load(x_ptr + base + start + lane, mask=inside, other=0.0)
        gap = tl.where(inside, x - mean, 0.0)
        squares += gap * gap
    scale = tl.rsqrt(tl.sum(squares, axis=0) / size + eps)
    for start in range(0, size, BLOCK):
        at = start + lane
        inside = at < size
        channel = group % groups * per_group + at // pixels
        x = tl.load(x_ptr + base + at, mask=inside)
        weight = tl.load(weight_ptr + channel, mask=inside)
        bias = tl.load(bias_ptr + channel, mask=inside)
        tl.store(out_ptr + base + at, (x - mean) * scale * weight + bias, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.groups = groups
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        batch, channels = x.shape[:2]
        out = torch.empty_like(x)
        _group_norm[(batch * self.groups,)](
            x, self.weight, self.bias, out, self.groups, channels // self.groups,
            x[0, 0].numel(), 1e-5, BLOCK=128, num_warps=16,
        )  # fmt: skip
        return out
