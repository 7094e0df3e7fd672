"""One group of one image per program, which is contiguous."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "group_norm", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _group_norm(x_ptr, w_ptr, b_ptr, out_ptr, size, pixels, channels, groups, BLOCK: tl.constexpr):
    group = tl.program_id(0) % groups
    base = tl.program_id(0).to(tl.int64) * size
    sums = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, size, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        sums += tl.load(x_ptr + base + offsets, mask=offsets < size, other=0)
    mean = tl.sum(sums) / size
    squares = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, size, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + offsets, mask=offsets < size, other=0)
        squares += tl.where(offsets < size, (x - mean) * (x - mean), 0)
    scale = tl.rsqrt(tl.sum(squares) / size + 1e-5)
    for first in range(0, size, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        inside = offsets < size
        channel = group * (channels // groups) + offsets // pixels
        w = tl.load(w_ptr + channel, mask=inside)
        b = tl.load(b_ptr + channel, mask=inside)
        x = tl.load(x_ptr + base + offsets, mask=inside, other=0)
        tl.store(out_ptr + base + offsets, (x - mean) * scale * w + b, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.groups = groups
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        batch, channels, height, width = x.shape
        size = channels // self.groups * height * width
        out = torch.empty_like(x)
        block = min(4096, triton.next_power_of_2(triton.cdiv(size, 2)))
        _group_norm[(batch * self.groups,)](
            x, self.weight, self.bias, out, size, height * width, channels, self.groups, BLOCK=block
        )
        return out
