"""
---
slug: avg-pool-plain
title: Average pooling, one load for each tap of each output
op: avg-pool
language: triton
techniques: []
architectures: [sm_80]
dtypes: [float64, float32, float16, bfloat16]
sizes:
  check:
    - [1, 2, 9, 10, 11, 3, 2, 1, 0, 1]
    - [1, 3, 11, 21, 3, 2, 1, 1, 0]
    - [5, 2, 37, 4, 3, 2, 1, 1]
  bench: [16, 32, 128, 128, 128, 3, 2, 1, 0, 1]
check_params: {block: 128}
sources:
  - title: "PyTorch: torch.nn.AvgPool3d"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool3d.html
    licence: BSD-3-Clause
  - title: "CUDA C++ Best Practices Guide"
    url: https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x128x128x128x3x2x1x0x1
  dtype: bfloat16
  baseline: eager
  baseline_ms: 4.299
  measured_ms: 2.239
  speedup: 1.92
  floor_fraction: 0.2537
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x128x128x128x3x2x1x0x1
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 4.301
  measured_ms: 2.239
  speedup: 1.921
  floor_fraction: 0.2537
---

Average pooling over one, two or three dimensions, any window, stride and padding. A program takes a
block of outputs in the order of memory; each output reads all its taps. Neighbouring windows
overlap, so most elements are loaded several times, from L1 or L2.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [128, 256, 512, 1024], "num_warps": [2, 4, 8]}


@triton.jit
def _count(o, SIZE, K: tl.constexpr, S: tl.constexpr, P: tl.constexpr, WITH_PADDING: tl.constexpr):
    """By how many elements a dimension divides the sum, as PyTorch counts them."""
    begin = o * S - P
    end = begin + K
    # Padding counts where asked for; what a rounded-up last window has beyond it never does.
    margin = P if WITH_PADDING else 0
    return tl.minimum(end, SIZE + margin) - tl.maximum(begin, -margin)


@triton.jit
def _avg_pool_kernel(
    x_ptr, out_ptr,
    total, C, D, H, W, OD, OH, OW,
    stride_xn, stride_xc, stride_xd, stride_xh, stride_xw,
    KD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    SD: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    PD: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    WITH_PADDING: tl.constexpr, DIVISOR: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # A few GB have more than 2**31 elements.
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < total
    ow = (offsets % OW).to(tl.int32)
    rest = offsets // OW
    oh = (rest % OH).to(tl.int32)
    rest = rest // OH
    od = (rest % OD).to(tl.int32)
    image = rest // OD
    images = x_ptr + image // C * stride_xn + image % C * stride_xc
    wide = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    total_of = tl.zeros((BLOCK,), wide)
    for kd in range(KD):
        d = od * SD - PD + kd
        d_ok = inside & (d >= 0) & (d < D)
        for kh in range(KH):
            h = oh * SH - PH + kh
            h_ok = d_ok & (h >= 0) & (h < H)
            rows = images + d.to(tl.int64) * stride_xd + h.to(tl.int64) * stride_xh
            for kw in range(KW):
                w = ow * SW - PW + kw
                ok = h_ok & (w >= 0) & (w < W)
                x = tl.load(rows + w.to(tl.int64) * stride_xw, mask=ok, other=0.0)
                total_of += x.to(wide)
    if DIVISOR != 0:
        mean = total_of / DIVISOR
    else:
        count = _count(od, D, KD, SD, PD, WITH_PADDING)
        count *= _count(oh, H, KH, SH, PH, WITH_PADDING) * _count(ow, W, KW, SW, PW, WITH_PADDING)
        mean = total_of / count.to(wide)
    tl.store(out_ptr + offsets, mean.to(out_ptr.dtype.element_ty), mask=inside)


def _each(value: int | Sequence[int], rank: int, name: str, least: int) -> tuple[int, ...]:
    """One number for each of three dimensions; those before the image's are the least effect."""
    given = (value,) * rank if isinstance(value, int) else tuple(value)
    given = given * rank if len(given) == 1 else given
    if len(given) != rank or any(each < least for each in given):
        raise ValueError(f"{name} has to be {rank} numbers of at least {least}, not {value}")
    return (int(name != "padding"),) * (3 - rank) + given


def _length(size: int, k: int, s: int, p: int, ceil_mode: bool) -> int:
    """Outputs along a dimension, as PyTorch counts them."""
    room = size + 2 * p - k
    count = (room + (s - 1 if ceil_mode else 0)) // s + 1
    # A window has to begin inside the image or the padding before it.
    return count - 1 if ceil_mode and (count - 1) * s >= size + p else count


def kernel_function(
    x: torch.Tensor,
    kernel_size: int | Sequence[int] = 3,
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    block: int = 256,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return the means of `x` [N, C, ...] over windows of its one to three last dimensions.

    `x` has any strides; the result is contiguous. Sizes are as in `torch.nn.AvgPool3d`, `stride` by
    default the window's.
    """
    rank = x.ndim - 2
    if not 1 <= rank <= 3 or not x.is_floating_point():
        raise ValueError(f"cannot pool {x.dtype} {list(x.shape)}: floats [N, C, 1 to 3 dimensions]")
    k = _each(kernel_size, rank, "kernel_size", 1)
    s = _each(kernel_size if stride is None else stride, rank, "stride", 1)
    p = _each(padding, rank, "padding", 0)
    image = (1,) * (3 - rank) + tuple(x.shape[2:])
    strides = (*x.stride()[:2], *(0,) * (3 - rank), *x.stride()[2:])
    lengths = [_length(*sizes, ceil_mode) for sizes in zip(image, k, s, p, strict=True)]
    if min(lengths) < 1:
        raise ValueError(f"a window of {kernel_size} is too large for images of {list(image)}")
    if any(2 * each > kl for each, kl in zip(p, k, strict=True)):
        raise ValueError(f"padding {padding} is more than half of the window {kernel_size}")
    if divisor_override == 0:
        raise ValueError("divisor_override 0: cannot divide by it")
    out = torch.empty((*x.shape[:2], *lengths[3 - rank :]), dtype=x.dtype, device=x.device)
    total = out.numel()
    if total:
        _avg_pool_kernel[(triton.cdiv(total, block),)](
            x, out,
            total, x.shape[1], *image, *lengths,
            *strides,
            *k, *s, *p, count_include_pad, divisor_override or 0,
            BLOCK=block, num_warps=num_warps,
        )  # fmt: skip
    return out


def reference(
    x: torch.Tensor,
    kernel_size: int = 3,
    stride: int | None = None,
    padding: int = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> torch.Tensor:
    pool = getattr(torch.nn.functional, f"avg_pool{x.ndim - 2}d")
    # PyTorch has no 3-D average of 16-bit floats on the CPU.
    given = x.float() if x.element_size() == 2 and not x.is_cuda else x
    pooled: torch.Tensor = pool(given, kernel_size, stride, padding, ceil_mode, count_include_pad)
    return pooled.to(x.dtype)


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | int | bool]:
    """`size` is [N, C, one to three lengths, window, stride, padding, ceil_mode,
    count_include_pad]."""
    *shape, window, stride, padding, ceil_mode, with_padding = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(shape, dtype=dtype, device=device, generator=generator)
    return [x, window, stride, padding, bool(ceil_mode), bool(with_padding)]
