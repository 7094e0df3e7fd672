"""
---
slug: conv-transpose-resident
title: Transposed convolution whose filters stay in shared memory while programs walk over the image
op: conv-transpose
language: triton
techniques:
  - structural-sparsity
  - implicit-gemm
  - persistent-kernel
  - register-caching
  - tensor-cores
  - programmatic-dependent-launch
architectures: [sm_90]
dtypes: [float16, bfloat16]
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
  - title: "CUDA Programming Guide 4.5: programmatic dependent launch"
    url: https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/programmatic-dependent-launch.html
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: conv-transpose-parity
  baseline_ms: 0.2104
  measured_ms: 0.5099
  speedup: 0.4126
  floor_fraction: 0.1389
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.149
  measured_ms: 0.5099
  speedup: 2.253
  floor_fraction: 0.1389
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.151
  measured_ms: 0.5099
  speedup: 2.257
  floor_fraction: 0.1389
---

A transposed convolution of stride S falls into S classes of outputs a dimension, by position mod S,
each a dense convolution of the image with taps of its own (conv-transpose-parity tells how). For
images of few channels and many positions, such a product reads its filters again for every tile:
27 taps of 32 by 64 channels are 110 KB, more than the tile of the image that they meet. Here a
program stays on its multiprocessor and takes tile after tile of one class; all filters of the class
are loaded before the first one and are in shared memory from then on. That they stay there needs
no more than loops which the compiler unrolls: each operand of a product is a value of its own,
loaded outside the loop over tiles.

What a tile needs of the image, positions under each pair of taps along depth and height, is read
into registers while the tile before is multiplied and stored. Taps along the width share that
reading: each has a sum of its own, shifted by its positions when they are added.

Depths that no tap reaches are contiguous planes, and a small kernel fills them. It lets this one
start at once (programmatic dependent launch) and runs beside it on what registers are left; one
program waits for its end. Rows that no tap reaches are written with the rows between them: halves
of one sector that leave the cache at different times are read and merged by memory.

Filters that do not fit are refused: conv-transpose-parity takes them.
"""

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl

# Programs to start where there is no GPU to ask: few, so that in the CPU interpreter, too, each one
# gets several tiles.
CPU_PROGRAMS = 2

TUNABLES = {
    "block_m": [64, 128],
    "block_n": [16, 32, 64],
    "block_k": [16, 32, 64],
    "programs_per_sm": [1, 2],
    "num_warps": [4, 8],
}

# What tl.dot takes at least.
MIN_DOT = 16
# Shared memory for filters and one reading of the image, of the 227 KB that a program can have.
MAX_SHARED = 200 * 1024
# Products of a tile, all written out: compilation takes long beyond.
MAX_PRODUCTS = 128


@triton.constexpr_function
def _first_of(residue, taps, stride, dilation, padding):
    """First tap that reaches outputs with this residue."""
    return min(k for k in range(taps) if (residue + padding - k * dilation) % stride == 0)


@triton.constexpr_function
def _count_of(residue, taps, stride, dilation, padding):
    """How many taps reach them: every stride / gcd(stride, dilation)-th one."""
    return sum((residue + padding - k * dilation) % stride == 0 for k in range(taps))


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
def _prepare_kernel(
    x_ptr, packed_ptr, weight_ptr, filters_ptr,
    C, POSITIONS, HEIGHT, WIDTH, stride_xn, stride_xc, stride_xd, stride_xh, stride_xw,
    C_PER, OUT_PER, GROUPS, TAPS, programs,
    BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """[N, C, D, H, W] of any strides to [N, D, H, W, C], and [G, C, OUT, taps] to
    [taps, G, C, OUT]."""
    pid = tl.program_id(0)
    if pid >= programs:
        at = (pid - programs) * (BLOCK_C * BLOCK_P) + tl.arange(0, BLOCK_C * BLOCK_P)
        ok = at < TAPS * GROUPS * C_PER * OUT_PER
        rest = at // OUT_PER
        source = (rest % (GROUPS * C_PER) * OUT_PER + at % OUT_PER) * TAPS + rest // (
            GROUPS * C_PER
        )
        tl.store(filters_ptr + at, tl.load(weight_ptr + source, mask=ok), mask=ok)
        return
    blocks_c = tl.cdiv(C, BLOCK_C)
    tiles = tl.cdiv(POSITIONS, BLOCK_P)
    c = pid % blocks_c * BLOCK_C + tl.arange(0, BLOCK_C)
    pid = pid // blocks_c
    image = (pid // tiles).to(tl.int64)
    p = (pid % tiles) * BLOCK_P + tl.arange(0, BLOCK_P)
    at = (p // (HEIGHT * WIDTH)).to(tl.int64) * stride_xd
    at += (p // WIDTH % HEIGHT).to(tl.int64) * stride_xh + (p % WIDTH).to(tl.int64) * stride_xw
    ok = (c < C)[:, None] & (p < POSITIONS)[None, :]
    x = tl.load(
        x_ptr + image * stride_xn + c.to(tl.int64)[:, None] * stride_xc + at[None, :], mask=ok
    )
    to = packed_ptr + (image * POSITIONS + p)[:, None] * C + c[None, :]
    tl.store(to, tl.trans(x), mask=tl.trans(ok))


@triton.jit
def _fill_kernel(
    out_ptr, bias_ptr, planes, CHANNELS, OD, plane,
    DEAD: tl.constexpr, SD: tl.constexpr, HAS_BIAS: tl.constexpr, AHEAD: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the bias into planes that no tap reaches, those of the depths `DEAD` mod SD: 16 bytes
    at a time but at both ends, which may lie inside of 16 aligned bytes."""
    if AHEAD:
        tl.extra.cuda.gdc_launch_dependents()
    VECTOR: tl.constexpr = 128 // out_ptr.dtype.element_ty.primitive_bitwidth
    ends = tl.arange(0, 2 * VECTOR)
    count_d = tl.cdiv(OD, SD)
    for index in range(tl.program_id(0), planes, tl.num_programs(0)):
        image = index // count_d  # and channel
        value = 0.0
        if HAS_BIAS:
            value = tl.load(bias_ptr + image % CHANNELS).to(tl.float32)
        for which in tl.static_range(len(DEAD)):
            od = index % count_d * SD + DEAD[which]
            begin = (tl.cast(image, tl.int64) * OD + od) * plane
            end = begin + (plane if od < OD else 0)
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
    in_row = (place >= BEFORE) & (place < BEFORE + USED) & (row < rows) & (oh < OH) & (od < OD)
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
def _tile_of_image(
    x_ptr, tile, group, rows, count_d, count_h, pitch, C_PER, D, H, W,
    stride_xn, stride_xc, stride_xd, stride_xh, stride_xw,
    CLASS_D: tl.constexpr, CLASS_H: tl.constexpr,
    KD: tl.constexpr, KH: tl.constexpr, SD: tl.constexpr, SH: tl.constexpr,
    PD: tl.constexpr, PH: tl.constexpr, DD: tl.constexpr, DH: tl.constexpr,
    STEP_D: tl.constexpr, STEP_H: tl.constexpr, CHUNKS: tl.constexpr,
    BEFORE: tl.constexpr, USED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """What a tile's positions need under each tap along depth and height: [positions, channels]."""
    m = tile * USED - BEFORE + tl.arange(0, BLOCK_M)
    row = m // pitch
    i_w = (m % pitch).to(tl.int32)
    q_h = (row % count_h).to(tl.int32)
    q_d = (row // count_h % count_d).to(tl.int32)
    # Sizes times strides in int64: a few GB have more than 2**31 elements.
    image = (row // (count_h * count_d)).to(tl.int64)
    at = image * stride_xn + tl.cast(group, tl.int64) * C_PER * stride_xc
    at += q_d.to(tl.int64) * stride_xd + q_h.to(tl.int64) * stride_xh
    at += i_w.to(tl.int64) * stride_xw
    row_ok = (m >= 0) & (row < rows) & (i_w < W)
    read = ()
    for i_d in tl.static_range(_count_of(CLASS_D, KD, SD, DD, PD)):
        # The divisions leave nothing over: that is what makes the class.
        to_d = (CLASS_D + PD - (_first_of(CLASS_D, KD, SD, DD, PD) + i_d * STEP_D) * DD) // SD
        for i_h in tl.static_range(_count_of(CLASS_H, KH, SH, DH, PH)):
            to_h = (CLASS_H + PH - (_first_of(CLASS_H, KH, SH, DH, PH) + i_h * STEP_H) * DH) // SH
            ok = row_ok & (q_d >= -to_d) & (q_d < D - to_d) & (q_h >= -to_h) & (q_h < H - to_h)
            moved = x_ptr + at + (tl.cast(to_d, tl.int64) * stride_xd + to_h * stride_xh)
            for chunk in tl.static_range(CHUNKS):
                c = chunk * BLOCK_K + tl.arange(0, BLOCK_K)
                read += (
                    tl.load(
                        moved[:, None] + c.to(tl.int64)[None, :] * stride_xc,
                        mask=ok[:, None] & (c < C_PER)[None, :], other=0.0,
                    ),
                )  # fmt: skip
    return read


@triton.jit
def _conv_transpose_kernel(
    x_ptr, filters_ptr, bias_ptr, out_ptr,
    tiles, workers, rows, count_d, count_h, pitch, C_PER, OUT_PER, D, H, W, OD, OH, OW,
    stride_xn, stride_xc, stride_xd, stride_xh, stride_xw,
    CLASS_D: tl.constexpr, CLASS_H: tl.constexpr, EMPTY_H: tl.constexpr,
    KD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    SD: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    PD: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    DD: tl.constexpr, DH: tl.constexpr, DW: tl.constexpr,
    STEP_D: tl.constexpr, STEP_H: tl.constexpr, CHUNKS: tl.constexpr,
    GROUPS: tl.constexpr, HAS_BIAS: tl.constexpr, WIDE: tl.constexpr, LEVELS: tl.constexpr,
    BEFORE: tl.constexpr, USED: tl.constexpr, RUN: tl.constexpr, ALIGN: tl.constexpr,
    AHEAD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    worker = tl.program_id(0) % workers
    which = tl.program_id(0) // workers
    blocks_n = tl.cdiv(OUT_PER, BLOCK_N)
    group = which // blocks_n
    cols = which % blocks_n * BLOCK_N + tl.arange(0, BLOCK_N)
    col_ok = cols < OUT_PER
    if HAS_BIAS:
        bias = tl.load(bias_ptr + group * OUT_PER + cols, mask=col_ok, other=0.0).to(tl.float32)
    else:
        bias = tl.zeros((BLOCK_N,), tl.float32)
    # Read once, and in shared memory from here on.
    filters = ()
    for i_d in tl.static_range(_count_of(CLASS_D, KD, SD, DD, PD)):
        k_d = _first_of(CLASS_D, KD, SD, DD, PD) + i_d * STEP_D
        for i_h in tl.static_range(_count_of(CLASS_H, KH, SH, DH, PH)):
            k_h = _first_of(CLASS_H, KH, SH, DH, PH) + i_h * STEP_H
            for chunk in tl.static_range(CHUNKS):
                c = chunk * BLOCK_K + tl.arange(0, BLOCK_K)
                for k_w in tl.static_range(KW):
                    row = (((k_d * KH + k_h) * KW + k_w) * GROUPS + group) * C_PER + c
                    filters += (
                        tl.load(
                            filters_ptr + row[:, None] * OUT_PER + cols[None, :],
                            mask=(c < C_PER)[:, None] & col_ok[None, :], other=0.0,
                        ),
                    )  # fmt: skip
    STEPS: tl.constexpr = (
        _count_of(CLASS_D, KD, SD, DD, PD) * _count_of(CLASS_H, KH, SH, DH, PH) * CHUNKS
    )
    if WIDE:
        worker = worker.to(tl.int64)
    following = _tile_of_image(
        x_ptr, worker, group, rows, count_d, count_h, pitch, C_PER, D, H, W,
        stride_xn, stride_xc, stride_xd, stride_xh, stride_xw,
        CLASS_D, CLASS_H, KD, KH, SD, SH, PD, PH, DD, DH, STEP_D, STEP_H, CHUNKS,
        BEFORE, USED, BLOCK_M, BLOCK_K,
    )  # fmt: skip
    for tile in tl.range(worker, tiles, workers, num_stages=1):
        read = following
        # On its way while this tile is multiplied and stored.
        following = _tile_of_image(
            x_ptr, tile + workers, group, rows, count_d, count_h, pitch, C_PER, D, H, W,
            stride_xn, stride_xc, stride_xd, stride_xh, stride_xw,
            CLASS_D, CLASS_H, KD, KH, SD, SH, PD, PH, DD, DH, STEP_D, STEP_H, CHUNKS,
            BEFORE, USED, BLOCK_M, BLOCK_K,
        )  # fmt: skip
        # A sum for each tap along the width, all from the same reading of the image.
        sums = ()
        for _ in tl.static_range(KW):
            sums += (tl.zeros((BLOCK_M, BLOCK_N), tl.float32),)
        for step in tl.static_range(STEPS):
            new = ()
            for k_w in tl.static_range(KW):
                new += (tl.dot(read[step], filters[step * KW + k_w], sums[k_w]),)
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
            out_ptr, results, tile, group, CLASS_D, CLASS_H, cols, col_ok, rows, count_d, count_h,
            pitch, OUT_PER, OD, OH, OW,
            SD=SD, SH=SH, SW=SW, GROUPS=GROUPS, WIDE=WIDE, LEVELS=LEVELS, BEFORE=BEFORE, USED=USED,
            RUN=RUN, ALIGN=ALIGN, BLOCK_M=BLOCK_M,
        )  # fmt: skip
        # Rows between them that no tap reaches: written now, whole sectors leave the cache.
        empty = ()
        for _ in tl.static_range(SW):
            empty += (
                (tl.zeros((BLOCK_N, BLOCK_M), tl.float32) + bias[:, None]).to(
                    out_ptr.dtype.element_ty
                ),
            )
        for i in tl.static_range(len(EMPTY_H)):
            _store(
                out_ptr, empty, tile, group, CLASS_D, EMPTY_H[i], cols, col_ok, rows,
                count_d, count_h, pitch, OUT_PER, OD, OH, OW,
                SD=SD, SH=SH, SW=SW, GROUPS=GROUPS, WIDE=WIDE, LEVELS=LEVELS, BEFORE=BEFORE,
                USED=USED, RUN=RUN, ALIGN=ALIGN, BLOCK_M=BLOCK_M,
            )  # fmt: skip
    if AHEAD and tl.program_id(0) == 0:
        # The results are complete when this kernel is: not before the fill.
        tl.extra.cuda.gdc_wait()


def _each(value: int | Sequence[int], rank: int, name: str, least: int) -> tuple[int, ...]:
    """One number for each of three dimensions; those before the image's are the least effect."""
    given = (value,) * rank if isinstance(value, int) else tuple(value)
    given = given * rank if len(given) == 1 else given
    if len(given) != rank or any(each < least for each in given):
        raise ValueError(f"{name} has to be {rank} numbers of at least {least}, not {value}")
    return (int(least > 0),) * (3 - rank) + given


def _prepared(
    x: torch.Tensor, weight: torch.Tensor, image: tuple[int, ...], strides: tuple[int, ...],
    groups: int,
) -> tuple[torch.Tensor, tuple[int, ...], torch.Tensor]:  # fmt: skip
    """`x` with channels last, its strides in the order of [N, C, D, H, W], and the filters as
    [taps, groups, C, OUT]."""
    n, c = x.shape[:2]
    _, h, w = image
    per, out_per = c // groups, weight.shape[1]
    taps, positions = math.prod(weight.shape[2:]), math.prod(image)
    filters = torch.empty((taps, groups, per, out_per), dtype=x.dtype, device=x.device)
    last = x.stride(1) == 1 and x.movedim(1, -1).is_contiguous()
    packed = x if last else torch.empty((n, positions, c), dtype=x.dtype, device=x.device)
    block_c, block_p = (min(64, triton.next_power_of_2(size)) for size in (c, positions))
    programs = 0 if last else n * triton.cdiv(positions, block_p) * triton.cdiv(c, block_c)
    grid = (programs + triton.cdiv(filters.numel(), block_c * block_p),)
    _prepare_kernel[grid](
        x, packed, weight.contiguous(), filters, c, positions, h, w, *strides,
        per, out_per, groups, taps, programs, BLOCK_C=block_c, BLOCK_P=block_p, num_warps=4,
    )  # fmt: skip
    return packed, strides if last else (positions * c, 1, h * w * c, w * c, c), filters


def _device(device: torch.device) -> tuple[int, bool]:
    """Multiprocessors, and whether a kernel can start before the one before it has ended."""
    if device.type != "cuda":
        return CPU_PROGRAMS, False
    properties = torch.cuda.get_device_properties(device)
    return properties.multi_processor_count, properties.major >= 9


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
    programs_per_sm: int = 1,
    num_warps: int = 8,
) -> torch.Tensor:
    """Return the transposed convolution of `x` [N, C, ...] with `weight` [C, OUT / groups, ...].

    One to three dimensions, settings as in `torch.nn.functional.conv_transpose3d`; `bias` [OUT].
    16-bit dtypes. `x` has any strides; the result is contiguous. Blocks are made smaller until the
    filters fit in shared memory; where they never do, it is a ValueError.
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
    if x.element_size() != 2:
        raise ValueError(f"{x.dtype} is not taken here: use conv-transpose-parity")
    out = torch.empty(shape, dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    block_n = max(MIN_DOT, min(block_n, triton.next_power_of_2(out_per)))
    block_k = max(MIN_DOT, min(block_k, triton.next_power_of_2(per)))
    chunks = triton.cdiv(per, block_k)
    live = [
        sorted({(tap * dl - pl) % sl for tap in range(kl)})
        for kl, sl, pl, dl in zip(k, s, p, d, strict=True)
    ]
    # Taps along depth and height that the class with most of them has.
    most = math.prod(
        triton.cdiv(kl, sl // math.gcd(sl, dl))
        for kl, sl, dl in zip(k[:2], s[:2], d[:2], strict=True)
    )

    def shared() -> int:
        return 2 * most * chunks * block_k * (k[2] * block_n + block_m)

    while shared() > MAX_SHARED and (block_n > MIN_DOT or block_m > 64):
        block_m, block_n = (64, block_n) if block_m > 64 else (block_m, block_n // 2)
    if shared() > MAX_SHARED or most * chunks * k[2] > MAX_PRODUCTS:
        raise ValueError(
            f"filters {list(weight.shape)} do not fit in shared memory: use conv-transpose-parity"
        )
    if x.dtype == torch.bfloat16 and not x.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        x, weight = x.float(), weight.float()
    strides = (*x.stride()[:2], *(0,) * (3 - rank), *x.stride()[2:])
    x, strides, filters = _prepared(x, weight, image, strides, groups)
    given_bias = out if bias is None else bias.contiguous()

    # Outputs side by side: those of all classes along the width where their number is a power of
    # two, and of neighbouring positions where rows begin at multiples of more.
    levels = s[2].bit_length() - 1
    align = math.gcd(o[2], 8)
    granule = max(1 if s[2] > 1 else 2, align // s[2]) if 2**levels == s[2] else 1
    run = granule * s[2]
    # A row of positions ends in zeros as far as the taps reach, so that a shifted sum of its
    # neighbour's adds nothing; a tile's first and last positions serve the others alone.
    shifts = [(p[2] - tap * d[2] + (tap * d[2] - p[2]) % s[2]) // s[2] for tap in range(k[2])]
    before, behind = max(0, -min(shifts)), max(0, *shifts)
    pitch = max(-(-o[2] // s[2]) + behind, image[2] + before)
    pitch, before, behind = (-(-each // granule) * granule for each in (pitch, before, behind))
    while block_m < 2 * (before + behind):
        block_m *= 2
    used = block_m - before - behind
    count_d, count_h = (triton.cdiv(size, sl) for size, sl in zip(o[:2], s[:2], strict=True))
    rows = n * count_d * count_h
    tiles = triton.cdiv(rows * pitch, used)
    multiprocessors, dependent = _device(x.device)
    kinds = groups * triton.cdiv(out_per, block_n)
    workers = max(1, min(tiles, programs_per_sm * multiprocessors // kinds))

    empty = [
        [each for each in range(sl) if each not in has] for sl, has in zip(s, live, strict=True)
    ]
    ahead = dependent and bool(empty[0])
    if empty[0]:
        _fill_kernel[(multiprocessors,)](
            out, given_bias, n * groups * out_per * count_d, groups * out_per, o[0], o[1] * o[2],
            DEAD=tuple(empty[0]), SD=s[0], HAS_BIAS=bias is not None, AHEAD=ahead,
            BLOCK=2048 // out.element_size(), num_warps=4,
        )  # fmt: skip
    for class_d in live[0]:
        for class_h in live[1]:
            _conv_transpose_kernel[(workers * kinds,)](
                x, filters, given_bias, out,
                tiles, workers, rows, count_d, count_h, pitch, per, out_per, *image, *o,
                *strides,
                CLASS_D=class_d, CLASS_H=class_h,
                EMPTY_H=tuple(empty[1]) if class_h == live[1][0] else (),
                KD=k[0], KH=k[1], KW=k[2], SD=s[0], SH=s[1], SW=s[2],
                PD=p[0], PH=p[1], PW=p[2], DD=d[0], DH=d[1], DW=d[2],
                STEP_D=s[0] // math.gcd(s[0], d[0]), STEP_H=s[1] // math.gcd(s[1], d[1]),
                CHUNKS=chunks, GROUPS=groups, HAS_BIAS=bias is not None,
                WIDE=max(out.numel(), (rows * pitch + block_m) * s[2]) >= 2**31,
                LEVELS=levels, BEFORE=before, USED=used, RUN=run, ALIGN=math.gcd(align, run),
                AHEAD=ahead, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
                num_warps=num_warps, **({"launch_pdl": True} if ahead else {}),
            )  # fmt: skip
            ahead = False
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
