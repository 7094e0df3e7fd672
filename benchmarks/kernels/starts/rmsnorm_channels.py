"""RMSNorm over channels, one pass for the sum of squares and another to divide."""

import torch
import triton
import triton.language as tl


@triton.jit
def _rmsnorm(x_ptr, out_ptr, channels, pixels, eps, BLOCK: tl.constexpr):
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    image = tl.program_id(1).to(tl.int64) * channels * pixels
    inside = pixel < pixels
    total = tl.zeros((BLOCK,), tl.float32)
    for channel in range(channels):
        at = image + channel * pixels + pixel
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
        total += x * x
    rms = tl.sqrt(total / channels + eps)
    for channel in range(channels):
        at = image + channel * pixels + pixel
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(out_ptr + at, (x / rms).to(out_ptr.dtype.element_ty), mask=inside)


def kernel_function(x: torch.Tensor, eps: float) -> torch.Tensor:
    """`x` [batch, channels, height, width] over its root mean square along the channels."""
    batch, channels, height, width = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(height * width, 256), batch)
    _rmsnorm[grid](x, out, channels, height * width, eps, BLOCK=256)
    return out
