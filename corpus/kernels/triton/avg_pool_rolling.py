"""
---
slug: avg-pool-rolling
title: Average pooling that sums planes and rows of whole vectors, and the columns last
op: avg-pool
language: triton
techniques: [register-caching, vectorized-access, coalesced-access]
architectures: [sm_80]
dtypes: [float64, float32, float16, bfloat16]
derived_from: avg-pool-plain
sizes:
  check:
    - [2, 2, 9, 10, 19, 3, 2, 1, 0, 1]
    - [1, 2, 7, 8, 9, 3, 1, 1, 0, 0]
    - [1, 3, 11, 21, 3, 2, 1, 1, 0]
    - [5, 2, 37, 4, 3, 2, 1, 1]
    - [1, 1, 1, 1, 1, 0, 0, 1]
  bench: [16, 32, 128, 128, 128, 3, 2, 1, 0, 1]
check_params: {block_rows: 4, block_cols: 32, planes: 4}
sources:
  - title: "PyTorch: torch.nn.AvgPool3d"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool3d.html
    licence: BSD-3-Clause
  - title: "Triton: triton.language.gather"
    url: https://triton-lang.org/main/python-api/generated/triton.language.gather.html
    licence: MIT
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
  baseline: avg-pool-plain
  baseline_ms: 2.236
  measured_ms: 0.6101
  speedup: 3.665
  floor_fraction: 0.9312
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x128x128x128x3x2x1x0x1
  dtype: bfloat16
  baseline: eager
  baseline_ms: 4.295
  measured_ms: 0.6101
  speedup: 7.04
  floor_fraction: 0.9312
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x128x128x128x3x2x1x0x1
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 4.295
  measured_ms: 0.6101
  speedup: 7.04
  floor_fraction: 0.9312
---

Average pooling over one, two or three dimensions, any window, stride and padding. The sum over a
box is the sum over columns of the sums over rows of those over planes. Columns come last, as in
max-pool-rolling: planes and rows are summed as whole rows, loaded 16 bytes a thread, in float32,
and only one row for each row of outputs goes through shared memory (`tl.gather`), from where each
output picks its columns.

A program takes `block_rows` rows of outputs and walks along the planes. A window shares K - S of
its K planes with the next one, so sums over rows of these stay in registers, and only S planes
are read at each step. Sums are taken anew for each window: adding what enters and taking away
what leaves would be fewer additions and would let rounding errors grow along the walk.

A program's walk takes `planes` steps, 0 meaning that it is chosen so that there are enough
programs to fill the GPU. Rows are counted over all images, so small images share a program. The
divisor is the product of three counts, one for each dimension.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_rows": [2, 4, 8, 16, 32],
    "block_cols": [64, 128, 256, 512],
    "planes": [0, 8, 16, 32],
    "rolling": [True, False],
    "num_warps": [1, 2, 4, 8],
}

# Planes kept in registers for longer than this many steps cost more programs than they save reads.
MAX_KEPT = 8
# Programs that keep a large GPU busy: 132 to 148 multiprocessors with 8 of 128 threads each, twice.
ENOUGH_PROGRAMS = 2048


@triton.jit
def _count(o, SIZE, K: tl.constexpr, S: tl.constexpr, P: tl.constexpr, WITH_PADDING: tl.constexpr):
    """By how many elements a dimension divides the sum, as PyTorch counts them."""
    begin = o * S - P
    end = begin + K
    # Padding counts where asked for; what a rounded-up last window has beyond it never does.
    margin = P if WITH_PADDING else 0
    return tl.minimum(end, SIZE + margin) - tl.maximum(begin, -margin)


@triton.constexpr_function
def _slot(tap, taps, fresh):
    """Where the kept planes have what an earlier step read for this tap."""
    steps = (taps - 1 - tap) // fresh
    return (steps - 1) * fresh + tap + steps * fresh - (taps - fresh)


@triton.jit
def _avg_pool_kernel(
    x_ptr, out_ptr,
    rows_in_all, C, D, H, W, OD, OH, OW,
    stride_xn, stride_xc, stride_xd, stride_xh, stride_xw,
    planes, tile_ow,
    KD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    SD: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    PD: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    WITH_PADDING: tl.constexpr, DIVISOR: tl.constexpr,
    FRESH: tl.constexpr, KEPT: tl.constexpr, WIDE: tl.constexpr, ALIGN: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, OUT_COLS: tl.constexpr, TAPS: tl.constexpr,
):  # fmt: skip
    wide = tl.float64 if x_ptr.dtype.element_ty == tl.float64 else tl.float32
    # Neighbouring rows first: programs that run together share rows in L2.
    pid = tl.program_id(0)
    if WIDE:
        pid = pid.to(tl.int64)
    row_blocks = tl.cdiv(rows_in_all, ROWS)
    rows = (pid % row_blocks) * ROWS + tl.arange(0, ROWS)
    pid = pid // row_blocks
    col_tiles = tl.cdiv(OW, tile_ow)
    first_ow = (pid % col_tiles) * tile_ow
    first_od = (pid // col_tiles) * planes
    end_od = tl.minimum(first_od + planes, OD)
    row_ok = rows < rows_in_all
    rows = tl.minimum(rows, rows_in_all - 1)
    image = rows // OH
    oh = rows % OH
    # Whole vectors: a tile begins at a multiple of one.
    first_col = tl.maximum(first_ow * SW - PW, 0) // ALIGN * ALIGN
    cols = tl.arange(0, COLS)
    # Sizes times strides in int64: a few GB have more than 2**31 elements.
    x_tile = x_ptr + first_col.to(tl.int64) * stride_xw
    x_rows = x_tile + (image // C).to(tl.int64) * stride_xn + (image % C).to(tl.int64) * stride_xc
    x_cols = cols.to(tl.int64) * stride_xw

    # What each output picks from its row, all TAPS of them, a power of two, in one list.
    ow = tl.arange(0, OUT_COLS)
    tap = tl.arange(0, TAPS)[:, None]
    col = ((first_ow + ow) * SW - PW)[None, :] + tap
    pick = tl.minimum(tl.maximum(col - first_col, 0), COLS - 1)
    picks = tl.arange(0, ROWS)[None, :, None] * COLS + pick[:, None, :]
    picks = tl.reshape(picks, (TAPS * ROWS * OUT_COLS,))
    counts = ((tap < KW) & (col >= 0) & (col < W))[:, None, :]
    counts = tl.broadcast_to(counts, (TAPS, ROWS, OUT_COLS))
    counts = tl.reshape(counts, (TAPS, ROWS * OUT_COLS))
    share = _count(oh, H, KH, SH, PH, WITH_PADDING)[:, None]
    share *= _count(first_ow + ow, W, KW, SW, PW, WITH_PADDING)[None, :]

    kept = ()
    for _ in tl.static_range(KEPT * FRESH):
        kept += (tl.zeros((ROWS, COLS), wide),)
    # The first steps only fill what is kept.
    for od in range(first_od - KEPT, end_od):
        new = ()
        for k in tl.static_range(KD - FRESH, KD):
            d = od * SD - PD + k
            # What the first steps read is for later ones, which need the last taps alone.
            first_d = (first_od - (KEPT if k >= FRESH else 0)) * SD - PD + k
            plane_ok = (d >= tl.maximum(first_d, 0)) & (d < D)
            ok = cols < tl.where(plane_ok, W - first_col, 0)
            d_offset = tl.cast(d, tl.int64) * stride_xd
            plane = tl.zeros((ROWS, COLS), wide)
            for kh in tl.static_range(KH):
                h = oh * SH - PH + kh
                row_in = ((h >= 0) & (h < H))[:, None]
                at = x_rows + h.to(tl.int64) * stride_xh
                at = at[:, None] + x_cols[None, :] + d_offset
                plane += tl.load(at, mask=row_in & ok[None, :], other=0.0).to(wide)
            new += (plane,)
        if od >= first_od:
            total = new[FRESH - 1]
            for k in tl.static_range(KD - 1):
                if k >= KD - FRESH:
                    total += new[k - (KD - FRESH)]
                else:
                    total += kept[_slot(k, KD, FRESH)]
            if KW > 1 or SW > 1 or PW > 0:
                # Flat, so that it goes through shared memory and not through warp shuffles, of
                # which each output would need as many as a thread has columns.
                found = tl.gather(tl.reshape(total, (ROWS * COLS,)), picks, 0)
                found = tl.where(counts, tl.reshape(found, (TAPS, ROWS * OUT_COLS)), 0.0)
                found = tl.reshape(tl.sum(found, 0), (ROWS, OUT_COLS))
            else:
                found = total
            if DIVISOR != 0:
                mean = found / DIVISOR
            else:
                deep = _count(od + oh * 0, D, KD, SD, PD, WITH_PADDING)[:, None]
                mean = found / (deep * share).to(wide)
            out_rows = out_ptr + ((image.to(tl.int64) * OD + od) * OH + oh) * OW
            out_ok = row_ok[:, None] & ((ow < tile_ow) & (first_ow + ow < OW))[None, :]
            mean = mean.to(out_ptr.dtype.element_ty)
            tl.store(out_rows[:, None] + (first_ow + ow)[None, :], mean, mask=out_ok)
        if KEPT > 0:
            kept = new + kept[: (KEPT - 1) * FRESH]


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
    block_rows: int = 8,
    block_cols: int = 256,
    planes: int = 0,
    rolling: bool = True,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return the means of `x` [N, C, ...] over windows of its one to three last dimensions.

    `x` has any strides; the result is contiguous. Sizes are as in `torch.nn.AvgPool3d`, `stride` by
    default the window's. `block_cols` is raised where a window is wider.
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
    if out.numel() == 0:
        return out

    # How the windows share planes.
    fresh = min(s[0], k[0])
    kept = (k[0] - 1) // fresh
    if not rolling or kept > MAX_KEPT:
        fresh, kept = k[0], 0

    # Columns of the image that one tile holds, and of the outputs that can be made from them.
    align = 16 // x.element_size()
    cols = triton.next_power_of_2(max(min(image[2], block_cols), min(image[2], k[2] + align)))
    pointwise = k[2] == s[2] == 1 and p[2] == 0
    if image[2] <= cols and not pointwise:
        tile = lengths[2]
    else:
        tile = cols if pointwise else (cols - align + 1 - k[2]) // s[2] + 1
    rows = x.shape[0] * x.shape[1] * lengths[1]
    flat = triton.cdiv(rows, block_rows) * triton.cdiv(lengths[2], tile)
    if planes == 0:
        planes = max(triton.cdiv(lengths[0], triton.cdiv(ENOUGH_PROGRAMS, flat)), 4 * kept, 1)
    _avg_pool_kernel[(flat * triton.cdiv(lengths[0], planes),)](
        x, out,
        rows, x.shape[1], *image, *lengths,
        *strides,
        planes, tile,
        *k, *s, *p, count_include_pad, divisor_override or 0,
        FRESH=fresh, KEPT=kept, WIDE=rows + block_rows >= 2**31, ALIGN=align,
        ROWS=block_rows, COLS=cols,
        OUT_COLS=cols if pointwise else triton.next_power_of_2(tile),
        TAPS=triton.next_power_of_2(k[2]),
        num_warps=num_warps,
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
