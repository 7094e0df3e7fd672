"""
---
slug: matmul-plain
title: Tiled matrix product, one program per output tile in row-major order
op: matmul
language: triton
techniques: [tensor-cores, software-pipelining]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[96, 64, 64], [33, 45, 70], [1, 77, 40]]
  bench: [4096, 4096, 4096]
check_params: {block_m: 32, block_n: 32, block_k: 32}
sources:
  - title: "Triton tutorial: matrix multiplication"
    url: https://triton-lang.org/main/getting-started/tutorials/03-matrix-multiplication.html
    licence: MIT
  - title: "Triton: triton.language.dot"
    url: https://triton-lang.org/main/python-api/generated/triton.language.dot.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 4096x4096x4096
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1774
  measured_ms: 0.2241
  speedup: 0.7916
  floor_fraction: 0.7612
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 4096x4096x4096
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1774
  measured_ms: 0.2241
  speedup: 0.7916
  floor_fraction: 0.7612
---

C = A @ B. Every program owns one BLOCK_M x BLOCK_N tile of C, walks along K in steps of BLOCK_K
and accumulates in float32 with `tl.dot`, which becomes tcgen05 on sm_100, wgmma on sm_90 and mma
on sm_80.

This is the version the other matmul kernels improve on. Its weak spots: tiles are numbered row by
row, so the programs that run at the same time read the whole of B again and again (L2 traffic);
each thread computes the addresses and masks of its loads; a program is launched, filled and
drained once per tile; and a small C leaves multiprocessors idle.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [64, 128, 256],
    "block_n": [64, 128, 256],
    "block_k": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def _matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = (tile // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tile % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    row_ok = rows[:, None] < M
    col_ok = cols[None, :] < N

    # Index times stride is taken in int64: it passes 2**31 on matrices of a few GB.
    rows64 = rows[:, None].to(tl.int64)
    cols64 = cols[None, :].to(tl.int64)
    depth64 = depth.to(tl.int64)
    a_ptrs = a_ptr + rows64 * stride_am + depth64[None, :] * stride_ak
    b_ptrs = b_ptr + depth64[:, None] * stride_bk + cols64 * stride_bn
    a_step = tl.full((), BLOCK_K, tl.int64) * stride_ak
    b_step = tl.full((), BLOCK_K, tl.int64) * stride_bk

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K):
        in_k = depth < K - k
        a = tl.load(a_ptrs, mask=row_ok & in_k[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=in_k[:, None] & col_ok, other=0.0)
        # float32 operands: three TF32 products keep float32 accuracy on tensor cores. 16-bit
        # operands ignore the setting.
        acc = tl.dot(a, b, acc, input_precision="tf32x3")
        a_ptrs += a_step
        b_ptrs += b_step

    c_ptrs = c_ptr + rows64 * stride_cm + cols64 * stride_cn
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=row_ok & col_ok)


def kernel_function(
    a: torch.Tensor,
    b: torch.Tensor,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 64,
    num_warps: int = 8,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return `a @ b`: `a` [M, K] and `b` [K, N] of one dtype, any strides -> [M, N] of that dtype.

    `block_k` is cut to 128 bytes a row, so that float32 tiles fit in shared memory as well.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(f"cannot multiply {a.dtype} {list(a.shape)} by {b.dtype} {list(b.shape)}")
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    block_k = min(block_k, 128 // a.element_size())
    if a.dtype == torch.bfloat16 and not a.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        a, b = a.float(), b.float()
    grid = (triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)
    _matmul_kernel[grid](
        a, b, c,
        m, n, k,
        *a.stride(), *b.stride(), *c.stride(),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N, K]."""
    m, n, k = size
    generator = torch.Generator(device=device).manual_seed(seed)
    return [
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((m, k), (k, n))
    ]
