"""
---
slug: argmax-dim-split
title: Largest or smallest value and its index over any dimension, split where results are few
op: argmax
language: triton
techniques: [split-k, coalesced-access, kernel-fusion]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 64, 32], [3, 10, 21], [2, 256, 15], [7, 100], [5, 33, 1], [1, 520]]
  bench: [4096, 65536]
check_params: {tile: 128, block_p: 32, programs: 8}
sources:
  - title: "Triton: triton.language.reduce"
    url: https://triton-lang.org/main/python-api/generated/triton.language.reduce.html
    licence: MIT
  - title: "Harris: Optimizing Parallel Reduction in CUDA"
    url: https://developer.download.nvidia.com/assets/cuda/files/reduction.pdf
    licence: proprietary
  - title: "PyTorch: torch.max"
    url: https://docs.pytorch.org/docs/stable/generated/torch.max.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 4096x65536
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.2364
  measured_ms: 0.1554
  speedup: 1.521
  floor_fraction: 0.8078
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 4096x65536
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.3096
  measured_ms: 0.1554
  speedup: 1.992
  floor_fraction: 0.8078
---

Largest (or smallest) value along one dimension and where it stands: of equal values the first, as
PyTorch has it; NaN counts as the extreme. A reduction that carries a pair. Each element of a
program's block keeps the best value it saw and its index, with one comparison and two selections
for each load; pairs are compared across threads once, after the walk, where ties go to the smaller
index.

Sixteen rows of an odd length such as 4095 are taken as one long row, which is aligned, so that
loads are wide; a second launch compares their parts. On an H200 bfloat16 [128, 4096, 4095] over its
middle dimension takes 1.15 ms so, and 1.70 row by row (2026-11-26, torch 2.11, Triton 3.6).

The tensor is seen as [batch, N, positions]; where blocks of results do not fill the GPU, N is cut
into slabs whose pairs a second launch reduces. `before` is an elementwise function fused in.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {
    "tile": [1024, 2048, 4096, 8192],
    "block_p": [64, 128, 256, 1024],
    "programs": [264, 528, 1056, 2112],
    "num_warps": [2, 4, 8],
}

# Triton knows of a stride that it is a multiple of 16 elements, or nothing: fewer will not do.
ALIGNED = 16
# Rows to reduce for each row of partial results. With fewer, these cost what wide loads save.
MIN_ROWS = 16


@triton.jit
def _unchanged(x, lead, lane, mask, operands):
    """Elementwise functions get float32 values, and where they lie in the contiguous tensor: at
    `lead + lane`, `lane` along neighbours. `operands` is what the caller gave with them."""
    return x


@triton.jit
def _better(a, i, b, j):
    """The larger of two values with its place; of equal ones the earlier. NaN is largest."""
    wins = (a > b) | ((a != a) & (b == b))
    ties = (a == b) | ((a != a) & (b != b))
    left = wins | (ties & (i < j))
    return tl.where(left, a, b), tl.where(left, i, j)


@triton.jit
def _argmax_kernel(
    x_ptr, places_ptr, values_out, places_out, before_operands,
    N, P, splits, slab, fold,
    stride_xb, stride_xn, stride_xp,
    BEFORE: tl.constexpr, LARGEST: tl.constexpr, HAS_PLACES: tl.constexpr, ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """The outputs are [batch, splits, P]: the result of each slab. Row n of `places_ptr` counts
    rows of the tensor by `fold`, from n modulo `fold` on."""
    tiles = tl.cdiv(P, BLOCK_P)
    split = tl.program_id(0) % splits
    tile = tl.program_id(0) // splits
    # Index times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    batch = (tile // tiles).to(tl.int64)
    p = ((tile % tiles) * BLOCK_P + tl.arange(0, BLOCK_P)).to(tl.int64)[None, :]
    first = split.to(tl.int64) * slab
    end = tl.minimum(first + slab, N)
    x_base = x_ptr + batch * stride_xb + p * stride_xp
    best = tl.full((BLOCK_N, BLOCK_P), float("-inf"), dtype=tl.float32)
    # N is less than 2**31 here. An element that sees nothing above -inf has its first place, and
    # one that sees nothing at all the last place there is: it never wins.
    seen = (first + tl.arange(0, BLOCK_N))[:, None]
    unseen = tl.where(seen < (0 if HAS_PLACES else end), seen, 2147483647).to(tl.int32)
    place = tl.broadcast_to(unseen, (BLOCK_N, BLOCK_P))
    for start in tl.range(first, end, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N).to(tl.int64)[:, None]
        mask = (n < end) & (p < P)
        if ROWS:
            lead, lane = p * N, n
        else:
            lead, lane = (batch * N + n) * P, p
        x = tl.load(x_base + n * stride_xn, mask=mask, other=0.0, eviction_policy="evict_first").to(
            tl.float32
        )
        x = BEFORE(x, lead, lane, mask, before_operands)
        if not LARGEST:
            x = -x
        if HAS_PLACES:
            at = places_ptr + batch * stride_xb + n * stride_xn + p
            here = tl.load(at, mask=mask, other=0) * fold + (n % fold).to(tl.int32)
            here = tl.where(mask, here, 2147483647)
            best, place = _better(best, place, tl.where(mask, x, float("-inf")), here)
        else:
            # Larger or NaN, and the best so far is not NaN. A later equal value does not win.
            wins = mask & ~(x <= best) & (best == best)
            best = tl.where(wins, x, best)
            place = tl.where(wins, tl.broadcast_to(n, (BLOCK_N, BLOCK_P)).to(tl.int32), place)
    value, index = tl.reduce((best, place), 0, _better, keep_dims=True)
    if not LARGEST:
        value = -value
    out = (batch * splits + split) * P + p
    tl.store(values_out + out, value.to(values_out.dtype.element_ty), mask=p < P)
    tl.store(places_out + out, index.to(places_out.dtype.element_ty), mask=p < P)


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


def _aligned(view: torch.Tensor) -> torch.Tensor:
    """`view` [batch, N, positions] as [batch, N / f, f * positions], whose rows begin at multiples
    of 16 elements; as it is where they do already, or cannot.

    A row of 4095 bfloat16 values begins 2 bytes further past a 16-byte boundary than the one before
    it, so that a thread may load 2 bytes at once. Sixteen such rows taken as one are aligned.
    """
    batch, length, positions = view.shape
    fold = ALIGNED // math.gcd(positions, ALIGNED)
    stretch = view.stride(1) == positions and view.stride(2) == 1
    apart = batch == 1 or view.stride(0) % ALIGNED == 0
    if fold == 1 or length % fold or length < MIN_ROWS * fold or not (stretch and apart):
        return view
    return view.as_strided(
        (batch, length // fold, fold * positions), (view.stride(0), fold * positions, 1)
    )


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
    largest: bool = True,
    before=_unchanged,
    before_operands: tuple = (),
    out_dtype: torch.dtype | None = None,
    tile: int = 2048,
    block_p: int = 128,
    programs: int = 1056,
    num_warps: int = 8,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the largest (or smallest) values of `x` over `dim`, in `out_dtype` (`x`'s if None),
    and their indices, int64; `dim` is left out of their shape. `dim` has less than 2**31 elements.

    `before` is a Triton function `(values, lead, lane, mask, operands)` applied to each element on
    the way in. A program loads `tile` elements at a time, of `block_p` positions or of one row
    and more.
    """
    view, dim = _split(x, dim)
    shape = (*x.shape[:dim], *x.shape[dim + 1 :])
    values = torch.empty(shape, dtype=out_dtype or x.dtype, device=x.device)
    places = torch.empty(shape, dtype=torch.int64, device=x.device)
    if not x.shape[dim]:
        raise ValueError(f"dimension {dim} of {list(x.shape)} has no elements to reduce")
    if not values.numel():
        return values, places
    rows = dim == x.dim() - 1
    positions = view.shape[2]
    if not rows and before is _unchanged:
        view = _aligned(view)
    batch, length, wide = view.shape
    block_n, block_p = _shape(length, wide, rows, tile, block_p)
    blocks = batch * triton.cdiv(wide, block_p)
    # Slabs of at least two steps: shorter ones would be mostly start and end.
    splits = max(1, min(programs // blocks, length // (2 * block_n)))
    slab = triton.cdiv(triton.cdiv(length, splits), block_n) * block_n
    splits = triton.cdiv(length, slab)
    constants = {"LARGEST": largest, "BLOCK_N": block_n, "BLOCK_P": block_p}
    if splits == 1 and wide == positions:
        _argmax_kernel[(blocks,)](
            view, None, values, places, before_operands,
            length, positions, 1, slab, 1, *view.stride(),
            BEFORE=before, HAS_PLACES=False, ROWS=rows, num_warps=num_warps, **constants,
        )  # fmt: skip
        return values, places
    best = torch.empty((batch, splits, wide), dtype=torch.float32, device=x.device)
    where = torch.empty((batch, splits, wide), dtype=torch.int32, device=x.device)
    _argmax_kernel[(blocks * splits,)](
        view, None, best, where, before_operands,
        length, wide, splits, slab, 1, *view.stride(),
        BEFORE=before, HAS_PLACES=False, ROWS=rows, num_warps=num_warps, **constants,
    )  # fmt: skip
    parts = splits * wide // positions
    block_n, block_p = _shape(parts, positions, False, 4096, 32 if splits > 1 else 128)
    _argmax_kernel[(batch * triton.cdiv(positions, block_p),)](
        best, where, values, places, (),
        parts, positions, 1, parts, wide // positions, splits * wide, positions, 1,
        BEFORE=_unchanged, HAS_PLACES=True, ROWS=False, LARGEST=largest,
        BLOCK_N=block_n, BLOCK_P=block_p, num_warps=4,
    )  # fmt: skip
    return values, places


def reference(
    x: torch.Tensor, dim: int = -1, largest: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    return tuple(torch.max(x, dim) if largest else torch.min(x, dim))


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [batch, length of the dimension, positions after it], or without the last."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator), 1, True]
