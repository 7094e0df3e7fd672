"""Two passes over the channels, a few at a time."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "rms_norm", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _rms_norm(x_ptr, out_ptr, channels, pixels, eps, C: tl.constexpr, P: tl.constexpr):
    pixel = tl.program_id(0) * P + tl.arange(0, P)[None, :]
    base = tl.program_id(1) * channels * pixels
    squares = tl.zeros((C, P), tl.float32)
    for first in range(0, channels, C):
        channel = first + tl.arange(0, C)[:, None]
        inside = (channel < channels) & (pixel < pixels)
        x = tl.load(x_ptr + base + channel * pixels + pixel, mask=inside, other=0)
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares, axis=0, keep_dims=True) / channels + eps)
    for first in range(0, channels, C):
        channel = first + tl.arange(0, C)[:, None]
        inside = (channel < channels) & (pixel < pixels)
        x = tl.load(x_ptr + base + channel * pixels + pixel, mask=inside, other=0)
        tl.store(out_ptr + base + channel * pixels + pixel, x * scale, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        batch, channels = x.shape[:2]
        pixels = x[0, 0].numel()
        out = torch.empty_like(x)
        chunk = min(16, triton.next_power_of_2(triton.cdiv(channels, 2)))
        grid = (triton.cdiv(pixels, 128), batch)
        _rms_norm[grid](x, out, channels, pixels, self.eps, C=chunk, P=128)
        return out
