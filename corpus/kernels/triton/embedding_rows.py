"""
---
slug: embedding-rows
title: Rows of a table gathered by index, each program a piece of several rows
op: embedding
language: triton
techniques: [vectorized-access, coalesced-access, thread-coarsening]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[50, 64, 33], [7, 100, 5], [3, 3, 40], [9, 1, 4]]
  bench: [128256, 4096, 32768]
check_params: {tile: 256}
sources:
  - title: "PyTorch: torch.nn.functional.embedding"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding.html
    licence: BSD-3-Clause
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
  shape: 128256x4096x32768
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1422
  measured_ms: 0.1342
  speedup: 1.06
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 128256x4096x32768
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1411
  measured_ms: 0.1342
  speedup: 1.051
---

out[i] = weight[index[i]] for whole rows. What is random is which row; within it accesses are as
wide as in a copy, so the time is that of copying, wherever the rows lie. A program takes `tile`
elements of several indices' rows: all its indices are loaded first, together, and then all pieces,
so that a program waits twice, not twice a row. Rows that occur often come from L2.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "tile": [1024, 2048, 4096, 8192],
    "block_d": [256, 512, 1024, 2048],
    "num_warps": [2, 4, 8],
}


@triton.jit
def _embedding_kernel(
    weight_ptr, index_ptr, out_ptr, count, D, vocabulary, scale,
    stride_wv, stride_wd,
    SCALES: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(D, BLOCK_D)
    i = (tl.program_id(0) // columns).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    d = (tl.program_id(0) % columns) * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    # Row times stride is taken in int64: it passes 2**31 in tables of a few GB.
    row = tl.load(index_ptr + i, mask=i < count, other=0).to(tl.int64)
    row = tl.where(row < 0, row + vocabulary, row)
    mask = (i < count) & (d < D)
    x = tl.load(weight_ptr + row * stride_wv + d.to(tl.int64) * stride_wd, mask=mask, other=0.0)
    if SCALES:
        x = x.to(tl.float32) * scale
    # What is written is not read again: it shall not push out rows of the table.
    tl.store(
        out_ptr + i * D + d, x.to(out_ptr.dtype.element_ty), mask=mask,
        eviction_policy="evict_first",
    )  # fmt: skip


def kernel_function(
    weight: torch.Tensor,
    index: torch.Tensor,
    scale: float = 1.0,
    out_dtype: torch.dtype | None = None,
    tile: int = 4096,
    block_d: int = 1024,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return the rows [..., D] of `weight` [V, D], any strides, that `index` [...] (integers)
    names, times `scale`, contiguous, in `out_dtype` (`weight`'s if None).

    Indices are in [-V, V), counted from the end where negative; others read what is not theirs.
    """
    if weight.dim() != 2 or index.is_floating_point():
        raise ValueError(
            f"weight is [V, D] and index integers, not {list(weight.shape)} and {index.dtype}"
        )
    vocabulary, width = weight.shape
    shape = (*index.shape, width)
    out = torch.empty(shape, dtype=out_dtype or weight.dtype, device=weight.device)
    count = index.numel()
    if not out.numel():
        return out
    block_d = min(block_d, tile, triton.next_power_of_2(width))
    high = max(1, min(tile // block_d, triton.next_power_of_2(count)))
    _embedding_kernel[(triton.cdiv(count, high) * triton.cdiv(width, block_d),)](
        weight, index.contiguous(), out, count, width, vocabulary, scale, *weight.stride(),
        SCALES=scale != 1.0, ROWS=high, BLOCK_D=block_d, num_warps=num_warps,
    )  # fmt: skip
    return out


def reference(weight: torch.Tensor, index: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    rows = torch.nn.functional.embedding(index, weight)
    return rows if scale == 1.0 else rows * scale


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [rows of the table, row length, indices]."""
    vocabulary, width, count = size
    generator = torch.Generator(device=device).manual_seed(seed)
    weight = torch.randn((vocabulary, width), dtype=dtype, device=device, generator=generator)
    index = torch.randint(0, vocabulary, (count,), device=device, generator=generator)
    return [weight, index]
