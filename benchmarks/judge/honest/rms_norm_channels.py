"""Programs own pixels and hold all their channels."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "rms_norm", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _rms_norm(x_ptr, out_ptr, channels, pixels, eps, C: tl.constexpr, P: tl.constexpr):
    channel = tl.arange(0, C)[:, None]
    pixel = tl.program_id(0) * P + tl.arange(0, P)[None, :]
    inside = (channel < channels) & (pixel < pixels)
    offsets = tl.program_id(1) * channels * pixels + channel * pixels + pixel
    x = tl.load(x_ptr + offsets, mask=inside, other=0)
    scale = tl.rsqrt(tl.sum(x * x, axis=0, keep_dims=True) / channels + eps)
    tl.store(out_ptr + offsets, x * scale, mask=inside)


def kernel_function(x, eps):
    batch, channels, height, width = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(height * width, 64), batch)
    block = triton.next_power_of_2(channels)
    _rms_norm[grid](x, out, channels, height * width, eps, C=block, P=64)
    return out
