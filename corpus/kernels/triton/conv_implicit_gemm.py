"""
---
slug: conv-implicit-gemm
title: Convolution as implicit GEMM over taps and channels
op: conv
language: triton
techniques: [implicit-gemm, tensor-cores, software-pipelining]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: conv-plain
sizes:
  check:
    - [2, 3, 5, 9, 8, 3, 1, 1, 1, 1, 1]
    - [1, 4, 6, 11, 7, 3, 2, 1, 2, 2, 0]
    - [1, 2, 3, 4, 5, 3, 2, 1, 0, 1, 1, 1]
  bench: [32, 128, 128, 56, 56, 3, 1, 1, 1, 1, 0]
check_params: {block_m: 64, block_n: 16, block_k: 16}
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
  baseline: conv-plain
  baseline_ms: 5.907
  measured_ms: 0.3229
  speedup: 18.29
  floor_fraction: 0.1161
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 32x128x128x56x56x3x1x1x1x1x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1074
  measured_ms: 0.3229
  speedup: 0.3326
  floor_fraction: 0.1161
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 32x128x128x56x56x3x1x1x1x1x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.08749
  measured_ms: 0.3229
  speedup: 0.271
  floor_fraction: 0.1161
---

A convolution is a matrix product: [positions, taps x channels] by [taps x channels, outputs]. The
left matrix holds each element of the image once for each tap, so it is never written: a program
that owns BLOCK_M positions and BLOCK_N outputs loads, for one tap and BLOCK_K channels at a time,
the elements that the positions meet under that tap, and multiplies them on tensor cores.

`pack` brings the image into channels-last order first, unless it is: then the channels of a
position are neighbours and are copied to shared memory as vectors ahead of their use. In NCHW order
positions are neighbours instead, shifted by single elements from tap to tap, so that loads are one
element wide. The filters are always rearranged to [tap, channels, outputs]. Programs that share
positions run together, so that the image is read from DRAM about once.
"""

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [64, 128, 256],
    "block_n": [32, 64, 128, 256],
    "block_k": [16, 32, 64],
    "pack": [True, False],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}

# What tl.dot takes at least.
MIN_DOT = 16


@triton.jit
def _conv_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    BATCH, C_PER, OUT_PER, D, H, W, OD, OH, OW,
    stride_xn, stride_xc, stride_xd, stride_xh, stride_xw,
    KD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    SD: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    PD: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    DD: tl.constexpr, DH: tl.constexpr, DW: tl.constexpr,
    GROUPS: tl.constexpr, HAS_BIAS: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NUM_STAGES: tl.constexpr,
):  # fmt: skip
    # Outputs of the same positions first.
    pid = tl.program_id(0)
    blocks_n = tl.cdiv(OUT_PER, BLOCK_N)
    cols = pid % blocks_n * BLOCK_N + tl.arange(0, BLOCK_N)
    col_ok = cols < OUT_PER
    pid = pid // blocks_n
    group = pid % GROUPS
    tile = pid // GROUPS
    if WIDE:
        tile = tile.to(tl.int64)
    m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    positions = OD * OH * OW
    row_ok = m < tl.cast(positions, tile.dtype) * BATCH
    place = m % positions
    o_w = (place % OW).to(tl.int32)
    o_h = (place // OW % OH).to(tl.int32)
    o_d = (place // (OW * OH)).to(tl.int32)
    # Sizes times strides in int64: a few GB have more than 2**31 elements.
    image = (m // positions).to(tl.int64)
    x_images = x_ptr + image * stride_xn + tl.cast(group, tl.int64) * C_PER * stride_xc
    depth = tl.arange(0, BLOCK_K)
    blocks_k = tl.cdiv(C_PER, BLOCK_K)

    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in tl.range(0, KD * KH * KW * blocks_k, num_stages=NUM_STAGES):
        c = step % blocks_k * BLOCK_K + depth
        tap = step // blocks_k
        i_d = o_d * SD - PD + tap // (KH * KW) * DD
        i_h = o_h * SH - PH + tap // KW % KH * DH
        i_w = o_w * SW - PW + tap % KW * DW
        ok = row_ok & (i_d >= 0) & (i_d < D) & (i_h >= 0) & (i_h < H) & (i_w >= 0) & (i_w < W)
        at = x_images + i_d.to(tl.int64) * stride_xd + i_h.to(tl.int64) * stride_xh
        at += i_w.to(tl.int64) * stride_xw
        c_ok = c < C_PER
        a = tl.load(
            at[:, None] + c.to(tl.int64)[None, :] * stride_xc,
            mask=ok[:, None] & c_ok[None, :], other=0.0,
        )  # fmt: skip
        filters = ((tap * GROUPS + group) * C_PER + c)[:, None] * OUT_PER + cols[None, :]
        b = tl.load(weight_ptr + filters, mask=c_ok[:, None] & col_ok[None, :], other=0.0)
        # float32 operands: three TF32 products keep float32 accuracy on tensor cores.
        acc = tl.dot(a, b, acc, input_precision="tf32x3")
    channel = group * OUT_PER + cols
    if HAS_BIAS:
        acc += tl.load(bias_ptr + channel, mask=col_ok, other=0.0).to(tl.float32)[None, :]
    # Positions last: neighbouring threads write neighbouring positions.
    rows = out_ptr + image * (GROUPS * OUT_PER) * positions + place
    tl.store(
        rows[None, :] + channel.to(tl.int64)[:, None] * positions,
        tl.trans(acc).to(out_ptr.dtype.element_ty),
        mask=col_ok[:, None] & row_ok[None, :],
    )


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
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 64,
    pack: bool = True,
    num_warps: int = 8,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return the convolution of `x` [N, C, ...] with `weight` [OUT, C / groups, ...].

    One to three dimensions, settings as in `torch.nn.functional.conv2d`; `bias` [OUT]. `x` has any
    strides; the result is contiguous. `block_k` is cut to 128 bytes.
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
    if out.numel() == 0:
        return out
    if x.dtype == torch.bfloat16 and not x.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        x, weight = x.float(), weight.float()
    if pack:
        x = x.movedim(1, -1).contiguous().movedim(-1, 1)
    weight = weight.reshape(groups, out_per, per, math.prod(k)).permute(3, 0, 2, 1).contiguous()
    strides = (*x.stride()[:2], *(0,) * (3 - rank), *x.stride()[2:])
    block_n = min(block_n, max(MIN_DOT, triton.next_power_of_2(out_per)))
    block_k = min(block_k, 128 // x.element_size(), max(MIN_DOT, triton.next_power_of_2(per)))
    positions = n * math.prod(o)
    grid = (triton.cdiv(positions, block_m) * groups * triton.cdiv(out_per, block_n),)
    _conv_kernel[grid](
        x, weight, weight if bias is None else bias.contiguous(), out,
        n, per, out_per, *image, *o,
        *strides,
        *k, *s, *p, *d,
        GROUPS=groups, HAS_BIAS=bias is not None, WIDE=positions + block_m >= 2**31,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, NUM_STAGES=num_stages,
        num_warps=num_warps,
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
