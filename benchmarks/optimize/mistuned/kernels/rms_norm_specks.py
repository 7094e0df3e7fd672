"""RMS normalisation over channels, 16 pixels a program."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "rms_norm", "constants": {"BATCH": 64, "SIDE": 128}}


@triton.jit
def _rms_norm(x_ptr, out_ptr, channels, pixels, eps, CHANNELS: tl.constexpr, PIXELS: tl.constexpr):
    base = tl.program_id(1).to(tl.int64) * channels * pixels
    channel = tl.arange(0, CHANNELS)[:, None]
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)[None, :]
    inside = (channel < channels) & (pixel < pixels)
    at = base + channel * pixels + pixel
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    scale = tl.rsqrt(tl.sum(x * x, axis=0, keep_dims=True) / channels + eps)
    tl.store(out_ptr + at, x * scale, mask=inside)


def kernel_function(x, eps):
    batch, channels = x.shape[:2]
    pixels = x.shape[2] * x.shape[3]
    out = torch.empty_like(x)
    _rms_norm[(triton.cdiv(pixels, 16), batch)](
        x, out, channels, pixels, eps, CHANNELS=triton.next_power_of_2(channels), PIXELS=16
    )
    return out
