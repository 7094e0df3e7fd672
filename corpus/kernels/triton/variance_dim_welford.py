"""
---
slug: variance-dim-welford
title: Variance and mean over any dimension in one reading, by Welford's recurrence
op: variance
language: triton
techniques: [online-reduction, split-k, coalesced-access, kernel-fusion]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 64, 32], [3, 10, 21], [7, 100], [5, 33, 1], [1, 520]]
  bench: [16384, 16384]
check_params: {tile: 128, block_p: 32, programs: 8}
sources:
  - title: "Chan, Golub, LeVeque: Updating Formulae for Computing Sample Variances"
    url: http://i.stanford.edu/pub/cstr/reports/cs/tr/79/773/CS-TR-79-773.pdf
    licence: proprietary
  - title: "Welford: Note on a Method for Calculating Corrected Sums of Squares and Products"
    url: https://doi.org/10.1080/00401706.1962.10490022
    licence: proprietary
  - title: "Triton: triton.language.reduce"
    url: https://triton-lang.org/main/python-api/generated/triton.language.reduce.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16384x16384
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.6538
  measured_ms: 0.1323
  speedup: 4.942
  floor_fraction: 0.9504
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16384x16384
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1283
  measured_ms: 0.1323
  speedup: 0.9698
  floor_fraction: 0.9504
---

Variance and mean along one dimension in one reading. The definition needs the mean first, so two
readings; the textbook's mean(x^2) - mean(x)^2 needs one and loses all digits where the mean is
large beside the spread. Welford's recurrence needs one and loses none, but value by value it costs
some ten instructions each, and at the speed of memory a multiprocessor has little more than that
for a 16-bit value. Here the recurrence goes by chunks: each element of a program's block takes
`unroll` values at once into the registers of its thread, has their mean and their squared distances
from it by the definition (a sum, a difference, a product and sum), and merges these by Chan's
formula with what it has, once a chunk. The same formula merges across threads, after the walk.

The tensor is seen as [batch, N, positions]; where blocks of results do not fill the GPU, N is cut
into slabs whose figures a second kernel merges. `before` is an elementwise function fused in.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {
    "tile": [2048, 4096, 8192, 16384],
    "block_p": [64, 128, 256],
    "programs": [264, 528, 1056],
    "unroll": [4, 8],
    "num_warps": [2, 4, 8],
}


@triton.jit
def _unchanged(x, lead, lane, mask, operands):
    """Elementwise functions get float32 values, and where they lie in the contiguous tensor: at
    `lead + lane`, `lane` along neighbours. `operands` is what the caller gave with them."""
    return x


@triton.jit
def _merged(n, mean, squares, m, other, others):
    """Counts, means and sums of squared distances of two parts as one."""
    total = n + m
    share = tl.where(total > 0, m / tl.maximum(total, 1.0), 0.0)
    apart = other - mean
    return total, mean + apart * share, squares + others + apart * apart * n * share


@triton.jit
def _chunk(
    x_base, operands, mean, squares, count, start, end, batch, p, N, P, stride_xn,
    BEFORE: tl.constexpr, ROWS: tl.constexpr, FULL: tl.constexpr,
    UNROLL: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Count, mean and squares after `UNROLL` more values of each element of the block."""
    slot = tl.arange(0, BLOCK_N)[:, None]
    values = ()
    total = tl.zeros_like(mean)
    for k in tl.static_range(UNROLL):
        n = start + k * BLOCK_N + slot.to(tl.int64)
        mask = (p < P) & (n < end)
        if ROWS:
            lead, lane = p * N, n
        else:
            lead, lane = (batch * N + n) * P, p
        # What lies past the last position is never stored: full chunks leave nothing out.
        loads = p < P if FULL else mask
        x = tl.load(x_base + n * stride_xn, mask=loads, other=0.0, eviction_policy="evict_first")
        x = BEFORE(x.to(tl.float32), lead, lane, loads, operands)
        if not FULL:
            x = tl.where(mask, x, 0.0)
        total += x
        values += (x,)
    if FULL:
        new = 1.0 * UNROLL
    else:
        seen = (end - start - slot + BLOCK_N - 1) // BLOCK_N
        new = tl.minimum(tl.maximum(seen, 0), UNROLL).to(tl.float32)
    other = total * (1.0 / tl.maximum(new, 1.0))
    others = tl.zeros_like(mean)
    for k in tl.static_range(UNROLL):
        apart = values[k] - other
        if not FULL:
            apart = tl.where(start + k * BLOCK_N + slot < end, apart, 0.0)
        others += apart * apart
    return _merged(count, mean, squares, new, other, others)


@triton.jit
def _welford_kernel(
    x_ptr, figures_ptr, variance_ptr, mean_ptr, before_operands,
    N, P, results, plane, splits, slab, divisor,
    stride_xb, stride_xn, stride_xp,
    BEFORE: tl.constexpr, ROWS: tl.constexpr, WHOLE: tl.constexpr,
    UNROLL: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """Figures [3, splits, results]: count, mean, sum of squared distances of each slab; the results
    themselves where there is one slab (`WHOLE`)."""
    tiles = tl.cdiv(P, BLOCK_P)
    split = tl.program_id(0) % splits
    tile = tl.program_id(0) // splits
    # Index times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    batch = (tile // tiles).to(tl.int64)
    p = ((tile % tiles) * BLOCK_P + tl.arange(0, BLOCK_P)).to(tl.int64)[None, :]
    first = split.to(tl.int64) * slab
    end = tl.minimum(first + slab, N)
    x_base = x_ptr + batch * stride_xb + p * stride_xp
    mean = tl.zeros((BLOCK_N, BLOCK_P), dtype=tl.float32)
    squares = tl.zeros((BLOCK_N, BLOCK_P), dtype=tl.float32)
    # One number for all elements, but for the last chunk.
    count = 0.0
    step: tl.constexpr = UNROLL * BLOCK_N
    full = first + (end - first) // step * step
    for start in tl.range(first, full, step):
        count, mean, squares = _chunk(
            x_base, before_operands, mean, squares, count, start, end, batch, p, N, P, stride_xn,
            BEFORE, ROWS, True, UNROLL, BLOCK_N,
        )  # fmt: skip
    counts = tl.zeros((BLOCK_N, 1), dtype=tl.float32) + count
    if full < end:
        counts, mean, squares = _chunk(
            x_base, before_operands, mean, squares, counts, full, end, batch, p, N, P, stride_xn,
            BEFORE, ROWS, False, UNROLL, BLOCK_N,
        )  # fmt: skip
    counts = tl.broadcast_to(counts, (BLOCK_N, BLOCK_P))
    count, mean, squares = tl.reduce((counts, mean, squares), 0, _merged, keep_dims=True)
    place = batch * P + p
    ok = p < P
    if WHOLE:
        variance = squares / divisor
        tl.store(variance_ptr + place, variance.to(variance_ptr.dtype.element_ty), mask=ok)
        tl.store(mean_ptr + place, mean.to(mean_ptr.dtype.element_ty), mask=ok)
    else:
        out = figures_ptr + split.to(tl.int64) * results + place
        tl.store(out, count, mask=ok)
        tl.store(out + plane, mean, mask=ok)
        tl.store(out + 2 * plane, squares, mask=ok)


@triton.jit
def _finish_kernel(
    figures_ptr, variance_ptr, mean_ptr, results, plane, splits, divisor,
    BLOCK_S: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[None, :]
    s = tl.arange(0, BLOCK_S).to(tl.int64)[:, None]
    mask = (s < splits) & (i < results)
    place = figures_ptr + s * results + i
    count = tl.load(place, mask=mask, other=0.0)
    mean = tl.load(place + plane, mask=mask, other=0.0)
    squares = tl.load(place + 2 * plane, mask=mask, other=0.0)
    count, mean, squares = tl.reduce((count, mean, squares), 0, _merged, keep_dims=True)
    variance = squares / divisor
    tl.store(variance_ptr + i, variance.to(variance_ptr.dtype.element_ty), mask=i < results)
    tl.store(mean_ptr + i, mean.to(mean_ptr.dtype.element_ty), mask=i < results)


def _split(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, int]:
    """`x` seen as [batch, N, positions], and the dimension counted from the front."""
    if not -x.dim() <= dim < x.dim():
        raise ValueError(f"there is no dimension {dim} in a tensor of {x.dim()} dimensions")
    dim %= x.dim()
    shape = (math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :]))
    try:
        view = x.view(shape)
    except RuntimeError:  # strides that three numbers cannot tell
        view = x.contiguous().view(shape)
    # Over the last dimension the rows are the positions, and the batch is 1. `unsqueeze` gives that
    # batch a row's stride, often a multiple of 16; Triton takes a stride of 1 for unaligned loads.
    return (view if dim < x.dim() - 1 else view.squeeze(2).t().unsqueeze(0)), dim


def _shape(length: int, positions: int, rows: bool, tile: int, block_p: int) -> tuple[int, int]:
    """The block along the dimension, and that along positions (or rows), of `tile` elements."""
    if rows:
        block_n = min(tile, triton.next_power_of_2(length))
        return block_n, max(1, min(tile // block_n, triton.next_power_of_2(positions)))
    block_p = min(block_p, tile, triton.next_power_of_2(positions))
    return min(tile // block_p, triton.next_power_of_2(length)), block_p


def kernel_function(
    x: torch.Tensor,
    dim: int = -1,
    correction: float = 1.0,
    before=_unchanged,
    before_operands: tuple = (),
    out_dtype: torch.dtype | None = None,
    tile: int = 8192,
    block_p: int = 128,
    programs: int = 1056,
    unroll: int = 8,
    num_warps: int = 4,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return variance and mean of `x` over `dim`, which is left out of their shape, in `out_dtype`
    (`x`'s if None). The divisor is the number of elements less `correction`.

    `before` is a Triton function `(values, lead, lane, mask, operands)` applied to each element on
    the way in. A program loads `tile` elements at a time, of `block_p` positions or of one row and
    more, `unroll` for each pair of a mean and a sum of squares.
    """
    view, dim = _split(x, dim)
    shape = (*x.shape[:dim], *x.shape[dim + 1 :])
    variance = torch.empty(shape, dtype=out_dtype or x.dtype, device=x.device)
    mean = torch.empty_like(variance)
    if not x.shape[dim]:
        raise ValueError(f"dimension {dim} of {list(x.shape)} has no elements to reduce")
    if not variance.numel():
        return variance, mean
    batch, length, positions = view.shape
    rows = dim == x.dim() - 1
    block_n, block_p = _shape(length, positions, rows, tile, block_p)
    steps = min(unroll, block_n)
    blocks = batch * triton.cdiv(positions, block_p)
    # Slabs of at least two steps: shorter ones would be mostly start and end.
    splits = max(1, min(programs // blocks, length // (2 * block_n)))
    slab = triton.cdiv(triton.cdiv(length, splits), block_n) * block_n
    splits = triton.cdiv(length, slab)
    results = variance.numel()
    divisor = max(0.0, length - correction)
    figures = None
    if splits > 1:
        figures = torch.empty((3, splits, results), dtype=torch.float32, device=x.device)
    _welford_kernel[(blocks * splits,)](
        view, figures, variance, mean, before_operands,
        length, positions, results, splits * results, splits, slab, divisor, *view.stride(),
        BEFORE=before, ROWS=rows, WHOLE=splits == 1, UNROLL=steps,
        BLOCK_N=block_n // steps, BLOCK_P=block_p, num_warps=num_warps,
    )  # fmt: skip
    if splits == 1:
        return variance, mean
    block_s = triton.next_power_of_2(splits)
    block = max(1, min(1024 // block_s, triton.next_power_of_2(results)))
    _finish_kernel[(triton.cdiv(results, block),)](
        figures, variance, mean, results, splits * results, splits, divisor,
        BLOCK_S=block_s, BLOCK=block, num_warps=4,
    )  # fmt: skip
    return variance, mean


def reference(
    x: torch.Tensor, dim: int = -1, correction: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.var_mean(x, dim, correction=correction)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [batch, length of the dimension, positions after it], or without the last."""
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(size, dtype=dtype, device=device, generator=generator)
    # Means beside the spread, which differ, so that neither result can be told from the other's.
    return [x + torch.arange(1, size[0] + 1, device=device).view(-1, *[1] * (len(size) - 1)), 1]
