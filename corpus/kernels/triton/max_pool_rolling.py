"""
---
slug: max-pool-rolling
title: Max pooling that reads whole rows once, keeps planes in registers and takes the columns last
op: max-pool
language: triton
techniques: [register-caching, vectorized-access, coalesced-access]
architectures: [sm_80]
dtypes: [float64, float32, float16, bfloat16]
derived_from: max-pool-plain
sizes:
  check:
    - [2, 2, 9, 10, 19, 3, 2, 1, 3, 0]
    - [1, 2, 7, 8, 9, 3, 1, 1, 1, 0]
    - [1, 3, 11, 21, 2, 2, 0, 1, 1]
    - [5, 2, 37, 4, 3, 2, 2, 1]
    - [1, 1, 1, 1, 1, 1, 0, 1, 0]
  bench: [16, 32, 128, 128, 128, 3, 2, 1, 3, 0]
check_params: {block_rows: 4, block_cols: 32, planes: 4}
sources:
  - title: "PyTorch: torch.nn.MaxPool3d"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool3d.html
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
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x32x128x128x128x3x2x1x3x0
  dtype: bfloat16
  baseline: max-pool-plain
  baseline_ms: 2.022
  measured_ms: 0.5842
  speedup: 3.461
  floor_fraction: 0.9576
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x32x128x128x128x3x2x1x3x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 4.08
  measured_ms: 0.5842
  speedup: 6.984
  floor_fraction: 0.9576
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x32x128x128x128x3x2x1x3x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 5.445
  measured_ms: 0.5842
  speedup: 9.32
  floor_fraction: 0.9576
---

Max pooling over one, two or three dimensions, any window, stride, padding and dilation. The
maximum over a box is the maximum over columns of the maxima over rows of those over planes, in any
order, and the order is what makes it fast. Columns come last: with a stride of 2, a load of every
second column wastes half of each sector and half of each instruction, while the maxima over planes
and rows work on whole rows, loaded 16 bytes a thread and compared two 16-bit elements at a time.
Only what they leave, one row for each row of outputs, goes through shared memory (`tl.gather`),
from where each output picks its columns.

A program takes `block_rows` rows of outputs and walks along the planes. Two windows at different
depths share planes: with stride S and dilation D, tap k of one window is tap k + P of the window
D / gcd(S, D) steps before, where P = S / gcd(S, D). So the maxima over rows of the last few
planes stay in registers, and only P new planes are read at each step instead of all taps (2 of 3
for stride 2 and any odd dilation, 1 of 3 for stride 1). Rows shared by neighbouring windows are
read again, but from L1, as the loads of one step follow each other.

A program's walk takes `planes` steps, 0 meaning that it is chosen so that there are enough programs
to fill the GPU. Shorter walks give more programs, and each begins with planes that its neighbour
has read as well. Rows are counted over all images, so small images share a program.
"""

import math
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
def _larger(a, b):
    # NaN wins, as in PyTorch. The compiler takes the conversions out again; the CPU interpreter
    # needs them, as it compares bfloat16 by its bits.
    wide: tl.constexpr = tl.float32 if a.dtype == tl.bfloat16 else a.dtype
    return tl.maximum(a.to(wide), b.to(wide), propagate_nan=tl.PropagateNan.ALL).to(a.dtype)


@triton.constexpr_function
def _slot(tap, taps, fresh, lag):
    """Where the kept planes have what an earlier step read for this tap."""
    steps = (taps - 1 - tap) // fresh
    return (steps * lag - 1) * fresh + tap + steps * fresh - (taps - fresh)


@triton.jit
def _max_pool_kernel(
    x_ptr, out_ptr,
    rows_in_all, C, D, H, W, OD, OH, OW,
    stride_xn, stride_xc, stride_xd, stride_xh, stride_xw,
    planes, tile_ow,
    KD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    SD: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    PD: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr,
    DD: tl.constexpr, DH: tl.constexpr, DW: tl.constexpr,
    FRESH: tl.constexpr, LAG: tl.constexpr, KEPT: tl.constexpr,
    HOLLOW: tl.constexpr, WIDE: tl.constexpr, ALIGN: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, OUT_COLS: tl.constexpr, TAPS: tl.constexpr,
):  # fmt: skip
    lowest = float("-inf")
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

    # Taps outside of the image become others of the same window: a maximum does not mind, and
    # neither a mask nor a value for what is masked is needed.
    h_begin = oh * SH - PH
    h_least = tl.maximum((DH - 1 - h_begin) // DH, 0)
    h_most = tl.minimum(tl.maximum(H - 1 - h_begin, 0) // DH, KH - 1)
    # What each output picks from its row, all TAPS of them, a power of two, in one list.
    ow = tl.arange(0, OUT_COLS)
    begin = (first_ow + ow) * SW - PW
    least = tl.maximum((DW - 1 - begin) // DW, 0)
    most = tl.minimum(tl.maximum(W - 1 - begin, 0) // DW, KW - 1)
    taken = tl.minimum(tl.maximum(tl.arange(0, TAPS)[:, None], least[None, :]), most[None, :])
    pick = begin[None, :] + taken * DW - first_col
    pick = tl.minimum(tl.maximum(pick, 0), COLS - 1)
    picks = tl.arange(0, ROWS)[None, :, None] * COLS + pick[:, None, :]
    picks = tl.reshape(picks, (TAPS * ROWS * OUT_COLS,))

    kept = ()
    for _ in tl.static_range(KEPT * FRESH):
        kept += (tl.full((ROWS, COLS), lowest, x_ptr.dtype.element_ty),)
    # The first steps only fill what is kept.
    for od in range(first_od - KEPT, end_od):
        new = ()
        for k in tl.static_range(KD - FRESH, KD):
            d = od * SD - PD + k * DD
            # What the first steps read is for later ones, which need the last taps alone.
            first_d = (first_od - (KEPT if k >= FRESH else 0)) * SD - PD + k * DD
            plane_ok = (d >= tl.maximum(first_d, 0)) & (d < D)
            ok = cols < tl.where(plane_ok, W - first_col, 0)
            d_offset = tl.cast(d, tl.int64) * stride_xd
            plane = tl.full((ROWS, COLS), lowest, x_ptr.dtype.element_ty)
            for kh in tl.static_range(KH):
                h = h_begin + tl.minimum(tl.maximum(kh, h_least), h_most) * DH
                h = tl.minimum(tl.maximum(h, 0), H - 1)
                at = x_rows + h.to(tl.int64) * stride_xh
                at = at[:, None] + x_cols[None, :] + d_offset
                plane = _larger(plane, tl.load(at, mask=ok[None, :], other=lowest))
            new += (plane,)
        if od >= first_od:
            best = new[FRESH - 1]
            for k in tl.static_range(KD - 1):
                if k >= KD - FRESH:
                    best = _larger(best, new[k - (KD - FRESH)])
                else:
                    best = _larger(best, kept[_slot(k, KD, FRESH, LAG)])
            if KW > 1 or SW > 1 or PW > 0:
                # Flat, so that it goes through shared memory and not through warp shuffles, of
                # which each output would need as many as a thread has columns.
                found = tl.gather(tl.reshape(best, (ROWS * COLS,)), picks, 0)
                found = tl.reduce(tl.reshape(found, (TAPS, ROWS * OUT_COLS)), 0, _larger)
                found = tl.reshape(found, (ROWS, OUT_COLS))
            else:
                found = best
            if HOLLOW:
                some = (h_least <= h_most)[:, None] & (least <= most)[None, :]
                found = tl.where(some, found, lowest)
            out_rows = out_ptr + ((image.to(tl.int64) * OD + od) * OH + oh) * OW
            out_ok = row_ok[:, None] & ((ow < tile_ow) & (first_ow + ow < OW))[None, :]
            tl.store(out_rows[:, None] + (first_ow + ow)[None, :], found, mask=out_ok)
        if KEPT > 0:
            kept = new + kept[: (KEPT - 1) * FRESH]


def _each(value: int | Sequence[int], rank: int, name: str, least: int) -> tuple[int, ...]:
    """One number for each of three dimensions; those before the image's are the least effect."""
    given = (value,) * rank if isinstance(value, int) else tuple(value)
    given = given * rank if len(given) == 1 else given
    if len(given) != rank or any(each < least for each in given):
        raise ValueError(f"{name} has to be {rank} numbers of at least {least}, not {value}")
    return (int(name != "padding"),) * (3 - rank) + given


def _length(size: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> int:
    """Outputs along a dimension, as PyTorch counts them."""
    room = size + 2 * p - d * (k - 1) - 1
    count = (room + (s - 1 if ceil_mode else 0)) // s + 1
    # A window has to begin inside the image or the padding before it.
    return count - 1 if ceil_mode and (count - 1) * s >= size + p else count


def kernel_function(
    x: torch.Tensor,
    kernel_size: int | Sequence[int] = 3,
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    block_rows: int = 8,
    block_cols: int = 256,
    planes: int = 0,
    rolling: bool = True,
    num_warps: int = 2,
) -> torch.Tensor:
    """Return the maxima of `x` [N, C, ...] over windows of its one to three last dimensions.

    `x` has any strides; the result is contiguous. Sizes are as in `torch.nn.MaxPool3d`, `stride` by
    default the window's. `block_cols` is raised where a window is wider.
    """
    rank = x.ndim - 2
    if not 1 <= rank <= 3 or not x.is_floating_point():
        raise ValueError(f"cannot pool {x.dtype} {list(x.shape)}: floats [N, C, 1 to 3 dimensions]")
    k = _each(kernel_size, rank, "kernel_size", 1)
    s = _each(kernel_size if stride is None else stride, rank, "stride", 1)
    p, d = _each(padding, rank, "padding", 0), _each(dilation, rank, "dilation", 1)
    image = (1,) * (3 - rank) + tuple(x.shape[2:])
    strides = (*x.stride()[:2], *(0,) * (3 - rank), *x.stride()[2:])
    lengths = [_length(*sizes, ceil_mode) for sizes in zip(image, k, s, p, d, strict=True)]
    if min(lengths) < 1:
        raise ValueError(f"a window of {kernel_size} is too large for images of {list(image)}")
    if any(2 * each > dl * (kl - 1) + 1 for each, kl, dl in zip(p, k, d, strict=True)):
        raise ValueError(f"padding {padding} is more than half of the window {kernel_size}")
    out = torch.empty((*x.shape[:2], *lengths[3 - rank :]), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out

    # How the windows share planes.
    common = math.gcd(s[0], d[0])
    fresh, lag = min(s[0] // common, k[0]), d[0] // common
    kept = (k[0] - 1) // fresh * lag
    if not rolling or kept > MAX_KEPT:
        fresh, lag, kept = k[0], 0, 0

    # Columns of the image that one tile holds, and of the outputs that can be made from them.
    align = 16 // x.element_size()
    span = d[2] * (k[2] - 1) + 1
    cols = triton.next_power_of_2(max(min(image[2], block_cols), min(image[2], span + align)))
    pointwise = k[2] == s[2] == 1 and p[2] == 0
    if image[2] <= cols and not pointwise:
        tile = lengths[2]
    else:
        tile = cols if pointwise else (cols - align + 1 - span) // s[2] + 1
    # Whether a window may have no tap inside: only a dilated one that is wider than the image.
    hollow = any(
        dl * (kl - 1) >= size for size, kl, dl in zip(image[1:], k[1:], d[1:], strict=True)
    )

    rows = x.shape[0] * x.shape[1] * lengths[1]
    flat = triton.cdiv(rows, block_rows) * triton.cdiv(lengths[2], tile)
    if planes == 0:
        planes = max(triton.cdiv(lengths[0], triton.cdiv(ENOUGH_PROGRAMS, flat)), 4 * kept, 1)
    _max_pool_kernel[(flat * triton.cdiv(lengths[0], planes),)](
        x, out,
        rows, x.shape[1], *image, *lengths,
        *strides,
        planes, tile,
        *k, *s, *p, *d,
        FRESH=fresh, LAG=lag, KEPT=kept,
        HOLLOW=hollow, WIDE=rows + block_rows >= 2**31, ALIGN=align,
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
    dilation: int = 1,
    ceil_mode: bool = False,
) -> torch.Tensor:
    name = f"max_pool{x.ndim - 2}d"
    pool = getattr(torch.nn.functional, name)
    pooled: torch.Tensor = pool(x, kernel_size, stride, padding, dilation, ceil_mode)
    return pooled


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | int | bool]:
    """`size` is [N, C, one to three lengths, window, stride, padding, dilation, ceil_mode]."""
    *shape, window, stride, padding, dilation, ceil_mode = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(shape, dtype=dtype, device=device, generator=generator)
    return [x, window, stride, padding, dilation, bool(ceil_mode)]
