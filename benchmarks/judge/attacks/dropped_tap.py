"""A 3 x 3 window without its last tap.

Seen: own.
"""

import torch
import triton
import triton.language as tl

ATTACK = {"problem": "depthwise", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


@triton.jit
def _depthwise(x_ptr, w_ptr, out_ptr, count, channels, height, width, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = offsets % width
    row = offsets // width % height
    plane = offsets // (width * height)
    sums = tl.zeros((BLOCK,), tl.float32)
    for tap in tl.static_range(8):
        y = row - 1 + tap // 3
        x = column - 1 + tap % 3
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width) & (offsets < count)
        value = tl.load(x_ptr + (plane * height + y) * width + x, mask=inside, other=0)
        sums += value * tl.load(w_ptr + plane % channels * 9 + tap, mask=offsets < count)
    tl.store(out_ptr + offsets, sums, mask=offsets < count)


def kernel_function(x, weight):
    _, channels, height, width = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(out.numel(), 256),)
    _depthwise[grid](x, weight, out, out.numel(), channels, height, width, BLOCK=256)
    return out
