"""
---
slug: conv-plain
title: Convolution, each output adding up its taps and channels
op: conv
language: triton
techniques: []
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check:
    - [2, 3, 5, 9, 8, 3, 1, 1, 1, 1, 1]
    - [1, 4, 6, 11, 7, 3, 2, 1, 2, 2, 0]
    - [1, 2, 3, 4, 5, 3, 2, 1, 0, 1, 1, 1]
  bench: [32, 128, 128, 56, 56, 3, 1, 1, 1, 1, 0]
check_params: {block: 256}
sources:
  - title: "Chetlur et al.: cuDNN: Efficient Primitives for Deep Learning"
    url: https://arxiv.org/abs/1410.0759
    licence: proprietary
  - title: "PyTorch: torch.nn.Conv2d"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html
    licence: BSD-3-Clause
  - title: "Triton: triton.language.dot"
    url: https://triton-lang.org/main/python-api/generated/triton.language.dot.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 32x128x128x56x56x3x1x1x1x1x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1071
  measured_ms: 5.905
  speedup: 0.01814
  floor_fraction: 0.006346
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 32x128x128x56x56x3x1x1x1x1x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.08691
  measured_ms: 5.905
  speedup: 0.01472
  floor_fraction: 0.006346
---

A program takes a block of outputs in the order of memory; each output adds up its taps and channels
one product at a time. Nothing is shared but what the caches hold, and no tensor core is used.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [128, 256, 512], "num_warps": [4, 8]}


@triton.jit
def _conv_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    total, C_PER, OUT_PER, GROUPS, D, H, W, OD, OH, OW,
    stride_xn, stride_xc, stride_xd, stride_xh, stride_xw,
    KD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    SD: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    PD: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    DD: tl.constexpr, DH: tl.constexpr, DW: tl.constexpr,
    HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # A few GB have more than 2**31 elements.
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < total
    ow = (offsets % OW).to(tl.int32)
    rest = offsets // OW
    oh = (rest % OH).to(tl.int32)
    rest = rest // OH
    od = (rest % OD).to(tl.int32)
    rest = rest // OD
    channel = rest % (GROUPS * OUT_PER)
    first = channel // OUT_PER * C_PER
    images = x_ptr + rest // (GROUPS * OUT_PER) * stride_xn
    acc = tl.zeros((BLOCK,), tl.float32)
    for kd in range(KD):
        d = od * SD - PD + kd * DD
        d_ok = inside & (d >= 0) & (d < D)
        for kh in range(KH):
            h = oh * SH - PH + kh * DH
            h_ok = d_ok & (h >= 0) & (h < H)
            rows = d.to(tl.int64) * stride_xd + h.to(tl.int64) * stride_xh
            for kw in range(KW):
                w = ow * SW - PW + kw * DW
                ok = h_ok & (w >= 0) & (w < W)
                at = images + rows + w.to(tl.int64) * stride_xw
                for c in range(C_PER):
                    x = tl.load(at + (first + c) * stride_xc, mask=ok, other=0.0)
                    filters = channel * C_PER + c
                    tap = ((filters * KD + kd) * KH + kh) * KW + kw
                    weight = tl.load(weight_ptr + tap, mask=ok, other=0.0)
                    acc += x.to(tl.float32) * weight.to(tl.float32)
    if HAS_BIAS:
        acc += tl.load(bias_ptr + channel, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, acc.to(out_ptr.dtype.element_ty), mask=inside)


def _each(value: int | Sequence[int], rank: int, name: str, least: int) -> tuple[int, ...]:
    """One number for each of three dimensions; those before the image's are the least effect."""
    given = (value,) * rank if isinstance(value, int) else tuple(value)
    given = given * rank if len(given) == 1 else given
    if len(given) != rank or any(each < least for each in given):
        raise ValueError(f"{name} has to be {rank} numbers of at least {least}, not {value}")
    return (int(least > 0),) * (3 - rank) + given


def kernel_function(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    block: int = 256,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return the convolution of `x` [N, C, ...] with `weight` [OUT, C / groups, ...].

    One to three dimensions, settings as in `torch.nn.functional.conv2d`; `bias` [OUT]. `x` has any
    strides; the result is contiguous.
    """
    rank = x.ndim - 2
    if rank not in (1, 2, 3) or weight.ndim != x.ndim or x.dtype != weight.dtype:
        raise ValueError(f"cannot convolve {x.dtype} {list(x.shape)} with {list(weight.shape)}")
    n, c = x.shape[:2]
    c_out, per = weight.shape[:2]
    if groups < 1 or per * groups != c or c_out % groups:
        raise ValueError(f"weight {list(weight.shape)} does not fit {c} channels, {groups} groups")
    if bias is not None and tuple(bias.shape) != (c_out,):
        raise ValueError(f"bias {list(bias.shape)} does not fit {c_out} channels")
    out_per = c_out // groups
    s, d = _each(stride, rank, "stride", 1), _each(dilation, rank, "dilation", 1)
    p = _each(padding, rank, "padding", 0)
    k = (1,) * (3 - rank) + tuple(weight.shape[2:])
    image = (1,) * (3 - rank) + tuple(x.shape[2:])
    o = [
        (size + 2 * pl - dl * (kl - 1) - 1) // sl + 1
        for size, kl, sl, pl, dl in zip(image, k, s, p, d, strict=True)
    ]
    if min(o) < 1:
        raise ValueError(f"a window of {list(k)} is too large for images of {list(image)}")
    out = torch.empty((n, c_out, *o[3 - rank :]), dtype=x.dtype, device=x.device)
    total = out.numel()
    if total:
        strides = (*x.stride()[:2], *(0,) * (3 - rank), *x.stride()[2:])
        weight = weight.contiguous()
        _conv_kernel[(triton.cdiv(total, block),)](
            x, weight, weight if bias is None else bias.contiguous(), out,
            total, per, out_per, groups, *image, *o,
            *strides,
            *k, *s, *p, *d,
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
    groups: int = 1,
) -> torch.Tensor:
    convolve = getattr(torch.nn.functional, f"conv{x.ndim - 2}d")
    y: torch.Tensor = convolve(x, weight, bias, stride, padding, dilation, groups)
    return y


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | int | None]:
    """`size` is [N, C, OUT, one to three lengths, window, stride, padding, dilation, groups, 1 with
    a bias]."""
    n, c, c_out, *lengths, window, stride, padding, dilation, groups, has_bias = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x, weight, bias = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((n, c, *lengths), (c_out, c // groups, *(window,) * len(lengths)), (c_out,))
    )
    return [x, weight, bias if has_bias else None, stride, padding, dilation, groups]
