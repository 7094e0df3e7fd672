"""
---
slug: conv-tma
title: Convolution as implicit GEMM on TMA rows of a packed image with gaps of zeros
op: conv
language: triton
techniques:
  - implicit-gemm
  - tma-host-descriptor
  - data-layout-transform
  - kernel-fusion
  - persistent-kernel
  - tensor-cores
architectures: [sm_90]
dtypes: [float32, float16, bfloat16]
derived_from: conv-implicit-gemm
sizes:
  check:
    - [2, 3, 5, 9, 8, 3, 1, 1, 1, 1, 1]
    - [1, 4, 6, 11, 7, 3, 2, 1, 2, 2, 0]
    - [1, 2, 3, 4, 5, 3, 2, 1, 0, 1, 1, 1]
    - [2, 3, 4, 21, 4, 3, 2, 1, 1, 0]
    - [2, 5, 4, 9, 8, 3, 1, 0, 1, 1, 1]
  bench: [32, 128, 128, 56, 56, 3, 1, 1, 1, 1, 0]
check_params: {block_m: 64, block_n: 16, block_k: 16}
sources:
  - title: "Chetlur et al.: cuDNN: Efficient Primitives for Deep Learning"
    url: https://arxiv.org/abs/1410.0759
    licence: proprietary
  - title: "PyTorch: torch.nn.Conv2d"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html
    licence: BSD-3-Clause
  - title: "Triton: triton.language.tensor_descriptor"
    url: https://triton-lang.org/main/python-api/generated/triton.language.tensor_descriptor.html
    licence: MIT
  - title: "CUDA driver API: tensor map object management (cuTensorMapEncodeTiled)"
    url: https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TENSOR__MEMORY.html
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 32x128x128x56x56x3x1x1x1x1x0
  dtype: bfloat16
  baseline: conv-implicit-gemm
  baseline_ms: 0.3255
  measured_ms: 0.08154
  speedup: 3.992
  floor_fraction: 0.4551
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 32x128x128x56x56x3x1x1x1x1x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1069
  measured_ms: 0.08154
  speedup: 1.311
  floor_fraction: 0.4551
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
  measured_ms: 0.08154
  speedup: 1.073
  floor_fraction: 0.4551
---

The left operand of a convolution's matrix product is, for one tap, the image moved by that tap.
Here the image is packed channels-last with a few zeros after each row, plane and image: enough
that what a window reads beyond an edge is zero, wherever it falls. Positions are then numbered
straight through all of it, and a tap moves all of them by one number: the operand is BLOCK_M
consecutive rows of a [positions, channels] matrix, one TMA load, without an address or a mask in
any thread. With pointers these cost as much as the products. The gaps are computed like positions
and not stored.

A stride is taken out in the packing: with stride s, output o under a tap needs element s * (o +
base) + phase, so the s phases of each dimension are packed one after the other, and under one tap
neighbouring outputs again need neighbouring elements. Groups are packed apart, so that channels
past the end of one read as zeros, not as the next group.

Few channels would fill a small part of a product's depth: 3 of 16. Without a stride or dilation
along a row, the channels of a window's neighbours follow each other in memory. The rows of the
operand then overlap: each starts one position after the one before, and holds a window's whole
row. A tap less in the depth is a third fewer steps and more.

Boxes of more than two dimensions would spare the gaps, but Triton 3.6 takes the tile of such a box
through registers. `after` is an elementwise function that is run on the float32 results before
they are rounded.
"""

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

TUNABLES = {
    "block_m": [64, 128, 256],
    "block_n": [32, 64, 128, 256],
    "block_k": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [3, 4],
    "persist": [0, 2],
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
    BATCH, C_PER, C_PAD, LEAD, D, H, W, PITCH_D, PITCH_H, PITCH_W,
    stride_xn, stride_xc, stride_xd, stride_xh, stride_xw,
    SD: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr, GROUPS: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """[N, C, D, H, W] -> [group, phases, N, PITCH_D, PITCH_H, PITCH_W, C / groups], with LEAD
    positions before each phase."""
    blocks_c = tl.cdiv(C_PAD, BLOCK_C)
    positions = PITCH_D * PITCH_H * PITCH_W
    blocks_p = tl.cdiv(positions, BLOCK_P)
    pid = tl.program_id(0)
    place = pid % blocks_p * BLOCK_P + tl.arange(0, BLOCK_P)
    pid = pid // blocks_p
    c = pid % blocks_c * BLOCK_C + tl.arange(0, BLOCK_C)
    pid = pid // blocks_c
    # What is left numbers group, phase and image.
    lead = pid.to(tl.int64)
    n = lead % BATCH
    phase = pid // BATCH
    w = place % PITCH_W * SW + phase % SW
    h = place // PITCH_W % PITCH_H * SH + phase // SW % SH
    d = place // (PITCH_W * PITCH_H) * SD + phase // (SW * SH) % SD
    group = phase // (SW * SH * SD)
    inside = (d < D) & (h < H) & (w < W)
    at = d.to(tl.int64) * stride_xd + h.to(tl.int64) * stride_xh + w.to(tl.int64) * stride_xw
    channel = (group * C_PER + c).to(tl.int64)
    # Called neighbours for threads to be laid out along the positions.
    source = channel[:, None] * stride_xc + (n * stride_xn + at)[None, :]
    source = tl.max_contiguous(source, [1, 2])
    x = tl.load(x_ptr + source, mask=(c < C_PER)[:, None] & inside[None, :], other=0.0)
    row = lead * positions + (phase + 1) * LEAD + place
    # Stored in this shape, not transposed: else the loads would be laid out as these stores are.
    mask = (c < C_PAD)[:, None] & (place < positions)[None, :]
    tl.store(out_ptr + row[None, :] * C_PAD + c[:, None], x, mask=mask)


@triton.jit
def _conv_kernel(
    x_desc, weight_desc, bias_ptr, out_ptr, after_operands,
    BATCH, OUT_PER, OD, OH, OW, PITCH_D, PITCH_H, PITCH_W,
    KD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    SD: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    PD: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    DD: tl.constexpr, DH: tl.constexpr, DW: tl.constexpr, DEPTH: tl.constexpr,
    GROUPS: tl.constexpr, HAS_BIAS: tl.constexpr, AFTER: tl.constexpr, VECTOR: tl.constexpr,
    INDEX: tl.constexpr, PERSIST: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # Whole strides that a tap can lie before the image, so that no dividend is negative.
    UD: tl.constexpr = (PD + SD - 1) // SD
    UH: tl.constexpr = (PH + SH - 1) // SH
    UW: tl.constexpr = (PW + SW - 1) // SW
    BLOCKS_K: tl.constexpr = (DEPTH + BLOCK_K - 1) // BLOCK_K
    blocks_n = tl.cdiv(OUT_PER, BLOCK_N)
    rows = BATCH * PITCH_D * PITCH_H * PITCH_W
    tiles = tl.cdiv(rows, BLOCK_M) * GROUPS * blocks_n
    # Flattened: the loads of a program's next tile go ahead while it stores this one.
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=PERSIST):
        # Outputs of the same positions first: they read the same rows.
        col = tile % blocks_n * BLOCK_N
        group = tile // blocks_n % GROUPS
        first = tile // blocks_n // GROUPS * BLOCK_M
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in tl.range(0, KD * KH * KW * BLOCKS_K):
            c = step % BLOCKS_K * BLOCK_K
            tap = step // BLOCKS_K
            q_d = tap // (KH * KW) * DD - PD + UD * SD
            q_h = tap // KW % KH * DH - PH + UH * SH
            q_w = tap % KW * DW - PW + UW * SW
            phase = ((group * SD + q_d % SD) * SH + q_h % SH) * SW + q_w % SW
            moved = ((q_d // SD - UD) * PITCH_H + q_h // SH - UH) * PITCH_W + q_w // SW - UW
            a = x_desc.load([phase, first + moved, c]).reshape(BLOCK_M, BLOCK_K)
            b = weight_desc.load([group * (KD * KH * KW) + tap, col, c]).reshape(BLOCK_N, BLOCK_K)
            # float32 operands: three TF32 products keep float32 accuracy on tensor cores.
            acc = tl.dot(a, b.trans(), acc, input_precision="tf32x3")
        m = first + tl.arange(0, BLOCK_M)
        w = m % PITCH_W
        h = m // PITCH_W % PITCH_H
        d = m // (PITCH_W * PITCH_H) % PITCH_D
        n = m // (PITCH_W * PITCH_H * PITCH_D)
        row_ok = (w < OW) & (h < OH) & (d < OD) & (m < rows)
        cols = col + tl.arange(0, BLOCK_N)
        channel = group * OUT_PER + cols
        if HAS_BIAS:
            bias = tl.load(bias_ptr + channel, mask=cols < OUT_PER, other=0.0)
            acc += bias.to(tl.float32)[None, :]
        # Positions last: neighbouring threads write neighbouring positions. Results of a few GB
        # have more than 2**31 elements.
        plane = tl.cast(OD, INDEX) * OH * OW
        lane = n.to(INDEX) * (GROUPS * OUT_PER) * plane + (d.to(INDEX) * OH + h) * OW + w
        channels = channel.to(INDEX)[:, None] * plane
        mask = (cols < OUT_PER)[:, None] & row_ok[None, :]
        y = AFTER(tl.trans(acc), channels, lane[None, :], mask, after_operands)
        # Runs of VECTOR positions are whole, and start at a multiple: that allows wide stores. Two
        # are called neighbours in any case, for threads to be laid out along the positions.
        place = tl.multiple_of(channels + lane[None, :], [1, VECTOR])
        place = tl.max_contiguous(place, [1, 2 if VECTOR == 1 else VECTOR])
        mask = tl.max_constancy(mask, [1, VECTOR])
        tl.store(out_ptr + place, y.to(out_ptr.dtype.element_ty), mask=mask)


def _each(value: int | Sequence[int], rank: int, name: str, least: int) -> tuple[int, ...]:
    """One number for each of three dimensions; those before the image's are the least effect."""
    given = (value,) * rank if isinstance(value, int) else tuple(value)
    given = given * rank if len(given) == 1 else given
    if len(given) != rank or any(each < least for each in given):
        raise ValueError(f"{name} has to be {rank} numbers of at least {least}, not {value}")
    return (int(least > 0),) * (3 - rank) + given


def _pitch(size: int, out: int, window: int, stride: int, padding: int, dilation: int) -> int:
    """Positions from one row to the next in the packed image: those of a phase, and zeros for what
    a window reads before and after them."""
    length = triton.cdiv(size, stride)
    before = triton.cdiv(padding, stride)
    after = out + ((window - 1) * dilation - padding) // stride - length
    return max(length + max(before, after, 0), out)


def _packed(
    x: torch.Tensor, s: tuple[int, ...], pitches: list[int], groups: int, unit: int, lead: int
) -> torch.Tensor:
    """`x` [N, C, D, H, W] as [groups * phases, lead + N * pitches, C / groups], channels
    neighbours, padded with zeros to whole 16-byte units; a view where it is that already."""
    n, c, *image = x.shape
    per, positions = c // groups, math.prod(pitches)
    last = x.permute(0, 2, 3, 4, 1)
    whole = groups * math.prod(s) == 1 and list(pitches) == image
    if lead == 0 and whole and last.is_contiguous() and c % unit == 0 and x.data_ptr() % 16 == 0:
        return last.view(1, n * positions, c)
    phases = groups * math.prod(s)
    padded = triton.cdiv(per, unit) * unit
    out = torch.empty((phases, lead + n * positions, padded), dtype=x.dtype, device=x.device)
    out[:, :lead] = 0
    block_c = min(PACK_C, triton.next_power_of_2(padded))
    grid = (triton.cdiv(positions, PACK_P) * triton.cdiv(padded, block_c) * phases * n,)
    _pack_kernel[grid](
        x, out, n, per, padded, lead, *image, *pitches, *x.stride(),
        *s, GROUPS=groups, BLOCK_P=PACK_P, BLOCK_C=block_c, num_warps=4,
    )  # fmt: skip
    return out


def kernel_function(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    after=_unchanged,
    after_operands: tuple = (),
    out_dtype: torch.dtype | None = None,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 64,
    persist: int = 0,
    num_warps: int = 4,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return `after` of the convolution of `x` [N, C, ...] with `weight` [OUT, C / groups, ...].

    One to three dimensions, settings as in `torch.nn.functional.conv2d`; `bias` [OUT]. `x` has any
    strides; the result is contiguous, of `out_dtype` (`x`'s if None). `after` is a Triton function
    `(values, lead, lane, mask, operands)`; `lead` is a channel's, `lane` all else. `block_k` is
    cut to 128 bytes, the widest swizzle that TMA knows. `persist` programs of each multiprocessor
    share the tiles; 0: one program a tile.
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
    out = torch.empty((n, c_out, *o[3 - rank :]), dtype=out_dtype or x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    if x.dtype == torch.bfloat16 and not x.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        x, weight = x.float(), weight.float()
    unit = 16 // x.element_size()
    pitches = [
        _pitch(size, ol, kl, sl, pl, dl)
        for size, ol, kl, sl, pl, dl in zip(image, o, k, s, p, d, strict=True)
    ]
    # Rows that start at a multiple of 8 allow wide stores; not where that costs many positions.
    even = triton.cdiv(pitches[2], 8) * 8
    if o[2] % 8 == 0 and 16 * (even - pitches[2]) < pitches[2]:
        pitches[2] = even
    rows = n * math.prod(pitches)
    if rows + block_m >= 2**31:
        raise ValueError(f"images of {list(image)} have more positions than TMA can count")
    taps = math.prod(k)
    padded = triton.cdiv(per, unit) * unit
    folded = k[2] > 1 and s[2] == d[2] == 1 and padded * x.element_size() % 128 > 0
    packed = _packed(x.reshape(n, c, *image), s, pitches, groups, unit, p[2] if folded else 0)
    width = k[2] if folded else 1
    # Only the rows of windows read what pads channels.
    filters = (torch.zeros if folded else torch.empty)(
        (groups * taps // width, out_per, width * padded), dtype=x.dtype, device=x.device
    )
    filters.view(groups, taps // width, out_per, width, padded)[..., :per].copy_(
        weight.reshape(groups, out_per, per, taps // width, width).permute(0, 3, 1, 4, 2)
    )
    depth = per
    if folded:  # A row of the operand is a window's, and starts where the window does.
        depth, k, p = width * padded, (*k[:2], 1), (*p[:2], 0)
    block_n = min(block_n, max(MIN_DOT, triton.next_power_of_2(out_per)))
    block_k = min(block_k, 128 // x.element_size(), max(MIN_DOT, triton.next_power_of_2(depth)))
    tiles = triton.cdiv(rows, block_m) * groups * triton.cdiv(out_per, block_n)
    if persist and x.is_cuda:
        processors = torch.cuda.get_device_properties(x.device).multi_processor_count
        tiles = min(tiles, persist * processors)
    _conv_kernel[(tiles,)](
        TensorDescriptor(
            packed, [packed.shape[0], packed.shape[1] - width + 1, depth],
            [packed.stride(0), padded, 1], [1, block_m, block_k],
        ),
        TensorDescriptor.from_tensor(filters[..., :depth], [1, block_n, block_k]),
        out if bias is None else bias.contiguous(), out, after_operands,
        n, out_per, *o, *pitches,
        *k, *s, *p, *d, DEPTH=depth,
        GROUPS=groups, HAS_BIAS=bias is not None, AFTER=after,
        VECTOR=math.gcd(o[2], pitches[2], 16 // out.element_size()),
        INDEX=tl.int32 if out.numel() < 2**30 else tl.int64, PERSIST=persist > 0,
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
