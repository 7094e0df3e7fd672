"""
---
slug: lp-normalize-dim
title: L1, L2 or maximum normalisation over any dimension with the tile held in registers
op: normalize
language: triton
techniques: [register-caching, coalesced-access, kernel-fusion]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 64, 32], [3, 10, 21], [7, 100], [5, 33, 1], [3, 520], [1, 2, 7]]
  bench: [16384, 8192]
check_params: {tile: 256, num_warps: 4}
sources:
  - title: "PyTorch: torch.nn.functional.normalize"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.normalize.html
    licence: BSD-3-Clause
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
  shape: 16384x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.4964
  measured_ms: 0.1802
  speedup: 2.755
  floor_fraction: 0.9853
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 16384x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1774
  measured_ms: 0.1802
  speedup: 0.9845
  floor_fraction: 0.9853
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16384x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.4755
  measured_ms: 0.1326
  speedup: 3.586
  floor_fraction: 0.9556
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16384x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1274
  measured_ms: 0.1326
  speedup: 0.9608
  floor_fraction: 0.9556
---

x / max(norm, eps) over one dimension, wherever it lies; a tensor flattened to one row gives the
Frobenius norm's. The norm is the sum of magnitudes, the root of the sum of squares, the largest
magnitude, or the mean of magnitudes. The tensor is seen as [batch, N, positions]; a program holds
all N times a block of contiguous positions (over the last dimension: of rows) in registers: one
reading and one writing.

A dimension longer than the registers of a program hold takes two launches: programs reduce a slab
of it each, and leave one number; then each merges the numbers of all slabs, in a fixed order, and
divides its slab. For long rows along the last dimension, lp-normalize-rows is faster.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {
    "tile": [2048, 4096, 8192, 16384],
    "programs": [528, 1056, 2112],
    "num_warps": [4, 8, 16],
}

KINDS = ("l1", "l2", "max", "mean")
# PyTorch's default: no norm counts as less.
EPS = 1e-12
# Elements that one thread can keep in float32 without spilling, in blocks of up to 512 threads.
MAX_PER_THREAD = 64
# Those of 512 threads.
MAX_TILE = 32768
# Along positions: in 16-bit dtypes the 32 bytes of a sector, the least that memory delivers.
MIN_POSITIONS = 16


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
def _whole_kernel(
    x_ptr, out_ptr, N, P, eps,
    stride_xb, stride_xn, stride_xp, stride_ob, stride_on, stride_op,
    KIND: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(P, BLOCK_P)
    # Index times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    batch = (tl.program_id(0) // tiles).to(tl.int64)
    p = ((tl.program_id(0) % tiles) * BLOCK_P + tl.arange(0, BLOCK_P)).to(tl.int64)[None, :]
    n = tl.arange(0, BLOCK_N).to(tl.int64)[:, None]
    mask = (n < N) & (p < P)
    x = tl.load(x_ptr + batch * stride_xb + n * stride_xn + p * stride_xp, mask=mask, other=0.0)
    x = x.to(tl.float32)
    norm = _merged(_collected(tl.zeros_like(x), x, KIND), KIND)
    y = x * _scale(norm, N, eps, KIND)
    out = out_ptr + batch * stride_ob + n * stride_on + p * stride_op
    tl.store(out, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _slab_kernel(
    x_ptr, out_ptr, parts_ptr, N, P, results, splits, slab, eps,
    stride_xb, stride_xn, stride_xp, stride_ob, stride_on, stride_op,
    KIND: tl.constexpr, FINISH: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """parts [splits, results]: what each slab has; or (`FINISH`) the slab divided by the norm."""
    tiles = tl.cdiv(P, BLOCK_P)
    split = tl.program_id(0) % splits
    tile = tl.program_id(0) // splits
    batch = (tile // tiles).to(tl.int64)
    p = ((tile % tiles) * BLOCK_P + tl.arange(0, BLOCK_P)).to(tl.int64)[None, :]
    first = split.to(tl.int64) * slab
    end = tl.minimum(first + slab, N)
    x_base = x_ptr + batch * stride_xb + p * stride_xp
    if FINISH:
        s = tl.arange(0, BLOCK_S).to(tl.int64)[:, None]
        place = parts_ptr + s * results + batch * P + p
        partial = tl.load(place, mask=(s < splits) & (p < P), other=0.0)
        scale = _scale(_merged(partial, KIND), N, eps, KIND)
        out_base = out_ptr + batch * stride_ob + p * stride_op
        for start in tl.range(first, end, BLOCK_N):
            n = start + tl.arange(0, BLOCK_N).to(tl.int64)[:, None]
            mask = (n < end) & (p < P)
            y = tl.load(x_base + n * stride_xn, mask=mask, other=0.0).to(tl.float32) * scale
            tl.store(out_base + n * stride_on, y.to(out_ptr.dtype.element_ty), mask=mask)
    else:
        acc = tl.zeros((BLOCK_N, BLOCK_P), dtype=tl.float32)
        for start in tl.range(first, end, BLOCK_N):
            n = start + tl.arange(0, BLOCK_N).to(tl.int64)[:, None]
            mask = (n < end) & (p < P)
            x = tl.load(x_base + n * stride_xn, mask=mask, other=0.0).to(tl.float32)
            acc = _collected(acc, x, KIND)
        place = parts_ptr + split.to(tl.int64) * results + batch * P + p
        tl.store(place, _merged(acc, KIND), mask=p < P)


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
    dim: int | None = 1,
    kind: str = "l2",
    eps: float = EPS,
    out_dtype: torch.dtype | None = None,
    tile: int = 8192,
    programs: int = 1056,
    num_warps: int = 8,
) -> torch.Tensor:
    """Return `x` divided by its norm `kind` ("l1", "l2", "max", "mean") over `dim` (None: over all
    elements), contiguous, in `out_dtype` (`x`'s if None). The norm is at least `eps`.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is one of {', '.join(KINDS)}, not '{kind}'")
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    if not out.numel():
        return out
    if dim is None:
        view, dim, rank = x.contiguous().view(1, -1), 1, 2
    else:
        view, rank = (x, x.dim()) if x.dim() else (x.view(1), 1)
        dim = dim % rank
    target = out.view(view.shape)
    view, _ = _split(view, dim)
    target, _ = _split(target, dim)
    batch, length, positions = view.shape
    rows = dim == rank - 1
    least = min(1 if rows else MIN_POSITIONS, triton.next_power_of_2(positions))
    block_n = triton.next_power_of_2(length)
    if block_n * least <= MAX_TILE:
        block_p = max(least, min(tile // block_n, triton.next_power_of_2(positions)))
        _whole_kernel[(batch * triton.cdiv(positions, block_p),)](
            view, target, length, positions, eps, *view.stride(), *target.stride(),
            KIND=kind, BLOCK_N=block_n, BLOCK_P=block_p,
            num_warps=max(num_warps, min(32, block_n * block_p // (32 * MAX_PER_THREAD))),
        )  # fmt: skip
        return out
    block_p = 1 if rows else min(128, triton.next_power_of_2(positions))
    block_n = max(1, tile // 2 // block_p)
    blocks = batch * triton.cdiv(positions, block_p)
    splits = max(1, min(programs // blocks, length // (2 * block_n)))
    slab = triton.cdiv(triton.cdiv(length, splits), block_n) * block_n
    splits = triton.cdiv(length, slab)
    results = batch * positions
    parts = torch.empty((splits, results), dtype=torch.float32, device=x.device)
    for finish in (False, True):
        _slab_kernel[(blocks * splits,)](
            view, target, parts, length, positions, results, splits, slab, eps,
            *view.stride(), *target.stride(),
            KIND=kind, FINISH=finish, BLOCK_N=block_n, BLOCK_P=block_p,
            BLOCK_S=triton.next_power_of_2(splits), num_warps=num_warps,
        )  # fmt: skip
    return out


def reference(
    x: torch.Tensor, dim: int | None = 1, kind: str = "l2", eps: float = EPS
) -> torch.Tensor:
    dims = tuple(range(x.dim())) if dim is None else (dim,)
    if kind == "mean":
        norm = x.abs().mean(dims, keepdim=True)
    else:
        order = {"l1": 1, "l2": 2, "max": math.inf}[kind]
        norm = torch.linalg.vector_norm(x, order, dims, keepdim=True)
    return x / norm.clamp_min(eps)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [batch, length of the dimension, positions after it], or without the last."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator), 1, "l2"]
