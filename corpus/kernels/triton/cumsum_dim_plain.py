"""
---
slug: cumsum-dim-plain
title: Running sums along any dimension, one program a block of positions
op: cumsum
language: triton
techniques: []
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 64, 32], [3, 10, 21], [7, 100], [5, 33, 1], [1, 520]]
  bench: [4096, 32768]
check_params: {tile: 512, block_p: 32}
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
  baseline: eager
  baseline_ms: 0.6918
  measured_ms: 0.1473
  speedup: 4.697
  floor_fraction: 0.8571
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 4096x32768
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.251
  measured_ms: 0.1473
  speedup: 1.704
  floor_fraction: 0.8571
---

Running sums (or products) along one dimension, wherever it lies. The tensor is seen as [batch, N,
positions]; one program takes a block of positions (over the last dimension: of rows), scans a tile
in registers and across threads, and carries the last value into the next tile. A program a block
of positions is all the parallelism there is.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {
    "tile": [1024, 2048, 4096, 8192],
    "block_p": [16, 32, 64, 128],
    "num_warps": [2, 4, 8],
}

KINDS = ("sum", "prod")


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def _scanned(x, KIND: tl.constexpr):
    return tl.cumsum(x, axis=0) if KIND == "sum" else tl.associative_scan(x, 0, _times)


@triton.jit
def _whole(x, KIND: tl.constexpr):
    sums = KIND == "sum"
    return tl.sum(x, axis=0, keep_dims=True) if sums else tl.reduce(x, 0, _times, keep_dims=True)


@triton.jit
def _scan_kernel(
    x_ptr, out_ptr, totals_ptr,
    N, P, results, splits, slab, neutral,
    stride_xb, stride_xn, stride_xp, stride_ob, stride_on, stride_op,
    KIND: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
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
    for start in tl.range(first, end, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N).to(tl.int64)[:, None]
        mask = (n < end) & (p < P)
        if ROWS:
            lead, lane = p * stride_op, n * stride_on
        else:
            lead, lane = batch * stride_ob + n * stride_on, p * stride_op
        x = tl.load(x_base + n * stride_xn, mask=mask, other=0.0).to(tl.float32)
        x = tl.where(mask, x, neutral)
        y = _scanned(x, KIND)
        if KIND == "sum":
            y = y + carry
            carry += _whole(x, KIND)
        else:
            y = y * carry
            carry *= _whole(x, KIND)
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
    tile: int = 4096,
    block_p: int = 64,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return the running `kind` ("sum", "prod") of `x` along `dim`, inclusive, contiguous, in
    `x`'s dtype; it is carried in float32.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is one of {', '.join(KINDS)}, not '{kind}'")
    view, dim = _split(x, dim)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    batch, length, positions = view.shape
    rows = dim == x.dim() - 1
    block_n, block_p = _shape(length, positions, rows, tile, block_p)
    _scan_kernel[(batch * triton.cdiv(positions, block_p),)](
        view, out, None,
        length, positions, batch * positions, 1, length, 0.0 if kind == "sum" else 1.0,
        *view.stride(), *_split(out, dim)[0].stride(),
        KIND=kind, ROWS=rows, BLOCK_N=block_n, BLOCK_P=block_p, num_warps=num_warps,
    )  # fmt: skip
    return out


def reference(x: torch.Tensor, dim: int = -1, kind: str = "sum") -> torch.Tensor:
    return torch.cumsum(x, dim) if kind == "sum" else torch.cumprod(x, dim)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [batch, length of the dimension, positions after it], or without the last."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator), 1, "sum"]
