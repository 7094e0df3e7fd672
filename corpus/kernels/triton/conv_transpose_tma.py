"""
---
slug: conv-transpose-tma
title: Transposed convolution by output parity on TMA rows, empty classes filled beforehand
op: conv-transpose
language: triton
techniques:
  - structural-sparsity
  - implicit-gemm
  - tma-host-descriptor
  - data-layout-transform
  - tensor-cores
architectures: [sm_90]
dtypes: [float32, float16, bfloat16]
derived_from: conv-transpose-parity
sizes:
  check:
    - [1, 3, 5, 4, 3, 5, 3, 2, 1, 2, 0, 1]
    - [2, 4, 6, 1, 4, 3, 3, 2, 1, 1, 1, 0]
    - [1, 2, 3, 5, 7, 2, 3, 0, 1, 0, 1]
    - [1, 3, 2, 19, 4, 1, 2, 3, 0, 0]
  bench: [16, 32, 64, 16, 32, 32, 3, 2, 1, 2, 0, 0]
check_params: {block_m: 64, block_n: 16, block_k: 16}
sources:
  - title: "Dumoulin, Visin: A guide to convolution arithmetic for deep learning"
    url: https://arxiv.org/abs/1603.07285
    licence: proprietary
  - title: "PyTorch: torch.nn.ConvTranspose3d"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose3d.html
    licence: BSD-3-Clause
  - title: "Triton: triton.language.tensor_descriptor"
    url: https://triton-lang.org/main/python-api/generated/triton.language.tensor_descriptor.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: conv-transpose-parity
  baseline_ms: 0.2153
  measured_ms: 0.2694
  speedup: 0.7992
  floor_fraction: 0.265
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.151
  measured_ms: 0.2694
  speedup: 4.272
  floor_fraction: 0.265
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.152
  measured_ms: 0.2694
  speedup: 4.276
  floor_fraction: 0.265
---

The outputs of a transposed convolution of stride S fall into S classes a dimension by their
position mod S. Each class has its own taps, and is a dense convolution of the image with them:
output S * q + r gets element q + (r + P - k D) / S from each tap k that leaves nothing over. So
under one tap neighbouring outputs of a class need neighbouring elements. The image is packed
channels-last with a few zeros after each row and plane, enough for what is read beyond an edge;
then a tap moves all positions by one number, and the left operand of the matrix product is BLOCK_M
consecutive rows, one TMA load.

A program takes positions of one class along depth and height, and the classes along the width one
after the other, which it interleaves to write whole rows. With `fill`, where some classes have no
tap at all (stride and dilation with a common divisor), the output is first written with the bias
by a plain fill, which runs at full bandwidth, and the programs of these classes end at once.
"""

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

TUNABLES = {
    "block_m": [128, 256],
    "block_n": [32, 64, 128],
    "block_k": [32, 64],
    "fill": [True, False],
    "num_warps": [4, 8],
    "num_stages": [3, 4, 5],
}

# What tl.dot takes at least.
MIN_DOT = 16
# Positions and channels that a program of the packing takes: 128 bytes of 16-bit values either way.
PACK_P, PACK_C = 64, 64


@triton.jit
def _unchanged(x, lead, lane, mask, operands):
    """Elementwise functions get float32 values, and where they lie in the contiguous tensor: at
    `lead + lane`, `lane` along neighbours. `operands` is what the caller gave with them."""
    return x


@triton.jit
def _pack_kernel(
    x_ptr, out_ptr,
    BATCH, C_PER, C_PAD, D, H, W, PITCH_D, PITCH_H, PITCH_W,
    stride_xn, stride_xc, stride_xd, stride_xh, stride_xw,
    BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """[N, C, D, H, W] -> [group, N, PITCH_D, PITCH_H, PITCH_W, C / groups], zeros between."""
    blocks_c = tl.cdiv(C_PER, BLOCK_C)
    positions = PITCH_D * PITCH_H * PITCH_W
    blocks_p = tl.cdiv(positions, BLOCK_P)
    pid = tl.program_id(0)
    place = pid % blocks_p * BLOCK_P + tl.arange(0, BLOCK_P)
    pid = pid // blocks_p
    c = pid % blocks_c * BLOCK_C + tl.arange(0, BLOCK_C)
    # What is left numbers group and image.
    lead = (pid // blocks_c).to(tl.int64)
    n = lead % BATCH
    w = place % PITCH_W
    h = place // PITCH_W % PITCH_H
    d = place // (PITCH_W * PITCH_H)
    inside = (d < D) & (h < H) & (w < W)
    at = d.to(tl.int64) * stride_xd + h.to(tl.int64) * stride_xh + w.to(tl.int64) * stride_xw
    channel = lead // BATCH * C_PER + c
    # Called neighbours for threads to be laid out along the positions.
    source = channel[:, None] * stride_xc + (n * stride_xn + at)[None, :]
    source = tl.max_contiguous(source, [1, 2])
    x = tl.load(x_ptr + source, mask=(c < C_PER)[:, None] & inside[None, :], other=0.0)
    row = lead * positions + place
    # Stored in this shape, not transposed: else the loads would be laid out as these stores are.
    mask = (c < C_PER)[:, None] & (place < positions)[None, :]
    tl.store(out_ptr + row[None, :] * C_PAD + c[:, None], x, mask=mask)


@triton.constexpr_function
def _taps_of(residue, taps, stride, dilation, padding):
    """First tap that reaches outputs with this residue, and how many do."""
    hit = [k for k in range(taps) if (residue + padding - k * dilation) % stride == 0]
    return (hit[0] if hit else 0), len(hit)


@triton.jit
def _class_taps(
    residue, TAPS: tl.constexpr, STRIDE: tl.constexpr, DILATION: tl.constexpr,
    PADDING: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """`_taps_of` where the residue is known at run time."""
    first = residue * 0 + TAPS
    for back in tl.static_range(1, STEP + 1):
        hits = (residue + PADDING + (back - STEP) * DILATION) % STRIDE == 0
        first = tl.where(hits, STEP - back, first)
    return first, tl.maximum((TAPS - first + STEP - 1) // STEP, 0)


@triton.jit
def _fill(out_ptr, first, size, value, UNIT: tl.constexpr, BLOCK: tl.constexpr):
    """Write `size` elements from `first` on: whole 16-byte units, and what is before and after."""
    value = tl.cast(value, out_ptr.dtype.element_ty)
    end = first + size
    start = tl.minimum((first + UNIT - 1) // UNIT * UNIT, end)
    whole = tl.maximum(end // UNIT * UNIT - start, 0)
    lane = tl.arange(0, BLOCK)
    for at in tl.range(0, whole.to(tl.int32), BLOCK):
        place = tl.multiple_of(start + at + lane, UNIT)
        mask = tl.max_constancy(at + lane < whole, UNIT)
        tl.store(out_ptr + place, tl.full((BLOCK,), 0, value.dtype) + value, mask=mask)
    edge = tl.arange(0, 16)
    place = tl.where(edge < 8, first + edge, start + whole + edge - 8)
    mask = place < tl.where(edge < 8, start, end)
    tl.store(out_ptr + place, tl.full((16,), 0, value.dtype) + value, mask=mask)


@triton.jit
def _conv_transpose_kernel(
    x_desc, weight_desc, bias_ptr, out_ptr, after_operands,
    BATCH, C_PER, OUT_PER, OD, OH, OW, PITCH_D, PITCH_H, PITCH_W,
    KD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    SD: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    PD: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    DD: tl.constexpr, DH: tl.constexpr, DW: tl.constexpr,
    STEP_D: tl.constexpr, STEP_H: tl.constexpr, STEP_W: tl.constexpr,
    GROUPS: tl.constexpr, HAS_BIAS: tl.constexpr, FILLED: tl.constexpr, AFTER: tl.constexpr,
    SPANS: tl.constexpr, UNIT: tl.constexpr, VECTOR: tl.constexpr, INDEX: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    # Classes side by side: they read the same rows, and write neighbouring ones.
    class_d = pid % (SD * SH) // SH
    class_h = pid % SH
    first_d, taps_d = _class_taps(class_d, KD, SD, DD, PD, STEP_D)
    first_h, taps_h = _class_taps(class_h, KH, SH, DH, PH, STEP_H)
    if FILLED and taps_d * taps_h == 0:
        return
    pid = pid // (SD * SH)
    if SPANS and taps_d == 0:  # whole planes, contiguous in memory, without any product
        planes = (OD - class_d + SD - 1) // SD
        programs = tl.num_programs(0) // SD
        for span in tl.range(pid * SH + class_h, BATCH * GROUPS * OUT_PER * planes, programs):
            channel = span // planes
            value = 0.0
            if HAS_BIAS:
                value = tl.load(bias_ptr + channel % (GROUPS * OUT_PER)).to(tl.float32)
            plane = tl.cast(channel, tl.int64) * OD + span % planes * SD + class_d
            _fill(out_ptr, plane * OH * OW, OH * OW, value, UNIT, 1024)
        return
    blocks_n = tl.cdiv(OUT_PER, BLOCK_N)
    col = pid % blocks_n * BLOCK_N
    pid = pid // blocks_n
    group = pid % GROUPS
    first = pid // GROUPS * BLOCK_M
    cols = col + tl.arange(0, BLOCK_N)
    col_ok = cols < OUT_PER
    channel = group * OUT_PER + cols
    blocks_k = tl.cdiv(C_PER, BLOCK_K)
    rows = BATCH * PITCH_D * PITCH_H * PITCH_W

    results = ()
    for class_w in tl.static_range(SW):
        if HAS_BIAS:
            bias = tl.load(bias_ptr + channel, mask=col_ok, other=0.0).to(tl.float32)
            acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32) + bias[None, :]
        else:
            acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        if _taps_of(class_w, KW, SW, DW, PW)[1] > 0:
            steps = taps_d * taps_h * _taps_of(class_w, KW, SW, DW, PW)[1] * blocks_k
            for step in tl.range(0, steps):
                c = step % blocks_k * BLOCK_K
                rest = step // blocks_k
                nth_w = rest % _taps_of(class_w, KW, SW, DW, PW)[1]
                rest = rest // _taps_of(class_w, KW, SW, DW, PW)[1]
                k_w = _taps_of(class_w, KW, SW, DW, PW)[0] + nth_w * STEP_W
                k_h = first_h + rest % taps_h * STEP_H
                k_d = first_d + rest // taps_h * STEP_D
                # The divisions leave nothing over: that is what makes the class.
                moved = (class_d + PD - k_d * DD) // SD * PITCH_H + (class_h + PH - k_h * DH) // SH
                moved = moved * PITCH_W + (class_w + PW - k_w * DW) // SW
                tap = group * (KD * KH * KW) + (k_d * KH + k_h) * KW + k_w
                a = x_desc.load([group, first + moved, c]).reshape(BLOCK_M, BLOCK_K)
                b = weight_desc.load([tap, col, c]).reshape(BLOCK_N, BLOCK_K)
                # float32 operands: three TF32 products keep float32 accuracy on tensor cores.
                acc = tl.dot(a, b.trans(), acc, input_precision="tf32x3")
        results += (tl.trans(acc),)

    # Results of a few GB have more than 2**31 elements.
    plane = tl.cast(OD, INDEX) * OH * OW
    channels = channel.to(INDEX)[:, None] * plane
    if SW == 2:
        # Both classes of a row interleaved, the width last: neighbouring threads write neighbours.
        y = tl.reshape(tl.join(results[0], results[1]), (BLOCK_N, 2 * BLOCK_M))
        twice = tl.arange(0, 2 * BLOCK_M)
        m = first + twice // 2
        ow = m % PITCH_W * 2 + twice % 2
        oh = m // PITCH_W % PITCH_H * SH + class_h
        od = m // (PITCH_W * PITCH_H) % PITCH_D * SD + class_d
        n = m // (PITCH_W * PITCH_H * PITCH_D)
        ok = (ow < OW) & (oh < OH) & (od < OD) & (m < rows)
        lane = n.to(INDEX) * (GROUPS * OUT_PER) * plane + (od.to(INDEX) * OH + oh) * OW + ow
        mask = col_ok[:, None] & ok[None, :]
        y = AFTER(y, channels, lane[None, :], mask, after_operands)
        # Runs of VECTOR positions are whole, and start at a multiple: that allows wide stores. Two
        # are called neighbours in any case, for threads to be laid out along the positions.
        place = tl.multiple_of(channels + lane[None, :], [1, VECTOR])
        place = tl.max_contiguous(place, [1, 2 if VECTOR == 1 else VECTOR])
        mask = tl.max_constancy(mask, [1, VECTOR])
        tl.store(out_ptr + place, y.to(out_ptr.dtype.element_ty), mask=mask)
    else:
        m = first + tl.arange(0, BLOCK_M)
        oh = m // PITCH_W % PITCH_H * SH + class_h
        od = m // (PITCH_W * PITCH_H) % PITCH_D * SD + class_d
        n = m // (PITCH_W * PITCH_H * PITCH_D)
        line = n.to(INDEX) * (GROUPS * OUT_PER) * plane + (od.to(INDEX) * OH + oh) * OW
        for class_w in tl.static_range(SW):
            ow = m % PITCH_W * SW + class_w
            ok = (ow < OW) & (oh < OH) & (od < OD) & (m < rows)
            mask = col_ok[:, None] & ok[None, :]
            lane = (line + ow)[None, :]
            y = AFTER(results[class_w], channels, lane, mask, after_operands)
            place = tl.max_contiguous(channels + lane, [1, 2])
            tl.store(out_ptr + place, y.to(out_ptr.dtype.element_ty), mask=mask)


def _each(value: int | Sequence[int], rank: int, name: str, least: int) -> tuple[int, ...]:
    """One number for each of three dimensions; those before the image's are the least effect."""
    given = (value,) * rank if isinstance(value, int) else tuple(value)
    given = given * rank if len(given) == 1 else given
    if len(given) != rank or any(each < least for each in given):
        raise ValueError(f"{name} has to be {rank} numbers of at least {least}, not {value}")
    return (int(least > 0),) * (3 - rank) + given


def _pitch(size: int, count: int, window: int, stride: int, padding: int, dilation: int) -> int:
    """Positions from one row to the next in the packed image: its elements, and zeros for what the
    `count` positions of a class read before and after them."""
    before = ((window - 1) * dilation - padding) // stride
    after = count + (stride - 1 + padding) // stride - size
    return max(size + max(before, after, 0), count)


def _packed(x: torch.Tensor, pitches: list[int], groups: int, unit: int) -> torch.Tensor:
    """`x` [N, C, D, H, W] as [groups, N * pitches, C / groups], channels neighbours, their rows
    padded to whole 16-byte units; a view where it is that already."""
    n, c, *image = x.shape
    per, positions = c // groups, math.prod(pitches)
    last = x.permute(0, 2, 3, 4, 1)
    whole = groups == 1 and list(pitches) == image
    if whole and last.is_contiguous() and c % unit == 0 and x.data_ptr() % 16 == 0:
        return last.view(1, n * positions, c)
    padded = triton.cdiv(per, unit) * unit
    out = torch.empty((groups, n * positions, padded), dtype=x.dtype, device=x.device)
    block_c = min(PACK_C, triton.next_power_of_2(per))
    _pack_kernel[(triton.cdiv(positions, PACK_P) * triton.cdiv(per, block_c) * groups * n,)](
        x, out, n, per, padded, *image, *pitches, *x.stride(),
        BLOCK_P=PACK_P, BLOCK_C=block_c, num_warps=4,
    )  # fmt: skip
    return out[..., :per]


def kernel_function(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    after=_unchanged,
    after_operands: tuple = (),
    out_dtype: torch.dtype | None = None,
    block_m: int = 128,
    block_n: int = 64,
    block_k: int = 64,
    fill: bool = True,
    num_warps: int = 4,
    num_stages: int = 4,
) -> torch.Tensor:
    """Return `after` of the transposed convolution of `x` [N, C, ...] with `weight`
    [C, OUT / groups, ...].

    One to three dimensions, settings as in `torch.nn.functional.conv_transpose3d`; `bias` [OUT].
    `x` has any strides; the result is contiguous, of `out_dtype` (`x`'s if None). `after` is a
    Triton function `(values, lead, lane, mask, operands)`; `lead` is a channel's, `lane` all
    else. `block_k` is cut to 128 bytes.
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
    shape = (n, groups * out_per, *o[3 - rank :])
    # For each dimension the classes that have a tap.
    live = [
        {(tap * dl - pl) % sl for tap in range(kl)}
        for kl, sl, pl, dl in zip(k, s, p, d, strict=True)
    ]
    fill = (
        fill
        and any(len(each) < sl for each, sl in zip(live, s, strict=True))
        and after is _unchanged
    )
    dtype = out_dtype or x.dtype
    if not fill:
        out = torch.empty(shape, dtype=dtype, device=x.device)
    elif bias is None:
        out = torch.zeros(shape, dtype=dtype, device=x.device)
    else:
        out = bias.to(dtype).view(-1, *(1,) * rank).expand(shape).contiguous()
    if out.numel() == 0:
        return out
    if x.dtype == torch.bfloat16 and not x.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        x, weight = x.float(), weight.float()
    unit = 16 // x.element_size()
    # Positions of the longest class with taps, and of the longest that has to be written.
    counts = [
        [triton.cdiv(size - residue, sl) for residue in (min(classes), 0)]
        for size, sl, classes in zip(o, s, live, strict=True)
    ]
    pitches = [
        max(_pitch(size, ql, kl, sl, pl, dl), ql if fill else written)
        for size, (ql, written), kl, sl, pl, dl in zip(image, counts, k, s, p, d, strict=True)
    ]
    # Rows that start at a multiple of 8 allow wide stores; not where that costs many positions.
    even = triton.cdiv(pitches[2], 4) * 4
    if s[2] == 2 and o[2] % 8 == 0 and 16 * (even - pitches[2]) < pitches[2]:
        pitches[2] = even
    rows = n * math.prod(pitches)
    if rows + block_m >= 2**31:
        raise ValueError(f"images of {list(image)} have more positions than TMA can count")
    packed = _packed(x.reshape(n, c, *image), pitches, groups, unit)
    taps = math.prod(k)
    padded = triton.cdiv(per, unit) * unit
    filters = torch.empty((groups * taps, out_per, padded), dtype=x.dtype, device=x.device)
    filters.view(groups, taps, out_per, padded)[..., :per].copy_(
        weight.reshape(groups, per, out_per, taps).permute(0, 3, 2, 1)
    )
    block_n = min(block_n, max(MIN_DOT, triton.next_power_of_2(out_per)))
    block_k = min(block_k, 128 // x.element_size(), max(MIN_DOT, triton.next_power_of_2(per)))
    blocks = triton.cdiv(rows, block_m) * groups * triton.cdiv(out_per, block_n)
    _conv_transpose_kernel[(blocks * s[0] * s[1],)](
        TensorDescriptor.from_tensor(packed, [1, block_m, block_k]),
        TensorDescriptor.from_tensor(filters[..., :per], [1, block_n, block_k]),
        out if bias is None else bias.contiguous(), out, after_operands,
        n, per, out_per, *o, *pitches,
        *k, *s, *p, *d,
        *(sl // math.gcd(sl, dl) for sl, dl in zip(s, d, strict=True)),
        GROUPS=groups, HAS_BIAS=bias is not None, FILLED=fill, AFTER=after,
        SPANS=not fill and len(live[0]) < s[0] and after is _unchanged,
        UNIT=16 // out.element_size(),
        VECTOR=math.gcd(o[2], 2 * pitches[2], 16 // out.element_size()),
        INDEX=tl.int32 if out.numel() < 2**30 else tl.int64,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        num_warps=num_warps, num_stages=num_stages,
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
