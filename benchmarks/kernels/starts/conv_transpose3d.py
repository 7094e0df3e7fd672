"""3-D transposed convolution, gathered: an output element looks for the inputs that reach it."""

import torch
import triton
import triton.language as tl


@triton.jit
def _conv_transpose3d(
    x_ptr, weight_ptr, out_ptr,
    D, H, W, OD, OH, OW,
    CIN: tl.constexpr, COUT: tl.constexpr,
    WINDOW: tl.constexpr, STRIDE: tl.constexpr, PADDING: tl.constexpr, DILATION: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    position = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    image = tl.program_id(1)
    out_channel = tl.arange(0, COUT)
    ox = position % OW
    oy = position // OW % OH
    oz = position // (OW * OH)
    taps: tl.constexpr = WINDOW * WINDOW * WINDOW
    total = tl.zeros((BLOCK, COUT), tl.float32)
    for tap in range(taps):
        z = oz + PADDING - tap // (WINDOW * WINDOW) * DILATION
        y = oy + PADDING - tap // WINDOW % WINDOW * DILATION
        x = ox + PADDING - tap % WINDOW * DILATION
        inside = (z >= 0) & (y >= 0) & (x >= 0)
        inside = inside & (z % STRIDE == 0) & (y % STRIDE == 0) & (x % STRIDE == 0)
        z, y, x = z // STRIDE, y // STRIDE, x // STRIDE
        inside = inside & (z < D) & (y < H) & (x < W) & (oz < OD)
        for channel in range(CIN):
            at = (((image.to(tl.int64) * CIN + channel) * D + z) * H + y) * W + x
            value = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
            weight = tl.load(weight_ptr + (channel * COUT + out_channel) * taps + tap)
            total += value[:, None] * weight.to(tl.float32)[None, :]
    volume = OD * OH * OW
    at = (image.to(tl.int64) * COUT + out_channel[None, :]) * volume + position[:, None]
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=(position < volume)[:, None])


def kernel_function(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> torch.Tensor:
    """`x` [batch, in, depth, height, width], `weight` [in, out, k, k, k] -> [batch, out, ...].

    The number of output channels is a power of two; stride, padding and dilation are equal in
    all directions.
    """
    batch, cin, *sizes = x.shape
    cout, window = weight.shape[1], weight.shape[2]
    s, p, d = stride[0], padding[0], dilation[0]
    shape = [(size - 1) * s - 2 * p + d * (window - 1) + 1 for size in sizes]
    out = torch.empty((batch, cout, *shape), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(shape[0] * shape[1] * shape[2], 64), batch)
    _conv_transpose3d[grid](
        x, weight, out, *sizes, *shape,
        CIN=cin, COUT=cout, WINDOW=window, STRIDE=s, PADDING=p, DILATION=d, BLOCK=64,
    )  # fmt: skip
    return out
