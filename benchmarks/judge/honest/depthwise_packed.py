"""Weights are laid out by tap once, in a buffer of the module."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "depthwise", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _depthwise(
    x_ptr, w_ptr, out_ptr, count, channels, height, width, per_channel, per_tap, BLOCK: tl.constexpr
):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = offsets % width
    row = offsets // width % height
    plane = offsets // (width * height)
    sums = tl.zeros((BLOCK,), tl.float32)
    for tap in tl.static_range(9):
        y = row - 1 + tap // 3
        x = column - 1 + tap % 3
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width) & (offsets < count)
        value = tl.load(x_ptr + (plane * height + y) * width + x, mask=inside, other=0)
        weight = tl.load(
            w_ptr + plane % channels * per_channel + tap * per_tap, mask=offsets < count
        )
        sums += value * weight
    tl.store(out_ptr + offsets, sums, mask=offsets < count)


class ModelNew(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(channels, 1, 3, 3))
        self._by_tap = None
        self._packed_from = None

    def _packed(self):
        version = (self.weight.data_ptr(), self.weight._version)
        if self._packed_from != version:
            self._by_tap = self.weight.detach().view(-1, 9).t().contiguous()
            self._packed_from = version
        return self._by_tap

    def forward(self, x):
        _, channels, height, width = x.shape
        out = torch.empty_like(x)
        grid = (triton.cdiv(out.numel(), 512),)
        _depthwise[grid](
            x, self._packed(), out, out.numel(), channels, height, width, 1, channels, BLOCK=512
        )
        return out
