"""
---
slug: matadd-plain
title: Matrix addition, one program per tile in row-major order
op: elementwise-add
language: triton
techniques: []
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[64, 128], [33, 45], [1, 70]]
  bench: [16384, 16384]
check_params: {block_m: 16, block_n: 32}
sources:
  - title: "Triton tutorial: vector addition"
    url: https://triton-lang.org/main/getting-started/tutorials/01-vector-add.html
    licence: MIT
  - title: "CUDA C++ Best Practices Guide"
    url: https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x16384
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.3668
  measured_ms: 0.3679
  speedup: 0.997
  floor_fraction: 1.028
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x16384
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.3678
  measured_ms: 0.3679
  speedup: 0.9997
  floor_fraction: 1.028
---

A + B for two matrices, tile by tile. Each value is read once, used once and written once, so the
best possible time is the bytes moved over the DRAM bandwidth: 3 * M * N elements. Columns run
along the threads of a warp, which makes row-major operands coalesced; strides are passed, so
transposed or sliced operands give the right result, slowly.

This is the version the other additions improve on. It is already near the bandwidth limit for
large row-major matrices. What it leaves on the table: each thread computes its addresses and
masks, and every tile costs the launch of a program that loads once, waits and stores once.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [1, 4, 16, 32],
    "block_n": [128, 256, 512, 1024],
    "num_warps": [4, 8],
}


@triton.jit
def _add_kernel(
    a_ptr, b_ptr, out_ptr,
    M, N,
    stride_am, stride_an, stride_bm, stride_bn, stride_om, stride_on,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = (tile // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tile % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    # Index times stride is taken in int64: it passes 2**31 on matrices of a few GB.
    rows64 = rows[:, None].to(tl.int64)
    cols64 = cols[None, :].to(tl.int64)
    a = tl.load(a_ptr + rows64 * stride_am + cols64 * stride_an, mask=mask)
    b = tl.load(b_ptr + rows64 * stride_bm + cols64 * stride_bn, mask=mask)
    out = a.to(tl.float32) + b.to(tl.float32)
    out_ptrs = out_ptr + rows64 * stride_om + cols64 * stride_on
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=mask)


def kernel_function(
    a: torch.Tensor,
    b: torch.Tensor,
    block_m: int = 16,
    block_n: int = 256,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return `a + b` for matrices [M, N] of one dtype and any strides, as a contiguous one."""
    if a.ndim != 2 or a.shape != b.shape or a.dtype != b.dtype:
        raise ValueError(f"cannot add {a.dtype} {list(a.shape)} and {b.dtype} {list(b.shape)}")
    m, n = a.shape
    out = torch.empty((m, n), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)
    _add_kernel[grid](
        a, b, out,
        m, n,
        *a.stride(), *b.stride(), *out.stride(),
        BLOCK_M=block_m, BLOCK_N=block_n,
        num_warps=num_warps,
    )  # fmt: skip
    return out


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator) for _ in range(2)]
