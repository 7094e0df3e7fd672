"""
---
slug: lp-normalize-rows
title: L1, L2 or maximum normalisation of long rows that may begin anywhere, read again out of L2
op: normalize
language: triton
techniques: [cache-eviction-hints, vectorized-access, kernel-fusion]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: lp-normalize-dim
sizes:
  check: [[3, 2085], [5, 96], [4, 7], [2, 4, 333], [1, 1]]
  bench: [8192, 65535]
check_params: {block: 256, num_warps: 4}
sources:
  - title: "PyTorch: torch.nn.functional.normalize"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.normalize.html
    licence: BSD-3-Clause
  - title: "PTX ISA: cache eviction priority hints"
    url: https://docs.nvidia.com/cuda/parallel-thread-execution/
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x65535
  dtype: bfloat16
  baseline: lp-normalize-dim
  baseline_ms: 1.058
  measured_ms: 0.6607
  speedup: 1.601
  floor_fraction: 0.7603
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x65535
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.67
  measured_ms: 0.6607
  speedup: 2.528
  floor_fraction: 0.7603
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x65535
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.116
  measured_ms: 0.6607
  speedup: 1.689
  floor_fraction: 0.7603
---

x / max(norm, eps) over the last dimension, one program a row. The row is read twice, the second
time backwards: what was read last is what L2 still holds. 32 warps leave room for two programs on a
multiprocessor, and L2 holds the rows of all of them, so the second reading hardly reaches DRAM.

Rows of odd length begin at addresses that are no multiple of 16 bytes, and would load one element
at a time. Here the first and last few elements of a row are taken by themselves. All between begins
at a multiple of 16 bytes, which the compiler is told, and loads wide.

On an H100, 32768 rows of 65535 bfloat16 values take 2.86 ms so, 3.03 with blocks of 16384, 4.61
with 8 warps (eight programs on a multiprocessor, whose rows L2 does not hold), 3.40 in registers as
one tile, and 5.60 with narrow loads and two launches. A copy takes 2.84 and `torch.compile` 5.38
(2026-11-25, torch 2.11, Triton 3.6).
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block": [4096, 8192, 16384, 32768],
    "num_warps": [8, 16, 32],
}

KINDS = ("l1", "l2", "max", "mean")
# PyTorch's default: no norm counts as less.
EPS = 1e-12


@triton.jit
def _more(a, b):
    """The larger one; NaN passes through."""
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def _collected(acc, x, KIND: tl.constexpr):
    """`acc` with the values `x` taken in, element by element."""
    if KIND == "l2":
        acc += x * x
    elif KIND == "max":
        acc = _more(acc, tl.abs(x))
    else:
        acc += tl.abs(x)
    return acc


@triton.jit
def _merged(acc, KIND: tl.constexpr):
    """What axis 0 comes to, as one row."""
    if KIND == "max":
        total = tl.reduce(acc, 0, _more, keep_dims=True)
    else:
        total = tl.sum(acc, axis=0, keep_dims=True)
    return total


@triton.jit
def _scale(norm, N, eps, KIND: tl.constexpr):
    if KIND == "l2":
        norm = tl.sqrt(norm)
    if KIND == "mean":
        norm = norm / N
    return 1.0 / tl.where(norm < eps, eps, norm)


@triton.jit
def _row_kernel(
    x_ptr, out_ptr, N, eps, KIND: tl.constexpr, UNIT: tl.constexpr, BLOCK: tl.constexpr
):
    """One row of contiguous [rows, N]; `UNIT` elements are 16 bytes."""
    row_start = tl.program_id(0).to(tl.int64) * N
    lead = row_start % UNIT
    base = tl.multiple_of(row_start - lead, UNIT)
    first = tl.multiple_of(tl.cdiv(lead, UNIT) * UNIT, UNIT)
    end = tl.multiple_of(tl.maximum((lead + N) // UNIT * UNIT, first), UNIT)
    # The elements before the first whole unit, and those behind the last one.
    side = tl.arange(0, 2 * UNIT)
    edge = tl.where(side < UNIT, side, end + side - UNIT)
    outside = tl.where(side < UNIT, edge < first, edge >= end)
    mask = outside & (edge >= lead) & (edge < lead + N)
    at_edge = tl.load(x_ptr + base + edge, mask=mask, other=0.0).to(tl.float32)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    steps = tl.cdiv(end, BLOCK)
    for step in tl.range(0, steps):
        n = step * BLOCK + tl.arange(0, BLOCK)
        inside = (n >= first) & (n < end)
        x = tl.load(x_ptr + base + n, mask=inside, other=0.0, eviction_policy="evict_last")
        acc = _collected(acc, x.to(tl.float32), KIND)
    norm = _merged(acc, KIND)
    edges = _merged(_collected(tl.zeros_like(at_edge), at_edge, KIND), KIND)
    norm = _more(norm, edges) if KIND == "max" else norm + edges
    scale = _scale(norm, N, eps, KIND)
    out = out_ptr + base
    tl.store(out + edge, (at_edge * scale).to(out_ptr.dtype.element_ty), mask=mask)
    for step in tl.range(0, steps):
        n = (steps - 1 - step) * BLOCK + tl.arange(0, BLOCK)
        inside = (n >= first) & (n < end)
        x = tl.load(x_ptr + base + n, mask=inside, other=0.0, eviction_policy="evict_first")
        y = x.to(tl.float32) * scale
        tl.store(out + n, y.to(out_ptr.dtype.element_ty), mask=inside)


def kernel_function(
    x: torch.Tensor,
    dim: int | None = -1,
    kind: str = "l2",
    eps: float = EPS,
    out_dtype: torch.dtype | None = None,
    block: int = 32768,
    num_warps: int = 32,
) -> torch.Tensor:
    """Return `x` divided by its norm `kind` ("l1", "l2", "max", "mean") over the last dimension,
    contiguous, in `out_dtype` (`x`'s if None). The norm is at least `eps`.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is one of {', '.join(KINDS)}, not '{kind}'")
    if dim not in (-1, x.dim() - 1):
        raise ValueError("rows lie along the last dimension: see lp-normalize-dim for others")
    x = x.contiguous()
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    if not out.numel():
        return out
    if x.data_ptr() % 16:
        x = x.clone()
    length = x.shape[-1]
    block = min(block, max(128, triton.next_power_of_2(length) // 2))
    _row_kernel[(x.numel() // length,)](
        x, out, length, eps,
        KIND=kind, UNIT=16 // max(x.element_size(), out.element_size()), BLOCK=block,
        num_warps=min(num_warps, max(4, block // 512)),
    )  # fmt: skip
    return out


def reference(x: torch.Tensor, dim: int = -1, kind: str = "l2", eps: float = EPS) -> torch.Tensor:
    if kind == "mean":
        norm = x.abs().mean(dim, keepdim=True)
    else:
        order = {"l1": 1, "l2": 2, "max": math.inf}[kind]
        norm = torch.linalg.vector_norm(x, order, dim, keepdim=True)
    return x / norm.clamp_min(eps)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is that of `x`, rows along the last dimension."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator)]
