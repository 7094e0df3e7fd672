"""
---
slug: matadd-swizzled
title: Matrix addition with program ids swizzled into groups of tile rows
op: elementwise-add
language: triton
techniques: [pid-swizzling]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: matadd-plain
sizes:
  check: [[64, 128], [33, 45], [1, 70]]
  bench: [16384, 16384]
check_params: {block_m: 16, block_n: 32, group_m: 2}
sources:
  - title: "Triton: triton.language.swizzle2d"
    url: https://triton-lang.org/main/python-api/generated/triton.language.swizzle2d.html
    licence: MIT
  - title: "Triton tutorial: matrix multiplication"
    url: https://triton-lang.org/main/getting-started/tutorials/03-matrix-multiplication.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x16384
  dtype: bfloat16
  baseline: matadd-plain
  baseline_ms: 0.3686
  measured_ms: 0.3687
  speedup: 0.9997
  floor_fraction: 1.026
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x16384
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.3672
  measured_ms: 0.3687
  speedup: 0.9959
  floor_fraction: 1.026
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x16384
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.3684
  measured_ms: 0.3687
  speedup: 0.9992
  floor_fraction: 1.026
---

A + B with the tiles visited in bands GROUP_M tile rows high instead of row by row: the smallest
program that shows the index arithmetic of `tl.swizzle2d`.

An addition uses every value once, so there is nothing in L2 to hit and the order cannot save DRAM
traffic; that takes operands shared between tiles, as in a matrix product. What the order does
change is which addresses are in flight together. Down a band the programs touch rows that are far
apart, which helps only where an operand is column-major (its neighbours then lie down the rows)
and can hurt DRAM page locality where it is row-major. Measure before keeping it here.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [1, 4, 16, 32],
    "block_n": [128, 256, 512, 1024],
    "group_m": [1, 4, 8, 16],
    "num_warps": [4, 8],
}


@triton.jit
def _add_kernel(
    a_ptr, b_ptr, out_ptr,
    M, N,
    stride_am, stride_an, stride_bm, stride_bn, stride_om, stride_on,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    tile_m, tile_n = tl.swizzle2d(pid // tiles_n, pid % tiles_n, tiles_m, tiles_n, GROUP_M)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
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
    group_m: int = 8,
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
        BLOCK_M=block_m, BLOCK_N=block_n, GROUP_M=group_m,
        num_warps=num_warps,
    )  # fmt: skip
    return out


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator) for _ in range(2)]
