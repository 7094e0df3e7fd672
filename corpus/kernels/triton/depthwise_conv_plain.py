"""
---
slug: depthwise-conv-plain
title: Depthwise convolution, one load for each tap of each output
op: depthwise-conv
language: triton
techniques: []
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check:
    - [2, 3, 3, 9, 21, 3, 3, 1, 1, 1, 1]
    - [1, 2, 4, 11, 13, 3, 5, 2, 0, 1, 0]
    - [1, 3, 3, 7, 40, 3, 2, 1, 3, 3, 1]
    - [2, 2, 2, 1, 19, 1, 3, 1, 0, 1, 1]
  bench: [16, 64, 64, 512, 512, 3, 3, 1, 0, 1, 0]
check_params: {block: 128}
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
  baseline: eager
  baseline_ms: 2.524
  measured_ms: 3.187
  speedup: 0.792
  floor_fraction: 0.07892
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x64x64x512x512x3x3x1x0x1x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.16
  measured_ms: 3.187
  speedup: 0.364
  floor_fraction: 0.07892
---

One small filter a channel. A program takes a block of outputs in the order of memory; each output
reads all its taps and the channel's filter. Neighbouring windows overlap, so elements are loaded
once for each tap, all but once from L1 or L2.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [128, 256, 512, 1024], "num_warps": [2, 4, 8]}


@triton.jit
def _depthwise_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    total, C_OUT, MULTIPLIER, H, W, OH, OW,
    stride_xn, stride_xc, stride_xh, stride_xw,
    KH: tl.constexpr, KW: tl.constexpr,
    SH: tl.constexpr, SW: tl.constexpr,
    PH: tl.constexpr, PW: tl.constexpr,
    DH: tl.constexpr, DW: tl.constexpr,
    HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # A few GB have more than 2**31 elements.
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < total
    ow = (offsets % OW).to(tl.int32)
    rest = offsets // OW
    oh = (rest % OH).to(tl.int32)
    image = rest // OH
    channel = image % C_OUT
    images = x_ptr + image // C_OUT * stride_xn + channel // MULTIPLIER * stride_xc
    acc = tl.zeros((BLOCK,), tl.float32)
    for kh in range(KH):
        h = oh * SH - PH + kh * DH
        h_ok = inside & (h >= 0) & (h < H)
        rows = images + h.to(tl.int64) * stride_xh
        for kw in range(KW):
            w = ow * SW - PW + kw * DW
            ok = h_ok & (w >= 0) & (w < W)
            x = tl.load(rows + w.to(tl.int64) * stride_xw, mask=ok, other=0.0)
            taps = weight_ptr + (channel * KH + kh) * KW + kw
            acc += x.to(tl.float32) * tl.load(taps, mask=inside, other=0.0).to(tl.float32)
    if HAS_BIAS:
        acc += tl.load(bias_ptr + channel, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, acc.to(out_ptr.dtype.element_ty), mask=inside)


def _pair(value: int | Sequence[int], rank: int, name: str, least: int) -> tuple[int, int]:
    """For rows and for columns; the rows' is the least effect where there are none."""
    given = (value,) * rank if isinstance(value, int) else tuple(value)
    given = given * rank if len(given) == 1 else given
    if len(given) != rank or any(each < least for each in given):
        raise ValueError(f"{name} has to be {rank} numbers of at least {least}, not {value}")
    return (int(name != "padding") if rank == 1 else given[0], given[-1])


def kernel_function(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    block: int = 256,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return the convolution of `x` with `weight`, each output channel with one input channel.

    `x` [N, C, H, W], `weight` [C * m, 1, KH, KW], `bias` [C * m], or the same without H and KH, as
    for `torch.nn.functional.conv2d` with `groups` C. `x` has any strides; the result is contiguous.
    """
    rank = x.ndim - 2
    if rank not in (1, 2) or weight.ndim != x.ndim or x.dtype != weight.dtype:
        raise ValueError(f"cannot filter {x.dtype} {list(x.shape)} by {list(weight.shape)}")
    n, c = x.shape[:2]
    c_out, per_group, *window = weight.shape
    if per_group != 1 or c == 0 or c_out % c != 0:
        raise ValueError(f"weight {list(weight.shape)} is not one filter for each of {c} channels")
    if bias is not None and tuple(bias.shape) != (c_out,):
        raise ValueError(f"bias {list(bias.shape)} does not fit {c_out} channels")
    (sh, sw), (dh, dw) = _pair(stride, rank, "stride", 1), _pair(dilation, rank, "dilation", 1)
    ph, pw = _pair(padding, rank, "padding", 0)
    kh, kw = (1, *window)[-2:]
    h, w = (1, *x.shape[2:])[-2:]
    oh = (h + 2 * ph - dh * (kh - 1) - 1) // sh + 1
    ow = (w + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    if oh < 1 or ow < 1:
        raise ValueError(f"a window of {window} is too large for images of {list(x.shape[2:])}")
    out = torch.empty((n, c_out, *(oh, ow)[2 - rank :]), dtype=x.dtype, device=x.device)
    total = out.numel()
    if total:
        weight = weight.contiguous()
        _depthwise_kernel[(triton.cdiv(total, block),)](
            x, weight, weight if bias is None else bias.contiguous(), out,
            total, c_out, c_out // c, h, w, oh, ow,
            x.stride(0), x.stride(1), x.stride(2) if rank == 2 else 0, x.stride(-1),
            kh, kw, sh, sw, ph, pw, dh, dw,
            HAS_BIAS=bias is not None, BLOCK=block, num_warps=num_warps,
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
    name = f"conv{x.ndim - 2}d"
    convolve = getattr(torch.nn.functional, name)
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
