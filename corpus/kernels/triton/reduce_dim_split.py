"""
---
slug: reduce-dim-split
title: Sum, mean, product, maximum or minimum over any dimension, split where results are few
op: reduce
language: triton
techniques: [split-k, coalesced-access, kernel-fusion]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: reduce-dim-plain
sizes:
  check: [[2, 64, 32], [3, 10, 21], [7, 100], [5, 33, 1], [1, 520]]
  bench: [64, 2048, 2048]
check_params: {tile: 128, block_p: 32, programs: 8}
sources:
  - title: "Triton: triton.language.reduce"
    url: https://triton-lang.org/main/python-api/generated/triton.language.reduce.html
    licence: MIT
  - title: "Harris: Optimizing Parallel Reduction in CUDA"
    url: https://developer.download.nvidia.com/assets/cuda/files/reduction.pdf
    licence: proprietary
verified:
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 64x2048x2048
  dtype: bfloat16
  baseline: reduce-dim-plain
  baseline_ms: 0.179
  measured_ms: 0.1765
  speedup: 1.014
  floor_fraction: 1.006
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 64x2048x2048
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1912
  measured_ms: 0.1765
  speedup: 1.083
  floor_fraction: 1.006
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 64x2048x2048
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1793
  measured_ms: 0.1765
  speedup: 1.016
  floor_fraction: 1.006
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x2048x2048
  dtype: bfloat16
  baseline: reduce-dim-plain
  baseline_ms: 0.1267
  measured_ms: 0.1239
  speedup: 1.023
  floor_fraction: 1.023
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x2048x2048
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1449
  measured_ms: 0.1239
  speedup: 1.169
  floor_fraction: 1.023
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x2048x2048
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1227
  measured_ms: 0.1239
  speedup: 0.9903
  floor_fraction: 1.023
---

Reduces one dimension of a tensor; a whole tensor is one row. The tensor is seen as [batch, N,
positions]; a program takes a block of positions (over the last dimension: of rows) and walks along
a slab of N. Each element of the block has an accumulator of its own: no threads meet inside the
walk, and several wide loads are in flight. A block as wide as the tensor's rows makes the slab one
stretch of memory, which DRAM delivers faster than a column of short segments.

Rows of a length such as 4095 begin at addresses that are no multiple of 16 bytes, and load one
element at a time. Sixteen of them together are aligned, so they are reduced as one long row first;
the partial sums are few. On an H100 the sum of bfloat16 [128, 4096, 4095] over its middle
dimension takes 1.53 ms so, 1.77 row by row and 1.68 under `torch.compile` (2026-11-25, torch 2.11,
Triton 3.6).

Where blocks of results do not fill the GPU, N is cut into slabs until about `programs` programs
run: each writes its partial result in float32, and a second launch of the same kernel reduces
those. Where they do, there is one launch. The order is fixed either way, so sums are the same at
every run, which atomics would not give.

`before` and `after` are elementwise functions fused in: a norm is a sum of squares and a root.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {
    "tile": [1024, 2048, 4096],
    "block_p": [64, 128, 512, 1024, 2048],
    "programs": [528, 1056, 2112, 4224],
    "num_warps": [2, 4, 8],
}

KINDS = ("sum", "mean", "max", "min", "prod")
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
def _more(a, b):
    """The larger one; NaN passes through."""
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def _less(a, b):
    """The smaller one; NaN passes through."""
    return tl.where((a < b) | (a != a), a, b)


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def _combined(a, b, KIND: tl.constexpr):
    if KIND == "max":
        c = _more(a, b)
    elif KIND == "min":
        c = _less(a, b)
    elif KIND == "prod":
        c = a * b
    else:
        c = a + b
    return c


@triton.jit
def _reduced(a, KIND: tl.constexpr):
    if KIND == "max":
        c = tl.reduce(a, 0, _more, keep_dims=True)
    elif KIND == "min":
        c = tl.reduce(a, 0, _less, keep_dims=True)
    elif KIND == "prod":
        c = tl.reduce(a, 0, _times, keep_dims=True)
    else:
        c = tl.sum(a, axis=0, keep_dims=True)
    return c


@triton.jit
def _reduce_kernel(
    x_ptr, out_ptr, before_operands, after_operands,
    N, P, splits, slab, neutral, factor,
    stride_xb, stride_xn, stride_xp,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, KIND: tl.constexpr, ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """The output is [batch, splits, P]: the result of each slab."""
    tiles = tl.cdiv(P, BLOCK_P)
    split = tl.program_id(0) % splits
    tile = tl.program_id(0) // splits
    # Index times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    batch = (tile // tiles).to(tl.int64)
    p = ((tile % tiles) * BLOCK_P + tl.arange(0, BLOCK_P)).to(tl.int64)[None, :]
    first = split.to(tl.int64) * slab
    end = tl.minimum(first + slab, N)
    x_base = x_ptr + batch * stride_xb + p * stride_xp
    acc = tl.zeros((BLOCK_N, BLOCK_P), dtype=tl.float32) + neutral
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
        acc = _combined(acc, tl.where(mask, x, neutral), KIND)
    y = AFTER(_reduced(acc, KIND) * factor, 0, batch * P + p, p < P, after_operands)
    place = out_ptr + (batch * splits + split) * P + p
    tl.store(place, y.to(out_ptr.dtype.element_ty), mask=p < P)


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
    kind: str = "sum",
    before=_unchanged,
    before_operands: tuple = (),
    after=_unchanged,
    after_operands: tuple = (),
    out_dtype: torch.dtype | None = None,
    tile: int = 2048,
    block_p: int = 512,
    programs: int = 1056,
    num_warps: int = 8,
) -> torch.Tensor:
    """Return the `kind` ("sum", "mean", "max", "min", "prod") of `x` over `dim`, left out of the
    result's shape, in `out_dtype` (`x`'s if None).

    `before` and `after` are Triton functions `(values, lead, lane, mask, operands)` applied to each
    element on the way in and to each result. A program
    loads `tile` elements at a time, of `block_p` positions or of one row and more.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is one of {', '.join(KINDS)}, not '{kind}'")
    view, dim = _split(x, dim)
    shape = (*x.shape[:dim], *x.shape[dim + 1 :])
    out = torch.empty(shape, dtype=out_dtype or x.dtype, device=x.device)
    if not x.shape[dim]:
        raise ValueError(f"dimension {dim} of {list(x.shape)} has no elements to reduce")
    if not out.numel():
        return out
    rows = dim == x.dim() - 1
    size, positions = view.shape[1:]
    if not rows and before is _unchanged:
        view = _aligned(view)
    batch, length, wide = view.shape
    block_n, block_p = _shape(length, wide, rows, tile, block_p)
    blocks = batch * triton.cdiv(wide, block_p)
    # Slabs of at least two steps: shorter ones would be mostly start and end.
    splits = max(1, min(programs // blocks, length // (2 * block_n)))
    slab = triton.cdiv(triton.cdiv(length, splits), block_n) * block_n
    splits = triton.cdiv(length, slab)
    neutral = {"max": float("-inf"), "min": float("inf"), "prod": 1.0}.get(kind, 0.0)
    factor = 1.0 / size if kind == "mean" else 1.0
    if splits == 1 and wide == positions:
        _reduce_kernel[(blocks,)](
            view, out, before_operands, after_operands,
            length, positions, 1, slab, neutral, factor, *view.stride(),
            BEFORE=before, AFTER=after, KIND=kind, ROWS=rows,
            BLOCK_N=block_n, BLOCK_P=block_p, num_warps=num_warps,
        )  # fmt: skip
        return out
    partial = torch.empty((batch, splits, wide), dtype=torch.float32, device=x.device)
    _reduce_kernel[(blocks * splits,)](
        view, partial, before_operands, (),
        length, wide, splits, slab, neutral, 1.0, *view.stride(),
        BEFORE=before, AFTER=_unchanged, KIND=kind, ROWS=rows,
        BLOCK_N=block_n, BLOCK_P=block_p, num_warps=num_warps,
    )  # fmt: skip
    # Few steps, in many programs: the second launch is all latency.
    parts = splits * wide // positions
    block_n, block_p = _shape(parts, positions, False, 4096, 32 if splits > 1 else 128)
    _reduce_kernel[(batch * triton.cdiv(positions, block_p),)](
        partial, out, (), after_operands,
        parts, positions, 1, parts, neutral, factor, splits * wide, positions, 1,
        BEFORE=_unchanged, AFTER=after, KIND=kind, ROWS=False,
        BLOCK_N=block_n, BLOCK_P=block_p, num_warps=4,
    )  # fmt: skip
    return out


def reference(x: torch.Tensor, dim: int = -1, kind: str = "sum") -> torch.Tensor:
    kinds = {
        "sum": torch.sum, "mean": torch.mean, "prod": torch.prod,
        "max": torch.amax, "min": torch.amin,
    }  # fmt: skip
    return kinds[kind](x, dim)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [batch, length of the dimension, positions after it], or without the last."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator), 1, "sum"]
