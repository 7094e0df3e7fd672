"""
---
slug: conv-transpose-parity
title: Transposed convolution by output parity, each class a small dense convolution or a plain fill
op: conv-transpose
language: triton
techniques: [structural-sparsity, implicit-gemm, tensor-cores, software-pipelining]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: conv-transpose-plain
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
  - title: "Chetlur et al.: cuDNN: Efficient Primitives for Deep Learning"
    url: https://arxiv.org/abs/1410.0759
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: conv-transpose-plain
  baseline_ms: 67.23
  measured_ms: 0.2139
  speedup: 314.3
  floor_fraction: 0.3325
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.149
  measured_ms: 0.2139
  speedup: 5.372
  floor_fraction: 0.3325
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.146
  measured_ms: 0.2139
  speedup: 5.358
  floor_fraction: 0.3325
---

A transposed convolution of stride S spreads the image S apart, so an output position o gets
something from tap k only where o + P - k D is a multiple of S. That splits the outputs of each
dimension into S classes by o mod S, and each class sees its own taps: those with k D = o + P
(mod S), every S / gcd(S, D)-th one. Where S and D have a common divisor some classes see none: with
stride 2 and dilation 2 in three dimensions seven of eight outputs are the bias, whatever the image.
A kernel that multiplies by the zeros in between does 8 times the work here.

For each class the rest is a dense convolution without gaps: an implicit GEMM of
[positions, channels] by [channels, output channels] on tensor cores, for each tap. Taps along the
width read the same rows of the image, a few positions apart. So a program multiplies a block of
positions once by the filters of all of them, each into a sum of its own, and shifts the sums by
those positions when they are added: the image goes to shared memory once for each pair of taps
along depth and height, and not three times. A row of positions ends in zeros, so that what is
shifted in from its neighbour adds nothing.

A program makes all classes along the width and interleaves them before it stores, so that rows are
written whole. Where no tap reaches a depth, its planes are contiguous and get the bias 16 bytes at
a time; programs that do so stand between those that multiply, so that both overlap. To write the
bias everywhere first, and the rows of the others again, took longer. So did stores of the empty
planes spread over the steps of the products, a small kernel beside this one that fills them
(dependent launch), TMA for the tiles, and copies of 8 bytes, which pass through L1, for filters;
and more than twice as long took programs that keep all filters in shared memory and walk over the
image: every product waits for the one before, and 27 of them written out leave no registers.

With `pack` the image is brought into channels-last order first: little against the output here,
and then a position's channels are one vector, which is copied to shared memory ahead of its use.
The filters are always rearranged to [tap, channels, outputs]. `max_registers` of 128 puts two
programs of 8 warps on a multiprocessor, of which one multiplies while the other stores; 4 warps
with the sums of three taps need them all.

On an H200 the image of `bench` in bfloat16 took 0.215 ms, PyTorch 1.15 (the run of
`benchmarks.optimize.problems` on conv_transpose3d), where reading and writing at the speed of a
copy would take 0.07. Rows of odd length get no stores wider than two bytes here;
`conv-transpose-wgmma-cuda` puts them together 16 bytes at a time, and took 0.136.
"""

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [64, 128, 256],
    "block_n": [16, 32, 64, 128],
    "block_k": [16, 32, 64],
    "pack": [True, False],
    "num_warps": [4, 8, 16],
    "num_stages": [2, 3, 4],
    "max_registers": [128, 255],
}

# What tl.dot takes at least.
MIN_DOT = 16
# Columns of float32 sums over all taps along the width that a program holds: 8 warps with 128
# positions have 96 registers for 192.
MAX_SUMS = 256


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
def _interleaved(parts, LEVELS: tl.constexpr):
    """2 ** LEVELS tensors [N, M] as one [N, M * 2 ** LEVELS], those of one place side by side."""
    for level in tl.static_range(LEVELS):
        halves = ()
        for i in tl.static_range(2 ** (LEVELS - 1 - level)):
            halves += (tl.join(parts[i], parts[i + 2 ** (LEVELS - 1 - level)]),)
        wholes = ()
        for i in tl.static_range(2 ** (LEVELS - 1 - level)):
            wholes += (tl.reshape(halves[i], (parts[0].shape[0], 2 * parts[0].shape[1])),)
        parts = wholes
    return parts[0]


@triton.constexpr_function
def _shift_of(tap, stride, dilation, padding):
    """How far from its output position a tap reads, in positions."""
    return (padding - tap * dilation + (tap * dilation - padding) % stride) // stride


@triton.jit
def _pack_kernel(
    x_ptr, out_ptr, C, POSITIONS, HEIGHT, WIDTH, stride_xn, stride_xc, stride_xd, stride_xh,
    stride_xw, BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """[N, C, D, H, W] of any strides to [N, D, H, W, C]."""
    tiles = tl.cdiv(POSITIONS, BLOCK_P)
    image = (tl.program_id(0) // tiles).to(tl.int64)
    p = (tl.program_id(0) % tiles) * BLOCK_P + tl.arange(0, BLOCK_P)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    at = (p // (HEIGHT * WIDTH)).to(tl.int64) * stride_xd
    at += (p // WIDTH % HEIGHT).to(tl.int64) * stride_xh + (p % WIDTH).to(tl.int64) * stride_xw
    ok = (c < C)[:, None] & (p < POSITIONS)[None, :]
    x = tl.load(
        x_ptr + image * stride_xn + c.to(tl.int64)[:, None] * stride_xc + at[None, :], mask=ok
    )
    to = out_ptr + (image * POSITIONS + p)[:, None] * C + c[None, :]
    tl.store(to, tl.trans(x), mask=tl.trans(ok))


@triton.jit
def _fill_planes(
    out_ptr, bias_ptr, class_d, BATCH, CHANNELS, OD, plane, first, step,
    SD: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the bias into planes first, first + step, ... of those whose depth is class_d mod SD:
    16 bytes at a time but at both ends, which may lie inside of 16 aligned bytes."""
    VECTOR: tl.constexpr = 128 // out_ptr.dtype.element_ty.primitive_bitwidth
    count_d = (OD - class_d + SD - 1) // SD
    ends = tl.arange(0, 2 * VECTOR)
    for index in range(first, BATCH * CHANNELS * count_d, step):
        image = index // count_d  # and channel
        value = 0.0
        if HAS_BIAS:
            value = tl.load(bias_ptr + image % CHANNELS).to(tl.float32)
        begin = (tl.cast(image, tl.int64) * OD + index % count_d * SD + class_d) * plane
        end = begin + plane
        inner = (begin + VECTOR - 1) // VECTOR * VECTOR
        outer = end // VECTOR * VECTOR
        for start in range(inner, outer, BLOCK):
            at = start + tl.arange(0, BLOCK)
            values = tl.zeros((BLOCK,), tl.float32) + value
            tl.store(out_ptr + at, values.to(out_ptr.dtype.element_ty), mask=at < outer)
        at = tl.where(ends < VECTOR, begin + ends, outer + ends - VECTOR)
        ok = tl.where(ends < VECTOR, at < tl.minimum(inner, end), (at >= inner) & (at < end))
        values = tl.zeros((2 * VECTOR,), tl.float32) + value
        tl.store(out_ptr + at, values.to(out_ptr.dtype.element_ty), mask=ok)


@triton.jit
def _store(
    out_ptr, values, tile, group, class_d, class_h, cols, col_ok, rows, count_d, count_h, pitch,
    OUT_PER, OD, OH, OW,
    SD: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr, GROUPS: tl.constexpr,
    WIDE: tl.constexpr, LEVELS: tl.constexpr, BEFORE: tl.constexpr, USED: tl.constexpr,
    RUN: tl.constexpr, ALIGN: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """`values` of all classes along the width, each [channels, positions], in the order of memory:
    the width last, and all classes of it."""
    place = tl.arange(0, BLOCK_M * 2**LEVELS) if 2**LEVELS == SW else tl.arange(0, BLOCK_M)
    class_w = place % SW if 2**LEVELS == SW else 0 * place
    place = place // SW if 2**LEVELS == SW else place
    e = tile * USED - BEFORE + place
    row = e // pitch
    ow = (e % pitch).to(tl.int32) * SW + class_w
    oh = row % count_h * SH + class_h
    od = row // count_h % count_d * SD + class_d
    out_width = OW // ALIGN * ALIGN
    plane = tl.cast(OD, tl.int64 if WIDE else tl.int32) * OH * out_width
    image = (row // (count_h * count_d)).to(plane.dtype)
    at = ((image * (GROUPS * OUT_PER) * OD + od) * OH + oh) * out_width + ow
    in_row = (place >= BEFORE) & (place < BEFORE + USED) & (row < rows)
    at_channel = (group * OUT_PER + cols).to(plane.dtype)[:, None] * plane
    if 2**LEVELS == SW:
        # Of so many neighbours the first is at a multiple of ALIGN: the compiler cannot know.
        at = tl.max_contiguous(tl.multiple_of(at, ALIGN), RUN)
        in_row = tl.max_constancy(in_row & (ow < OW), ALIGN)
        tl.store(
            out_ptr + at[None, :] + at_channel, _interleaved(values, LEVELS),
            mask=col_ok[:, None] & in_row[None, :],
        )  # fmt: skip
    else:
        for class_w in tl.static_range(SW):
            tl.store(
                out_ptr + (at + class_w)[None, :] + at_channel, values[class_w],
                mask=col_ok[:, None] & (in_row & (ow + class_w < OW))[None, :],
            )  # fmt: skip


@triton.jit
def _conv_transpose_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    BATCH, C_PER, OUT_PER, D, H, W, OD, OH, OW, pitch,
    stride_xn, stride_xc, stride_xd, stride_xh, stride_xw,
    KD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    SD: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    PD: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    DD: tl.constexpr, DH: tl.constexpr, DW: tl.constexpr,
    STEP_D: tl.constexpr, STEP_H: tl.constexpr,
    GROUPS: tl.constexpr, HAS_BIAS: tl.constexpr, WHOLE_N: tl.constexpr, WIDE: tl.constexpr,
    LEVELS: tl.constexpr, BEFORE: tl.constexpr, USED: tl.constexpr,
    RUN: tl.constexpr, ALIGN: tl.constexpr, FILL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NUM_STAGES: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    # Classes side by side: those that only write among those that multiply.
    class_d = pid % (SD * SH) // SH
    class_h = pid % SH
    pid = pid // (SD * SH)
    blocks_n = tl.cdiv(OUT_PER, BLOCK_N)
    group = pid % (GROUPS * blocks_n) // blocks_n
    cols = pid % blocks_n * BLOCK_N + tl.arange(0, BLOCK_N)
    # Known to be true, where it is: no mask for the columns then.
    col_ok = (cols >= 0) if WHOLE_N else (cols < OUT_PER)
    tile = pid // (GROUPS * blocks_n)
    if WIDE:
        tile = tile.to(tl.int64)
    count_d = (OD - class_d + SD - 1) // SD
    count_h = (OH - class_h + SH - 1) // SH
    rows = count_d * count_h * BATCH
    first_d, taps_d = _class_taps(class_d, KD, SD, DD, PD, STEP_D)
    first_h, taps_h = _class_taps(class_h, KH, SH, DH, PH, STEP_H)
    if taps_d == 0:
        worker = tl.program_id(0) // (SD * SH) * SH + class_h
        _fill_planes(
            out_ptr, bias_ptr, class_d, BATCH, GROUPS * OUT_PER, OD, OH * OW,
            worker, tl.num_programs(0) // SD,
            SD=SD, HAS_BIAS=HAS_BIAS, BLOCK=FILL,
        )  # fmt: skip
        return
    if tile * USED >= rows * pitch:
        return

    if HAS_BIAS:
        bias = tl.load(bias_ptr + group * OUT_PER + cols, mask=col_ok, other=0.0).to(tl.float32)
    else:
        bias = tl.zeros((BLOCK_N,), tl.float32)
    if taps_h == 0:
        empty = tl.zeros((BLOCK_N, BLOCK_M), tl.float32) + bias[:, None]
        same = ()
        for _ in tl.static_range(SW):
            same += (empty.to(out_ptr.dtype.element_ty),)
        _store(
            out_ptr, same, tile, group, class_d, class_h, cols, col_ok, rows, count_d, count_h,
            pitch, OUT_PER, OD, OH, OW,
            SD=SD, SH=SH, SW=SW, GROUPS=GROUPS, WIDE=WIDE, LEVELS=LEVELS, BEFORE=BEFORE, USED=USED,
            RUN=RUN, ALIGN=ALIGN, BLOCK_M=BLOCK_M,
        )  # fmt: skip
        return

    # Positions of the image, with those around the ones whose outputs are made here.
    m = tile * USED - BEFORE + tl.arange(0, BLOCK_M)
    row = m // pitch
    i_w = (m % pitch).to(tl.int32)
    q_h = (row % count_h).to(tl.int32)
    q_d = (row // count_h % count_d).to(tl.int32)
    # Sizes times strides in int64: a few GB have more than 2**31 elements.
    image = (row // (count_h * count_d)).to(tl.int64)
    x_rows = x_ptr + image * stride_xn + tl.cast(group, tl.int64) * C_PER * stride_xc
    x_rows += q_d.to(tl.int64) * stride_xd + q_h.to(tl.int64) * stride_xh
    x_rows += i_w.to(tl.int64) * stride_xw
    row_ok = (m >= 0) & (row < rows) & (i_w < W)
    depth = tl.arange(0, BLOCK_K)
    blocks_k = tl.cdiv(C_PER, BLOCK_K)

    # A sum for each tap along the width, all from the same reading of the image.
    sums = ()
    for _ in tl.static_range(KW):
        sums += (tl.zeros((BLOCK_M, BLOCK_N), tl.float32),)
    for step in tl.range(0, taps_d * taps_h * blocks_k, num_stages=NUM_STAGES):
        c = step % blocks_k * BLOCK_K + depth
        rest = step // blocks_k
        k_h = first_h + rest % taps_h * STEP_H
        k_d = first_d + rest // taps_h * STEP_D
        # The divisions leave nothing over: that is what makes the class.
        to_d = (class_d + PD - k_d * DD) // SD
        to_h = (class_h + PH - k_h * DH) // SH
        ok = row_ok & (q_d >= -to_d) & (q_d < D - to_d) & (q_h >= -to_h) & (q_h < H - to_h)
        to = tl.cast(to_d, tl.int64) * stride_xd + tl.cast(to_h, tl.int64) * stride_xh
        c_ok = c < C_PER
        a = tl.load(
            (x_rows + to)[:, None] + c.to(tl.int64)[None, :] * stride_xc,
            mask=ok[:, None] & c_ok[None, :], other=0.0,
        )  # fmt: skip
        first_filter = ((k_d * KH + k_h) * KW * GROUPS + group) * C_PER + c
        filters = weight_ptr + first_filter[:, None] * OUT_PER + cols[None, :]
        new = ()
        for k_w in tl.static_range(KW):
            b = tl.load(
                filters + k_w * GROUPS * C_PER * OUT_PER,
                mask=c_ok[:, None] & col_ok[None, :], other=0.0,
            )  # fmt: skip
            # float32 operands: three TF32 products keep float32 accuracy on tensor cores.
            new += (tl.dot(a, b, sums[k_w], input_precision="tf32x3"),)
        sums = new

    results = ()
    for class_w in tl.static_range(SW):
        y = tl.zeros((BLOCK_M, BLOCK_N), tl.float32) + bias[None, :]
        for k_w in tl.static_range(KW):
            if (k_w * DW - PW) % SW == class_w:
                if _shift_of(k_w, SW, DW, PW) == 0:
                    y += sums[k_w]
                else:
                    source = tl.arange(0, BLOCK_M) + _shift_of(k_w, SW, DW, PW)
                    source = tl.minimum(tl.maximum(source, 0), BLOCK_M - 1)
                    source = tl.broadcast_to(source[:, None], (BLOCK_M, BLOCK_N))
                    y += tl.gather(sums[k_w], source, 0)
        # Rounded before they change places: half the registers for 16 bits.
        results += (tl.trans(y.to(out_ptr.dtype.element_ty)),)
    _store(
        out_ptr, results, tile, group, class_d, class_h, cols, col_ok, rows, count_d, count_h,
        pitch, OUT_PER, OD, OH, OW,
        SD=SD, SH=SH, SW=SW, GROUPS=GROUPS, WIDE=WIDE, LEVELS=LEVELS, BEFORE=BEFORE, USED=USED,
        RUN=RUN, ALIGN=ALIGN, BLOCK_M=BLOCK_M,
    )  # fmt: skip


def _each(value: int | Sequence[int], rank: int, name: str, least: int) -> tuple[int, ...]:
    """One number for each of three dimensions; those before the image's are the least effect."""
    given = (value,) * rank if isinstance(value, int) else tuple(value)
    given = given * rank if len(given) == 1 else given
    if len(given) != rank or any(each < least for each in given):
        raise ValueError(f"{name} has to be {rank} numbers of at least {least}, not {value}")
    return (int(least > 0),) * (3 - rank) + given


def _packed(
    x: torch.Tensor, image: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[torch.Tensor, tuple[int, ...]]:
    """`x` with channels last, and its strides in the order of [N, C, D, H, W]."""
    n, c = x.shape[:2]
    _, h, w = image
    if x.stride(1) == 1 and x.movedim(1, -1).is_contiguous():
        return x, strides
    positions = math.prod(image)
    packed = torch.empty((n, positions, c), dtype=x.dtype, device=x.device)
    block_c = min(64, triton.next_power_of_2(c))
    block_p = min(64, triton.next_power_of_2(positions))
    grid = (n * triton.cdiv(positions, block_p), triton.cdiv(c, block_c))
    _pack_kernel[grid](
        x, packed, c, positions, h, w, *strides, BLOCK_C=block_c, BLOCK_P=block_p, num_warps=4
    )
    return packed, (positions * c, 1, h * w * c, w * c, c)


def kernel_function(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    block_m: int = 128,
    block_n: int = 64,
    block_k: int = 32,
    pack: bool = True,
    num_warps: int = 4,
    num_stages: int = 4,
    max_registers: int = 255,
) -> torch.Tensor:
    """Return the transposed convolution of `x` [N, C, ...] with `weight` [C, OUT / groups, ...].

    One to three dimensions, settings as in `torch.nn.functional.conv_transpose3d`; `bias` [OUT].
    `x` has any strides; the result is contiguous. `block_k` is cut to 128 bytes.
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
    out = torch.empty(shape, dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    if x.dtype == torch.bfloat16 and not x.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        x, weight = x.float(), weight.float()
    strides = (*x.stride()[:2], *(0,) * (3 - rank), *x.stride()[2:])
    if pack:
        x, strides = _packed(x, image, strides)
    weight = weight.reshape(groups, per, out_per, math.prod(k)).permute(3, 0, 1, 2).contiguous()
    # The sums of all taps along the width are in registers together.
    block_n = min(block_n, triton.next_power_of_2(MAX_SUMS // k[2] + 1) // 2)
    block_n = max(MIN_DOT, min(block_n, triton.next_power_of_2(out_per)))
    block_k = min(block_k, 128 // x.element_size(), max(MIN_DOT, triton.next_power_of_2(per)))

    # Outputs side by side: those of all classes along the width where their number is a power of
    # two, and of neighbouring positions where rows begin at multiples of more.
    levels = s[2].bit_length() - 1
    align = math.gcd(o[2], 8)
    granule = max(1 if s[2] > 1 else 2, align // s[2]) if 2**levels == s[2] else 1
    run = granule * s[2]
    # A row of positions ends in zeros as far as the taps reach, so that a shifted sum of its
    # neighbour's adds nothing; a program's first and last positions serve the others alone.
    shifts = [(p[2] - tap * d[2] + (tap * d[2] - p[2]) % s[2]) // s[2] for tap in range(k[2])]
    before, behind = max(0, -min(shifts)), max(0, *shifts)
    pitch = max(-(-o[2] // s[2]) + behind, image[2] + before)
    pitch, before, behind = (-(-each // granule) * granule for each in (pitch, before, behind))
    while block_m < 2 * (before + behind):
        block_m *= 2
    used = block_m - before - behind
    positions = pitch * n * math.prod(-(-size // sl) for size, sl in zip(o[:2], s[:2], strict=True))
    classes = s[0] * s[1]
    grid = (triton.cdiv(positions, used) * groups * triton.cdiv(out_per, block_n) * classes,)
    _conv_transpose_kernel[grid](
        x, weight, weight if bias is None else bias.contiguous(), out,
        n, per, out_per, *image, *o, pitch,
        *strides,
        *k, *s, *p, *d,
        *(sl // math.gcd(sl, dl) for sl, dl in zip(s[:2], d[:2], strict=True)),
        GROUPS=groups, HAS_BIAS=bias is not None, WHOLE_N=out_per % block_n == 0,
        WIDE=max(out.numel(), (positions + block_m) * s[2]) >= 2**31,
        LEVELS=levels, BEFORE=before, USED=used, RUN=run, ALIGN=math.gcd(align, run),
        FILL=512 * num_warps // x.element_size(),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, NUM_STAGES=num_stages,
        num_warps=num_warps, maxnreg=max_registers,
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
