"""
---
slug: softmax-dim-tiled
title: Softmax over any dimension with the tile held in registers
op: softmax
language: triton
techniques: [register-caching, coalesced-access, kernel-fusion]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: softmax-dim-online
sizes:
  check: [[2, 64, 32], [3, 10, 21], [7, 100], [5, 33, 1], [1, 2, 7]]
  bench: [64, 512, 16384]
check_params: {tile: 2048, num_warps: 4}
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
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 64x512x16384
  dtype: bfloat16
  baseline: softmax-dim-online
  baseline_ms: 0.7661
  measured_ms: 0.6925
  speedup: 1.106
  floor_fraction: 0.726
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 64x512x16384
  dtype: bfloat16
  baseline: eager
  baseline_ms: 7.53
  measured_ms: 0.6925
  speedup: 10.87
  floor_fraction: 0.726
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 64x512x16384
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.162
  measured_ms: 0.6925
  speedup: 1.678
  floor_fraction: 0.726
---

Softmax over one dimension, wherever it lies, with one reading and one writing
of the tensor. The tensor is seen as [batch, N, positions]; a program holds all N times a block of
contiguous positions (over the last dimension: of rows) in registers, so maximum and sum cost no
further loads and nothing is transposed.

`tile` is the number of elements a program holds: large ones read long segments, small ones leave
room for several programs on a multiprocessor, so that some load while others reduce. A dimension
longer than the registers of a program hold is refused; the online form takes it.

`before` and `after` are elementwise functions fused in: a scale, a bias or a mask before a softmax
costs no pass of its own.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {"tile": [2048, 4096, 8192, 16384, 32768], "num_warps": [4, 8, 16, 32]}

# Elements of a thread: more would leave too few threads to keep loads under way.
MAX_PER_THREAD = 32
# Those of 1024 threads.
MAX_TILE = 32768
# Along positions: in 16-bit dtypes the 32 bytes of a sector, the least that memory delivers.
MIN_POSITIONS = 16

# For exp(x) as a power of 2: tl.exp spends further instructions on results below 2**-126.
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _unchanged(x, lead, lane, mask, operands):
    """Elementwise functions get float32 values, and where they lie in the contiguous tensor: at
    `lead + lane`, `lane` along neighbours. `operands` is what the caller gave with them."""
    return x


@triton.jit
def _softmax_kernel(
    x_ptr, out_ptr, before_operands, after_operands,
    N, P,
    stride_xb, stride_xn, stride_xp, stride_ob, stride_on, stride_op,
    BEFORE: tl.constexpr, AFTER: tl.constexpr,
    ROWS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(P, BLOCK_P)
    # Index times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    batch = (tl.program_id(0) // tiles).to(tl.int64)
    p = ((tl.program_id(0) % tiles) * BLOCK_P + tl.arange(0, BLOCK_P)).to(tl.int64)[None, :]
    n = tl.arange(0, BLOCK_N).to(tl.int64)[:, None]
    mask = (n < N) & (p < P)
    if ROWS:
        lead, lane = p * stride_op, n * stride_on
    else:
        lead, lane = batch * stride_ob + n * stride_on, p * stride_op
    x = tl.load(x_ptr + batch * stride_xb + n * stride_xn + p * stride_xp, mask=mask, other=0.0)
    x = BEFORE(x.to(tl.float32), lead, lane, mask, before_operands)
    # Positions past the end are zeros all along: no empty one, hence no -inf minus -inf.
    x = tl.where(n < N, x, float("-inf"))
    powers = tl.exp2((x - tl.max(x, axis=0, keep_dims=True)) * LOG2_E)
    y = powers / tl.sum(powers, axis=0, keep_dims=True)
    y = AFTER(y, lead, lane, mask, after_operands)
    tl.store(out_ptr + lead + lane, y.to(out_ptr.dtype.element_ty), mask=mask)


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


def _blocks(length: int, positions: int, rows: bool, tile: int) -> tuple[int, int]:
    """The block along the dimension, and that along positions (or rows)."""
    block_n = triton.next_power_of_2(length)
    least = min(1 if rows else MIN_POSITIONS, triton.next_power_of_2(positions))
    if block_n * least > MAX_TILE:
        raise ValueError(
            f"a dimension of {length} does not fit in registers (at most {MAX_TILE // least} "
            "here): use softmax-dim-online"
        )
    block_p = max(least, min(tile // block_n, triton.next_power_of_2(positions)))
    return block_n, block_p


def kernel_function(
    x: torch.Tensor,
    dim: int = -1,
    before=_unchanged,
    before_operands: tuple = (),
    after=_unchanged,
    after_operands: tuple = (),
    out_dtype: torch.dtype | None = None,
    tile: int = 8192,
    num_warps: int = 8,
) -> torch.Tensor:
    """Return the softmax of `x` over its dimension `dim`, contiguous.

    Its dtype is `out_dtype` (`x`'s if None).
    `before` and `after` are Triton functions `(values, lead, lane, mask, operands)` applied to
    each element on the way in and out. `num_warps` is raised where a tile needs more registers.
    """
    view, dim = _split(x, dim)
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    if not out.numel():
        return out
    batch, length, positions = view.shape
    rows = dim == x.dim() - 1
    block_n, block_p = _blocks(length, positions, rows, tile)
    _softmax_kernel[(batch * triton.cdiv(positions, block_p),)](
        view, out, before_operands, after_operands,
        length, positions,
        *view.stride(), *_split(out, dim)[0].stride(),
        BEFORE=before, AFTER=after, ROWS=rows, BLOCK_N=block_n, BLOCK_P=block_p,
        num_warps=max(num_warps, min(32, block_n * block_p // (32 * MAX_PER_THREAD))),
    )  # fmt: skip
    return out


def reference(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    return torch.softmax(x, dim)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [batch, length of the dimension, positions after it], or without the last."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator), 1]
