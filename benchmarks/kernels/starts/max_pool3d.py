"""3-D max pooling, one output element a lane, every tap a guarded load."""

import torch
import triton
import triton.language as tl


@triton.jit
def _max_pool3d(
    x_ptr, out_ptr, count,
    D, H, W, OD, OH, OW,
    WINDOW: tl.constexpr, STRIDE: tl.constexpr, PADDING: tl.constexpr, DILATION: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offset = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    ox = offset % OW
    oy = offset // OW % OH
    oz = offset // (OW * OH) % OD
    plane = offset // (OW * OH * OD)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    for tap in range(WINDOW * WINDOW * WINDOW):
        z = oz * STRIDE - PADDING + tap // (WINDOW * WINDOW) * DILATION
        y = oy * STRIDE - PADDING + tap // WINDOW % WINDOW * DILATION
        x = ox * STRIDE - PADDING + tap % WINDOW * DILATION
        inside = (z >= 0) & (z < D) & (y >= 0) & (y < H) & (x >= 0) & (x < W) & (offset < count)
        at = ((plane * D + z) * H + y) * W + x
        value = tl.load(x_ptr + at, mask=inside, other=-float("inf")).to(tl.float32)
        best = tl.maximum(best, value, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out_ptr + offset, best.to(out_ptr.dtype.element_ty), mask=offset < count)


def kernel_function(
    x: torch.Tensor, kernel_size: int, stride: int, padding: int, dilation: int
) -> torch.Tensor:
    """`x` [batch, channels, depth, height, width] -> the same with smaller images."""
    batch, channels, *sizes = x.shape
    span = dilation * (kernel_size - 1) + 1
    shape = [(size + 2 * padding - span) // stride + 1 for size in sizes]
    out = torch.empty((batch, channels, *shape), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(out.numel(), 256),)
    _max_pool3d[grid](
        x, out, out.numel(), *sizes, *shape,
        WINDOW=kernel_size, STRIDE=stride, PADDING=padding, DILATION=dilation, BLOCK=256,
    )  # fmt: skip
    return out
