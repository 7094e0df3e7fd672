"""
---
slug: softmax-dim-online
title: Softmax over any dimension in two readings, with a running maximum and sum
op: softmax
language: triton
techniques: [online-reduction, coalesced-access, kernel-fusion]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 64, 32], [3, 10, 21], [7, 100], [5, 33, 1], [1, 2, 7]]
  bench: [64, 512, 16384]
check_params: {block: 512, block_p: 16}
sources:
  - title: "Triton tutorial: fused softmax"
    url: https://triton-lang.org/main/getting-started/tutorials/02-fused-softmax.html
    licence: MIT
  - title: "PyTorch: torch.softmax"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html
    licence: BSD-3-Clause
  - title: "Milakov, Gimelshein: Online normalizer calculation for softmax"
    url: https://arxiv.org/abs/1805.02867
    licence: arXiv-nonexclusive
  - title: "CUDA C++ Best Practices Guide"
    url: https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/
    licence: proprietary
verified:
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 64x512x16384
  dtype: bfloat16
  baseline: eager
  baseline_ms: 7.853
  measured_ms: 0.8052
  speedup: 9.753
  floor_fraction: 0.882
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 64x512x16384
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.168
  measured_ms: 0.8052
  speedup: 1.451
  floor_fraction: 0.882
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x512x16384
  dtype: bfloat16
  baseline: eager
  baseline_ms: 7.722
  measured_ms: 0.6615
  speedup: 11.67
  floor_fraction: 0.7662
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x512x16384
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.165
  measured_ms: 0.6615
  speedup: 1.761
  floor_fraction: 0.7662
---

Softmax over one dimension of any length. The textbook takes three readings: the maximum, the
sum of exp(x - maximum), the result. Maximum and sum can be had in one: whenever the maximum grows
from m to m', the sum so far is multiplied with exp(m - m'). So there are two readings and one
writing. The second reading goes backwards, so that it finds in L2 what was read last, and the
results pass L2 by: on an H100 that takes 0.81 ms for 64 x 512 x 16384 bfloat16 values over the
middle dimension, and 1.08 forwards. Rows of 393216 values take 3.03 ms with 32 warps and blocks of
8192, and 3.27 forwards; `torch.compile` takes 3.59 (2026-11-25, torch 2.11, Triton 3.6).

A program takes a block of contiguous positions (over the last dimension: one row) and walks along
the dimension, `block` elements at a time. Each element of the block keeps a maximum and sum of its
own: threads meet once, after the walk. `unroll` values are taken together, their common maximum
first, so that the sum is scaled once for them; value by value this would be bound by instructions.
`before` and `after` are elementwise functions fused in; `before` runs in both readings.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block": [512, 1024, 2048, 4096, 8192],
    "block_p": [32, 64, 128, 256],
    "unroll": [1, 2, 4],
    "num_warps": [4, 8, 16, 32],
}

# For exp(x) as a power of 2: tl.exp spends further instructions on results below 2**-126.
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _unchanged(x, lead, lane, mask, operands):
    """Elementwise functions get float32 values, and where they lie in the contiguous tensor: at
    `lead + lane`, `lane` along neighbours. `operands` is what the caller gave with them."""
    return x


@triton.jit
def _taken(
    x_base, operands, largest, total, start, batch, p, N, P,
    stride_xn, stride_ob, stride_on, stride_op,
    BEFORE: tl.constexpr, ROWS: tl.constexpr, FULL: tl.constexpr,
    UNROLL: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Maxima and sums of exponentials after `UNROLL` more values of each element."""
    values = ()
    top = largest
    for k in tl.static_range(UNROLL):
        n = start + k * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)[:, None]
        mask = (p < P) if FULL else (n < N) & (p < P)
        if ROWS:
            lead, lane = p * stride_op, n * stride_on
        else:
            lead, lane = batch * stride_ob + n * stride_on, p * stride_op
        x = tl.load(x_base + n * stride_xn, mask=mask, other=0.0).to(tl.float32)
        x = BEFORE(x, lead, lane, mask, operands)
        if not FULL:
            x = tl.where(n < N, x, float("-inf"))
        top = tl.maximum(top, x)
        values += (x,)
    total *= tl.exp2((largest - top) * LOG2_E)
    for k in tl.static_range(UNROLL):
        total += tl.exp2((values[k] - top) * LOG2_E)
    return top, total


@triton.jit
def _softmax_kernel(
    x_ptr, out_ptr, before_operands, after_operands,
    N, P,
    stride_xb, stride_xn, stride_xp, stride_ob, stride_on, stride_op,
    BEFORE: tl.constexpr, AFTER: tl.constexpr,
    ROWS: tl.constexpr, UNROLL: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(P, BLOCK_P)
    # Index times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    batch = (tl.program_id(0) // tiles).to(tl.int64)
    p = ((tl.program_id(0) % tiles) * BLOCK_P + tl.arange(0, BLOCK_P)).to(tl.int64)[None, :]
    chunk = tl.arange(0, BLOCK_N).to(tl.int64)[:, None]
    x_base = x_ptr + batch * stride_xb + p * stride_xp

    # The lowest finite number in place of -inf: no -inf minus -inf before the first value.
    largest = tl.full((BLOCK_N, BLOCK_P), -3.4028234663852886e38, dtype=tl.float32)
    total = tl.zeros((BLOCK_N, BLOCK_P), dtype=tl.float32)
    full = N // (UNROLL * BLOCK_N) * (UNROLL * BLOCK_N)
    for start in tl.range(0, full, UNROLL * BLOCK_N):
        largest, total = _taken(
            x_base, before_operands, largest, total, start, batch, p, N, P,
            stride_xn, stride_ob, stride_on, stride_op,
            BEFORE, ROWS, True, UNROLL, BLOCK_N,
        )  # fmt: skip
    for start in tl.range(full, N, BLOCK_N):
        largest, total = _taken(
            x_base, before_operands, largest, total, start, batch, p, N, P,
            stride_xn, stride_ob, stride_on, stride_op,
            BEFORE, ROWS, False, 1, BLOCK_N,
        )  # fmt: skip
    top = tl.max(largest, axis=0, keep_dims=True)
    sums = tl.sum(total * tl.exp2((largest - top) * LOG2_E), axis=0, keep_dims=True)
    scale = 1.0 / sums

    # Backwards: what was read last is what L2 still holds.
    steps = tl.cdiv(N, BLOCK_N)
    for step in tl.range(0, steps):
        n = (steps - 1 - step) * BLOCK_N + chunk
        mask = (n < N) & (p < P)
        if ROWS:
            lead, lane = p * stride_op, n * stride_on
        else:
            lead, lane = batch * stride_ob + n * stride_on, p * stride_op
        x = tl.load(x_base + n * stride_xn, mask=mask, other=0.0, eviction_policy="evict_first")
        x = BEFORE(x.to(tl.float32), lead, lane, mask, before_operands)
        y = tl.exp2((x - top) * LOG2_E) * scale
        y = AFTER(y, lead, lane, mask, after_operands)
        y = y.to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + lead + lane, y, mask=mask, cache_modifier=".cs")


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


def kernel_function(
    x: torch.Tensor,
    dim: int = -1,
    before=_unchanged,
    before_operands: tuple = (),
    after=_unchanged,
    after_operands: tuple = (),
    out_dtype: torch.dtype | None = None,
    block: int = 2048,
    block_p: int = 64,
    unroll: int = 4,
    num_warps: int = 8,
) -> torch.Tensor:
    """Return the softmax of `x` over its dimension `dim`, contiguous.

    Its dtype is `out_dtype` (`x`'s if None).
    `before` and `after` are Triton functions `(values, lead, lane, mask, operands)` applied to
    each element on the way in and out. A program loads `block` elements at a time, of `block_p`
    positions or of one row.
    """
    view, dim = _split(x, dim)
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    if not out.numel():
        return out
    batch, length, positions = view.shape
    rows = dim == x.dim() - 1
    block_p = 1 if rows else min(block_p, triton.next_power_of_2(positions))
    block_n = min(max(1, block // block_p), triton.next_power_of_2(length))
    _softmax_kernel[(batch * triton.cdiv(positions, block_p),)](
        view, out, before_operands, after_operands,
        length, positions,
        *view.stride(), *_split(out, dim)[0].stride(),
        BEFORE=before, AFTER=after, ROWS=rows, UNROLL=unroll, BLOCK_N=block_n, BLOCK_P=block_p,
        num_warps=num_warps,
    )  # fmt: skip
    return out


def reference(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    return torch.softmax(x, dim)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [batch, length of the dimension, positions after it], or without the last."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator), 1]
