"""Max pooling, 32 outputs for eight warps."""

import triton
import triton.language as tl

MISTUNED = {"problem": "max_pool", "constants": {"BATCH": 64}}


@triton.jit
def _max_pool(x_ptr, out_ptr, count, height, width, high, wide, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    column, row, plane = at % wide, at // wide % high, at // (wide * high)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    for dy in tl.static_range(3):
        for dx in tl.static_range(3):
            y = row * 2 - 1 + dy
            x = column * 2 - 1 + dx
            ok = inside & (y >= 0) & (y < height) & (x >= 0) & (x < width)
            value = tl.load(x_ptr + (plane * height + y) * width + x, mask=ok, other=-float("inf"))
            best = tl.maximum(best, value, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out_ptr + at, best, mask=inside)


def kernel_function(x):
    batch, channels, height, width = x.shape
    high, wide = (height - 1) // 2 + 1, (width - 1) // 2 + 1
    out = x.new_empty((batch, channels, high, wide))
    n = out.numel()
    _max_pool[(triton.cdiv(n, 32),)](x, out, n, height, width, high, wide, BLOCK=32, num_warps=8)
    return out
