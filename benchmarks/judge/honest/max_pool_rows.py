"""A row of outputs per lane block, as a module; the window's rows in a loop."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "max_pool", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _max_pool(x_ptr, out_ptr, height, width, out_height, out_width, BLOCK: tl.constexpr):
    row = tl.program_id(0) % out_height
    plane = tl.program_id(0) // out_height
    column = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    for dy in tl.static_range(3):
        y = row * 2 - 1 + dy + tl.zeros((BLOCK,), tl.int32)
        for dx in tl.static_range(3):
            x = column * 2 - 1 + dx
            inside = (x >= 0) & (x < width) & (column < out_width) & (y >= 0) & (y < height)
            value = tl.load(
                x_ptr + (plane * height + y) * width + x, mask=inside, other=-float("inf")
            )
            best = tl.maximum(best, value, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out_ptr + tl.program_id(0) * out_width + column, best, mask=column < out_width)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        batch, channels, height, width = x.shape
        high, wide = (height - 1) // 2 + 1, (width - 1) // 2 + 1
        out = x.new_empty((batch, channels, high, wide))
        grid = (batch * channels * high,)
        _max_pool[grid](x, out, height, width, high, wide, BLOCK=triton.next_power_of_2(wide))
        return out
