"""
---
slug: matvec-plain
title: Matrix-vector product, one program per block of rows
op: matvec
language: triton
techniques: []
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[32, 128], [33, 70], [1, 45]]
  bench: [2048, 1048576]
check_params: {block_m: 16, block_k: 32}
sources:
  - title: "Triton: triton.language.sum"
    url: https://triton-lang.org/main/python-api/generated/triton.language.sum.html
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
  shape: 2048x1048576
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.003
  measured_ms: 1.715
  speedup: 0.5848
  floor_fraction: 0.5886
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 2048x1048576
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.049
  measured_ms: 1.715
  speedup: 0.6117
  floor_fraction: 0.5886
---

y = A @ x with BLOCK_M rows a program, each program walking the whole of K. Every element of A is
read once and used for one multiply-add, so DRAM bandwidth is the limit and the tensor cores have
nothing to do. This version does not reach it on a wide matrix with few rows: 2048 rows in blocks
of 16 are 128 programs, less than one for each multiprocessor of a large GPU, and each has only a
few KB in flight. It also reduces across threads at every step, which puts a barrier into the loop.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [4, 8, 16, 32],
    "block_k": [64, 128, 256, 512],
    "num_warps": [2, 4, 8],
}


@triton.jit
def _matvec_kernel(
    a_ptr, x_ptr, y_ptr,
    M, K,
    stride_am, stride_ak, stride_x,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    row_ok = rows < M
    # Index times stride is taken in int64: it passes 2**31 on matrices of a few GB.
    a_rows = a_ptr + rows[:, None].to(tl.int64) * stride_am
    acc = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for start in tl.range(0, K, BLOCK_K):
        depth = start + tl.arange(0, BLOCK_K)
        in_k = depth < K
        depth64 = depth.to(tl.int64)
        mask = row_ok[:, None] & in_k[None, :]
        a = tl.load(a_rows + depth64[None, :] * stride_ak, mask=mask, other=0.0)
        x = tl.load(x_ptr + depth64 * stride_x, mask=in_k, other=0.0)
        acc += tl.sum(a.to(tl.float32) * x.to(tl.float32)[None, :], axis=1)
    tl.store(y_ptr + rows, acc.to(y_ptr.dtype.element_ty), mask=row_ok)


def kernel_function(
    a: torch.Tensor,
    x: torch.Tensor,
    block_m: int = 16,
    block_k: int = 128,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return `a @ x`: `a` [M, K] and `x` [K] of one dtype, any strides -> [M] of that dtype."""
    if a.ndim != 2 or x.shape != a.shape[1:] or a.dtype != x.dtype:
        raise ValueError(f"cannot multiply {a.dtype} {list(a.shape)} by {x.dtype} {list(x.shape)}")
    m, k = a.shape
    y = torch.empty(m, dtype=a.dtype, device=a.device)
    _matvec_kernel[(triton.cdiv(m, block_m),)](
        a, x, y,
        m, k,
        *a.stride(), *x.stride(),
        BLOCK_M=block_m, BLOCK_K=block_k,
        num_warps=num_warps,
    )  # fmt: skip
    return y


def reference(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return a @ x


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, K]."""
    m, k = size
    generator = torch.Generator(device=device).manual_seed(seed)
    return [
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((m, k), (k,))
    ]
