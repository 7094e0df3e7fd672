"""Depthwise convolution, 8192 outputs in two warps."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "depthwise", "constants": {"BATCH": 64}}


@triton.jit
def _depthwise(x_ptr, weight_ptr, out_ptr, channels, height, width, BLOCK: tl.constexpr):
    plane = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = at // width, at % width
    total = tl.zeros((BLOCK,), tl.float32)
    for dy in tl.static_range(3):
        for dx in tl.static_range(3):
            y, x = row + dy - 1, column + dx - 1
            inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
            value = tl.load(x_ptr + (plane * height + y) * width + x, mask=inside, other=0.0)
            total += value * tl.load(weight_ptr + plane % channels * 9 + dy * 3 + dx)
    tl.store(out_ptr + plane * height * width + at, total, mask=at < height * width)


def kernel_function(x, weight):
    batch, channels, height, width = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(height * width, 8192), batch * channels)
    _depthwise[grid](x, weight, out, channels, height, width, BLOCK=8192, num_warps=2)
    return out
