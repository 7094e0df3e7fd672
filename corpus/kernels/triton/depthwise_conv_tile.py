"""
---
slug: depthwise-conv-tile
title: Depthwise convolution of a tile of one plane, taps unrolled
op: depthwise-conv
language: triton
techniques: [register-caching, coalesced-access, loop-unrolling]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: depthwise-conv-plain
sizes:
  check:
    - [2, 3, 3, 9, 21, 3, 3, 1, 1, 1, 1]
    - [1, 2, 4, 11, 13, 3, 5, 2, 0, 1, 0]
    - [1, 3, 3, 7, 40, 3, 2, 1, 3, 3, 1]
    - [2, 2, 2, 1, 19, 1, 3, 1, 0, 1, 1]
  bench: [16, 64, 64, 512, 512, 3, 3, 1, 0, 1, 0]
check_params: {rows: 4, cols: 32}
sources:
  - title: "Howard et al.: MobileNets"
    url: https://arxiv.org/abs/1704.04861
    licence: proprietary
  - title: "PyTorch: torch.nn.Conv2d"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x64x64x512x512x3x3x1x0x1x0
  dtype: bfloat16
  baseline: depthwise-conv-plain
  baseline_ms: 3.187
  measured_ms: 0.7711
  speedup: 4.133
  floor_fraction: 0.3262
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x64x64x512x512x3x3x1x0x1x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 2.524
  measured_ms: 0.7711
  speedup: 3.273
  floor_fraction: 0.3262
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x64x64x512x512x3x3x1x0x1x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.159
  measured_ms: 0.7711
  speedup: 1.503
  floor_fraction: 0.3262
---

One small filter a channel. A program owns a tile of one plane's outputs, so the filter is one
number a tap, loaded once for the tile, and no thread divides to find its channel. Taps are
unrolled; windows overlap, so that all but one load of an element hit L1. Columns lie along threads:
every load and store is coalesced.

`depthwise-conv-strips` keeps the rows that the next outputs need in registers instead of reading
them again.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"rows": [1, 2, 4, 8, 16], "cols": [32, 64, 128, 256], "num_warps": [2, 4, 8]}


@triton.jit
def _depthwise_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, C_OUT, MULTIPLIER, H, W, OH, OW,
    stride_n, stride_c, stride_h, stride_w,
    KH: tl.constexpr, KW: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    PH: tl.constexpr, PW: tl.constexpr, DH: tl.constexpr, DW: tl.constexpr,
    HAS_BIAS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    plane = tl.program_id(0)
    channel = plane % C_OUT
    tiles_w = tl.cdiv(OW, COLS)
    oh = tl.program_id(1) // tiles_w * ROWS + tl.arange(0, ROWS)[:, None]
    ow = tl.program_id(1) % tiles_w * COLS + tl.arange(0, COLS)[None, :]
    # Planes are counted in int64: a few GB have more than 2**31 elements.
    image = x_ptr + (plane // C_OUT).to(tl.int64) * stride_n
    image += (channel // MULTIPLIER).to(tl.int64) * stride_c
    acc = tl.zeros((ROWS, COLS), tl.float32)
    for kh in tl.static_range(KH):
        h = oh * SH - PH + kh * DH
        for kw in tl.static_range(KW):
            w = ow * SW - PW + kw * DW
            ok = (h >= 0) & (h < H) & (w >= 0) & (w < W)
            x = tl.load(image + h * stride_h + w * stride_w, mask=ok, other=0.0)
            acc += x.to(tl.float32) * tl.load(weight_ptr + (channel * KH + kh) * KW + kw)
    if HAS_BIAS:
        acc += tl.load(bias_ptr + channel).to(tl.float32)
    # Elementwise work that follows the convolution belongs here, on the float32 sums.
    to = out_ptr + plane.to(tl.int64) * OH * OW + oh * OW + ow
    tl.store(to, acc.to(out_ptr.dtype.element_ty), mask=(oh < OH) & (ow < OW))


def _pair(value, rank: int, missing: int) -> tuple[int, ...]:
    given = (value,) * rank if isinstance(value, int) else tuple(value)
    return (missing,) * (2 - rank) + given


def kernel_function(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride=1,
    padding=0,
    dilation=1,
    rows: int = 8,
    cols: int = 128,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return the convolution of `x` [N, C, H, W] with `weight` [C * m, 1, KH, KW], each output
    channel with one input channel, as `torch.nn.functional.conv2d` with `groups` C. `bias` [C * m].

    H and KH may be missing. `x` has any strides; a plane has less than 2**31 elements.
    """
    bias = None if bias is None else bias.contiguous()
    rank = x.ndim - 2
    if rank not in (1, 2) or weight.ndim != x.ndim or x.dtype != weight.dtype:
        raise ValueError(f"cannot filter {x.dtype} {list(x.shape)} by {list(weight.shape)}")
    if weight.shape[1] != 1 or x.shape[1] == 0 or weight.shape[0] % x.shape[1]:
        raise ValueError(f"weight {list(weight.shape)} is not one filter for each channel")
    s, d, p = _pair(stride, rank, 1), _pair(dilation, rank, 1), _pair(padding, rank, 0)
    k, size = _pair(weight.shape[2:], rank, 1), _pair(x.shape[2:], rank, 1)
    o = [(size[i] + 2 * p[i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i in range(2)]
    if min(o) < 1:
        raise ValueError(f"a window of {list(k)} is too large for images of {list(size)}")
    n, c, c_out = x.shape[0], x.shape[1], weight.shape[0]
    out = torch.empty((n, c_out, *o[2 - rank :]), dtype=x.dtype, device=x.device)
    cols = min(cols, triton.next_power_of_2(o[1]))
    _depthwise_kernel[(n * c_out, triton.cdiv(o[0], rows) * triton.cdiv(o[1], cols))](
        x, weight.contiguous(), bias, out, c_out, c_out // c, *size, *o,
        x.stride(0), x.stride(1), x.stride(2) if rank == 2 else 0, x.stride(-1),
        *k, *s, *p, *d, HAS_BIAS=bias is not None, ROWS=rows, COLS=cols, num_warps=num_warps,
    )  # fmt: skip
    return out


def reference(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
) -> torch.Tensor:
    convolve = getattr(torch.nn.functional, f"conv{x.ndim - 2}d")
    y: torch.Tensor = convolve(x, weight, bias, stride, padding, dilation, groups=x.shape[1])
    return y


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | int | None]:
    """`size` is [N, C, C_out, H, W, KH, KW, stride, padding, dilation, whether there is a bias]."""
    n, c, c_out, h, w, kh, kw, stride, padding, dilation, has_bias = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x, weight, bias = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((n, c, h, w), (c_out, 1, kh, kw), (c_out,))
    )
    return [x, weight, bias if has_bias else None, stride, padding, dilation]
