"""
---
slug: conv-transpose-plain
title: Transposed convolution, each output asking every tap and channel
op: conv-transpose
language: triton
techniques: []
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check:
    - [1, 3, 5, 4, 3, 5, 3, 2, 1, 2, 0, 1]
    - [2, 4, 6, 1, 4, 3, 3, 2, 1, 1, 1, 0]
    - [1, 2, 3, 5, 7, 2, 3, 0, 1, 0, 1]
    - [1, 3, 2, 19, 4, 1, 2, 3, 0, 0]
  bench: [16, 32, 64, 16, 32, 32, 3, 2, 1, 2, 0, 0]
check_params: {block: 256}
sources:
  - title: "Dumoulin, Visin: A guide to convolution arithmetic for deep learning"
    url: https://arxiv.org/abs/1603.07285
    licence: proprietary
  - title: "PyTorch: torch.nn.ConvTranspose3d"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose3d.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.248
  measured_ms: 67.19
  speedup: 0.01857
  floor_fraction: 0.001058
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.252
  measured_ms: 67.19
  speedup: 0.01863
  floor_fraction: 0.001058
---

A program takes a block of outputs in the order of memory. Output o gets x[i] w[k] from tap k where
o + P - k D = i S for an i inside the image; each output tries all taps and, for those that reach
it, adds up the channels. With stride 2 and dilation 2 in three dimensions seven of eight outputs
try all taps in vain.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [128, 256, 512], "num_warps": [4, 8]}


@triton.jit
def _conv_transpose_kernel(
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
        d = od + PD - kd * DD
        d_ok = inside & (d >= 0) & (d % SD == 0) & (d // SD < D)
        for kh in range(KH):
            h = oh + PH - kh * DH
            h_ok = d_ok & (h >= 0) & (h % SH == 0) & (h // SH < H)
            rows = (d // SD).to(tl.int64) * stride_xd + (h // SH).to(tl.int64) * stride_xh
            for kw in range(KW):
                w = ow + PW - kw * DW
                ok = h_ok & (w >= 0) & (w % SW == 0) & (w // SW < W)
                at = images + rows + (w // SW).to(tl.int64) * stride_xw
                for c in range(C_PER):
                    x = tl.load(at + (first + c) * stride_xc, mask=ok, other=0.0)
                    filters = (first + c) * OUT_PER + channel % OUT_PER
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
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    block: int = 256,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return the transposed convolution of `x` [N, C, ...] with `weight` [C, OUT / groups, ...].

    One to three dimensions, settings as in `torch.nn.functional.conv_transpose3d`; `bias` [OUT].
    `x` has any strides; the result is contiguous.
    """
    rank = x.ndim - 2
    if rank not in (1, 2, 3) or weight.ndim != x.ndim or x.dtype != weight.dtype:
        raise ValueError(f"cannot convolve {x.dtype} {list(x.shape)} with {list(weight.shape)}")
    n, c = x.shape[:2]
    if groups < 1 or weight.shape[0] != c or c % groups:
        raise ValueError(f"weight {list(weight.shape)} does not fit {c} channels, {groups} groups")
    per, out_per = c // groups, weight.shape[1]
    if bias is not None and tuple(bias.shape) != (groups * out_per,):
        raise ValueError(f"bias {list(bias.shape)} does not fit {groups * out_per} channels")
    s, d = _each(stride, rank, "stride", 1), _each(dilation, rank, "dilation", 1)
    p, more = _each(padding, rank, "padding", 0), _each(output_padding, rank, "output_padding", 0)
    if any(each >= max(sl, dl) for each, sl, dl in zip(more, s, d, strict=True)):
        raise ValueError(f"output_padding {output_padding} has to be less than stride or dilation")
    k = (1,) * (3 - rank) + tuple(weight.shape[2:])
    image = (1,) * (3 - rank) + tuple(x.shape[2:])
    o = [
        (size - 1) * sl - 2 * pl + dl * (kl - 1) + ml + 1
        for size, kl, sl, pl, dl, ml in zip(image, k, s, p, d, more, strict=True)
    ]
    if min(o) < 1:
        raise ValueError(f"padding {padding} leaves nothing of images of {list(x.shape[2:])}")
    out = torch.empty((n, groups * out_per, *o[3 - rank :]), dtype=x.dtype, device=x.device)
    total = out.numel()
    if total:
        strides = (*x.stride()[:2], *(0,) * (3 - rank), *x.stride()[2:])
        weight = weight.contiguous()
        _conv_transpose_kernel[(triton.cdiv(total, block),)](
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
    output_padding: int = 0,
    groups: int = 1,
    dilation: int = 1,
) -> torch.Tensor:
    convolve = getattr(torch.nn.functional, f"conv_transpose{x.ndim - 2}d")
    y: torch.Tensor = convolve(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return y


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | int | None]:
    """`size` is [N, C, OUT, one to three lengths, window, stride, padding, dilation,
    output_padding, whether there is a bias]."""
    n, c, c_out, *lengths, window, stride, padding, dilation, output_padding, has_bias = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x, weight, bias = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((n, c, *lengths), (c, c_out, *(window,) * len(lengths)), (c_out,))
    )
    given = bias if has_bias else None
    return [x, weight, given, stride, padding, output_padding, 1, dilation]
