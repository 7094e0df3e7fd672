"""
---
slug: logsumexp-dim-online
title: Logsumexp over any dimension, read once, with a running maximum and sum
op: logsumexp
language: triton
techniques: [online-reduction, coalesced-access, split-k, kernel-fusion]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 64, 32], [3, 10, 21], [7, 100], [5, 33, 1], [1, 2048]]
  bench: [64, 512, 16384]
check_params: {tile: 128, block_p: 32, programs: 8}
sources:
  - title: "Milakov, Gimelshein: Online normalizer calculation for softmax"
    url: https://arxiv.org/abs/1805.02867
    licence: arXiv-nonexclusive
  - title: "PyTorch: torch.logsumexp"
    url: https://docs.pytorch.org/docs/stable/generated/torch.logsumexp.html
    licence: BSD-3-Clause
  - title: "Triton: triton.language.reduce"
    url: https://triton-lang.org/main/python-api/generated/triton.language.reduce.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-27
  shape: 64x512x16384
  dtype: bfloat16
  baseline: eager
  baseline_ms: 2.576
  measured_ms: 0.2973
  speedup: 8.665
  floor_fraction: 0.8456
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-27
  shape: 64x512x16384
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.4972
  measured_ms: 0.2973
  speedup: 1.672
  floor_fraction: 0.8456
---

The logarithm of the sum of exponentials over one dimension; a whole tensor is one row. The tensor
is seen as [batch, N, positions]; a program takes a block of positions (over the last dimension: of
rows) and walks along N in tiles. For each position it keeps the largest value so far and the sum of
`exp(x - largest)`. A tile with a larger value scales the sum once; each element costs one
exponential and is read once. Up to a tile's length the whole dimension lies in registers: over 16
or 64 channels there is one tile, no loop.

Operator by operator, as eager PyTorch runs it, it is a maximum, a difference, an exponential, a sum
and a logarithm: tensors of the input's size are read four times and written twice.

Where blocks of positions do not fill the GPU, N is cut into slabs. The logsumexp of the slabs' own
is that of all elements, so a second launch of the same kernel finishes.

A maximum of `-inf` (nothing but `-inf` so far) or `inf` is not subtracted: the difference of equal
infinities would be NaN, and PyTorch gives `-inf` and `inf`.

`before` and `after` are elementwise functions fused in.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {
    "tile": [1024, 2048, 4096, 8192],
    "block_p": [32, 64, 128, 256, 512],
    "programs": [528, 1056, 2112, 4224],
    "num_warps": [2, 4, 8],
}


@triton.jit
def _unchanged(x, lead, lane, mask, operands):
    """Elementwise functions get float32 values, and where they lie in the contiguous tensor: at
    `lead + lane`, `lane` along neighbours. `operands` is what the caller gave with them."""
    return x


@triton.jit
def _finite(x):
    """0 where `x` is infinite."""
    return tl.where(tl.abs(x) == float("inf"), 0.0, x)


@triton.jit
def _logsumexp_kernel(
    x_ptr, out_ptr, before_operands, after_operands,
    N, P, splits, slab,
    stride_xb, stride_xn, stride_xp,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, ROWS: tl.constexpr,
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
    largest = tl.zeros((1, BLOCK_P), dtype=tl.float32) - float("inf")
    total = tl.zeros((1, BLOCK_P), dtype=tl.float32)
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
        x = tl.where(mask, BEFORE(x, lead, lane, mask, before_operands), -float("inf"))
        larger = tl.maximum(largest, tl.max(x, axis=0, keep_dims=True))
        shift = _finite(larger)
        # Where nothing was added before, there is nothing to scale.
        scale = tl.where(largest == -float("inf"), 0.0, tl.exp(largest - shift))
        total = total * scale + tl.sum(tl.exp(x - shift), axis=0, keep_dims=True)
        largest = larger
    y = tl.log(total) + _finite(largest)
    y = AFTER(y, 0, batch * P + p, p < P, after_operands)
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
    before=_unchanged,
    before_operands: tuple = (),
    after=_unchanged,
    after_operands: tuple = (),
    out_dtype: torch.dtype | None = None,
    tile: int = 4096,
    block_p: int = 128,
    programs: int = 1056,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return `log(sum(exp(x)))` over `dim`, which is left out of the result's shape, in `out_dtype`
    (`x`'s if None).

    `before` and `after` are Triton functions `(values, lead, lane, mask, operands)` applied to each
    element on the way in and to each result. A program loads `tile` elements at a time, of
    `block_p` positions or of one row and more.
    """
    view, dim = _split(x, dim)
    shape = (*x.shape[:dim], *x.shape[dim + 1 :])
    out = torch.empty(shape, dtype=out_dtype or x.dtype, device=x.device)
    if not x.shape[dim]:
        raise ValueError(f"dimension {dim} of {list(x.shape)} has no elements to reduce")
    if not out.numel():
        return out
    rows = dim == x.dim() - 1
    batch, length, positions = view.shape
    block_n, block_p = _shape(length, positions, rows, tile, block_p)
    blocks = batch * triton.cdiv(positions, block_p)
    # Slabs of at least two steps: shorter ones would be mostly start and end.
    splits = max(1, min(programs // blocks, length // (2 * block_n)))
    slab = triton.cdiv(triton.cdiv(length, splits), block_n) * block_n
    splits = triton.cdiv(length, slab)
    if splits == 1:
        _logsumexp_kernel[(blocks,)](
            view, out, before_operands, after_operands,
            length, positions, 1, slab, *view.stride(),
            BEFORE=before, AFTER=after, ROWS=rows,
            BLOCK_N=block_n, BLOCK_P=block_p, num_warps=num_warps,
        )  # fmt: skip
        return out
    partial = torch.empty((batch, splits, positions), dtype=torch.float32, device=x.device)
    _logsumexp_kernel[(blocks * splits,)](
        view, partial, before_operands, (),
        length, positions, splits, slab, *view.stride(),
        BEFORE=before, AFTER=_unchanged, ROWS=rows,
        BLOCK_N=block_n, BLOCK_P=block_p, num_warps=num_warps,
    )  # fmt: skip
    # Few steps, in many programs: the second launch is all latency.
    block_n, block_p = _shape(splits, positions, False, 4096, 32)
    _logsumexp_kernel[(batch * triton.cdiv(positions, block_p),)](
        partial, out, (), after_operands,
        splits, positions, 1, splits, *partial.stride(),
        BEFORE=_unchanged, AFTER=after, ROWS=False,
        BLOCK_N=block_n, BLOCK_P=block_p, num_warps=4,
    )  # fmt: skip
    return out


def reference(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    return torch.logsumexp(x, dim)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [batch, length of the dimension, positions after it], or without the last."""
    generator = torch.Generator(device=device).manual_seed(seed)
    # Far from 0 at some places: without its maximum the sum would overflow.
    x = torch.randn(size, dtype=dtype, device=device, generator=generator)
    return [x * 8 + torch.arange(size[0], device=device).view(-1, *[1] * (len(size) - 1)) * 64, 1]
