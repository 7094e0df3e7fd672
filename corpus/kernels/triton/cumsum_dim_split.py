"""
---
slug: cumsum-dim-split
title: Running sums along any dimension, cut into slabs where positions are few
op: cumsum
language: triton
techniques: [parallel-scan, coalesced-access, kernel-fusion]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: cumsum-dim-plain
sizes:
  check: [[2, 64, 32], [3, 10, 21], [7, 100], [5, 33, 1], [1, 520]]
  bench: [4096, 32768]
check_params: {tile: 512, block_p: 32, programs: 8}
sources:
  - title: "Blelloch: Prefix Sums and Their Applications"
    url: https://www.cs.cmu.edu/~guyb/papers/Ble93.pdf
    licence: proprietary
  - title: "Triton: triton.language.associative_scan"
    url: https://triton-lang.org/main/python-api/generated/triton.language.associative_scan.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 4096x32768
  dtype: bfloat16
  baseline: cumsum-dim-plain
  baseline_ms: 0.1458
  measured_ms: 0.1402
  speedup: 1.04
  floor_fraction: 0.9005
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 4096x32768
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.692
  measured_ms: 0.1402
  speedup: 4.936
  floor_fraction: 0.9005
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 4096x32768
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.2514
  measured_ms: 0.1402
  speedup: 1.793
  floor_fraction: 0.9005
---

Running sums (or products) along one dimension, wherever it lies. The tensor is seen as [batch, N,
positions]; a program takes a block of positions (over the last dimension: of rows) and walks along
a slab of N, a tile at a time: the tile is scanned in registers and across threads by shuffles, and
the carry, one number a position, is added.

Where blocks of positions do not fill the GPU, N is cut into slabs: a first launch takes each
slab's total, and the scanning one starts each slab from the totals before it (reduce, then scan).
That costs a second reading, which finds the slabs in L2 where the whole fits, and is worth it
where otherwise most multiprocessors would idle. Totals are added in a fixed order.

A program's tiles follow one another, so it asks for the next ones (`stages`) before it scans. Over
positions, blocks of one warp do best: a thread scans the values it holds without a word to others,
where eight warps exchange totals through shared memory, with barriers, at every step, and took
almost twice as long on an H200. From
the end, tiles come in the reverse order and are scanned backwards within, at the same places as
forwards: an index that runs down would cost the wide loads. `before` and `after` are elementwise
functions fused in: a mask is one of `before`.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {
    "tile": [2048, 4096, 8192, 16384],
    "block_p": [32, 64, 128],
    "programs": [132, 264, 528],
    "stages": [1, 2, 3],
    "num_warps": [2, 4, 8],
}

KINDS = ("sum", "prod")


@triton.jit
def _unchanged(x, lead, lane, mask, operands):
    """Elementwise functions get float32 values, and where they lie in the contiguous tensor: at
    `lead + lane`, `lane` along neighbours. `operands` is what the caller gave with them."""
    return x


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def _plus(a, b):
    return a + b


@triton.jit
def _scanned(x, KIND: tl.constexpr, REVERSE: tl.constexpr):
    if KIND == "sum":
        y = tl.associative_scan(x, 0, _plus, reverse=REVERSE)
    else:
        y = tl.associative_scan(x, 0, _times, reverse=REVERSE)
    return y


@triton.jit
def _whole(x, KIND: tl.constexpr):
    sums = KIND == "sum"
    return tl.sum(x, axis=0, keep_dims=True) if sums else tl.reduce(x, 0, _times, keep_dims=True)


@triton.jit
def _scan_kernel(
    x_ptr, out_ptr, totals_ptr, before_operands, after_operands,
    N, P, results, splits, slab, neutral,
    stride_xb, stride_xn, stride_xp, stride_ob, stride_on, stride_op,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, TOTALS: tl.constexpr, BLOCK_S: tl.constexpr,
    KIND: tl.constexpr, ROWS: tl.constexpr, REVERSE: tl.constexpr, EXCLUSIVE: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_P: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The totals of slabs [splits, results] (`TOTALS`), or the running values of each."""
    tiles = tl.cdiv(P, BLOCK_P)
    split = tl.program_id(0) % splits
    tile = tl.program_id(0) // splits
    # Index times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    batch = (tile // tiles).to(tl.int64)
    p = ((tile % tiles) * BLOCK_P + tl.arange(0, BLOCK_P)).to(tl.int64)[None, :]
    first = split.to(tl.int64) * slab
    end = tl.minimum(first + slab, N)
    x_base = x_ptr + batch * stride_xb + p * stride_xp
    carry = tl.zeros((1, BLOCK_P), dtype=tl.float32) + neutral
    if BLOCK_S > 0 and not TOTALS:
        s = tl.arange(0, BLOCK_S).to(tl.int64)[:, None]
        place = totals_ptr + s * results + batch * P + p
        before = (s > split) & (s < splits) if REVERSE else s < split
        carry = _whole(tl.load(place, mask=before & (p < P), other=neutral), KIND)
    if TOTALS:
        acc = tl.zeros((BLOCK_N, BLOCK_P), dtype=tl.float32) + neutral
    steps = tl.cdiv(end - first, BLOCK_N)
    for step in tl.range(0, steps, num_stages=STAGES):
        # Tiles begin at the same places in both directions, so that loads stay wide.
        start = first + (steps - 1 - step if REVERSE else step) * BLOCK_N
        n = start + tl.arange(0, BLOCK_N).to(tl.int64)[:, None]
        mask = (n < end) & (p < P)
        if ROWS:
            lead, lane = p * stride_op, n * stride_on
        else:
            lead, lane = batch * stride_ob + n * stride_on, p * stride_op
        x = tl.load(x_base + n * stride_xn, mask=mask, other=0.0).to(tl.float32)
        x = tl.where(mask, BEFORE(x, lead, lane, mask, before_operands), neutral)
        if TOTALS:
            if KIND == "sum":
                acc += x
            else:
                acc *= x
        else:
            y = _scanned(x, KIND, REVERSE)
            if KIND == "sum":
                y = y + carry
                carry += _whole(x, KIND)
            else:
                y = y * carry
                carry *= _whole(x, KIND)
            if EXCLUSIVE:
                # One place further on, and the first place has the neutral element.
                later = n - 1 if REVERSE else n + 1
                shift = -stride_on if REVERSE else stride_on
                y = AFTER(y, lead + shift, lane, mask & (later >= 0) & (later < N), after_operands)
                place = out_ptr + lead + shift + lane
                tl.store(
                    place, y.to(out_ptr.dtype.element_ty), mask=mask & (later >= 0) & (later < N)
                )
                edge = mask & (n == (N - 1 if REVERSE else 0))
                y = AFTER(tl.zeros_like(y) + neutral, lead, lane, edge, after_operands)
                tl.store(out_ptr + lead + lane, y.to(out_ptr.dtype.element_ty), mask=edge)
            else:
                y = AFTER(y, lead, lane, mask, after_operands)
                tl.store(out_ptr + lead + lane, y.to(out_ptr.dtype.element_ty), mask=mask)
    if TOTALS:
        place = totals_ptr + split.to(tl.int64) * results + batch * P + p
        tl.store(place, _whole(acc, KIND), mask=p < P)


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
    kind: str = "sum",
    reverse: bool = False,
    exclusive: bool = False,
    before=_unchanged,
    before_operands: tuple = (),
    after=_unchanged,
    after_operands: tuple = (),
    out_dtype: torch.dtype | None = None,
    tile: int = 8192,
    block_p: int = 64,
    programs: int = 264,
    stages: int = 3,
    num_warps: int = 8,
) -> torch.Tensor:
    """Return the running `kind` ("sum", "prod") of `x` along `dim`, contiguous, in `out_dtype`
    (`x`'s if None); it is carried in float32. From the end with `reverse`; without the element
    itself, beginning with 0 or 1, with `exclusive`.

    `before` and `after` are Triton functions `(values, lead, lane, mask, operands)` applied to each
    element on the way in and out. A program scans `tile` elements of 16 bits at a time, or half as
    many of 32, of one row and more; or a quarter of that, of `block_p` positions, on an eighth of
    the warps and with two stages more, in twice as many programs.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is one of {', '.join(KINDS)}, not '{kind}'")
    view, dim = _split(x, dim)
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    if not out.numel():
        return out
    batch, length, positions = view.shape
    rows = dim == x.dim() - 1
    # In bytes the same for all dtypes: tiles wait in shared memory.
    tile = max(1, tile * 2 // x.element_size())
    if not rows:
        # Along positions a thread scans what it holds, and only few threads hold one position's:
        # programs of few warps, of which more are needed, each with more of its tiles on the way.
        tile, num_warps, programs = max(1, tile // 4), max(1, num_warps // 8), 2 * programs
        stages += 2
    block_n, block_p = _shape(length, positions, rows, tile, block_p)
    blocks = batch * triton.cdiv(positions, block_p)
    # Slabs of at least two steps: shorter ones would be mostly start and end.
    splits = max(1, min(programs // blocks, length // (2 * block_n)))
    slab = triton.cdiv(triton.cdiv(length, splits), block_n) * block_n
    splits = triton.cdiv(length, slab)
    results = batch * positions
    strides = (*view.stride(), *_split(out, dim)[0].stride())
    neutral = 0.0 if kind == "sum" else 1.0
    totals = None
    if splits > 1:
        totals = torch.empty((splits, results), dtype=torch.float32, device=x.device)
    for taking in (True, False) if splits > 1 else (False,):
        _scan_kernel[(blocks * splits,)](
            view, out, totals, before_operands, after_operands,
            length, positions, results, splits, slab, neutral, *strides,
            BEFORE=before, AFTER=after, TOTALS=taking,
            BLOCK_S=triton.next_power_of_2(splits) if splits > 1 else 0,
            KIND=kind, ROWS=rows, REVERSE=reverse, EXCLUSIVE=exclusive,
            BLOCK_N=block_n, BLOCK_P=block_p, STAGES=stages, num_warps=num_warps,
        )  # fmt: skip
    return out


def reference(
    x: torch.Tensor,
    dim: int = -1,
    kind: str = "sum",
    reverse: bool = False,
    exclusive: bool = False,
) -> torch.Tensor:
    scan = torch.cumsum if kind == "sum" else torch.cumprod
    x = x.flip(dim) if reverse else x
    if exclusive:
        edge = x.narrow(dim, 0, 1)
        first = torch.zeros_like(edge) if kind == "sum" else torch.ones_like(edge)
        x = torch.cat([first, x.narrow(dim, 0, x.shape[dim] - 1)], dim)
    return scan(x, dim).flip(dim) if reverse else scan(x, dim)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [batch, length of the dimension, positions after it], or without the last."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator), 1, "sum"]
