"""
---
slug: matmul-swizzled
title: Matrix product with program ids swizzled into groups for L2 reuse
op: matmul
language: triton
techniques: [pid-swizzling, tensor-cores]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: matmul-plain
sizes:
  check: [[96, 64, 64], [33, 45, 70], [1, 77, 40]]
  bench: [16384, 16384, 2048]
check_params: {block_m: 32, block_n: 32, block_k: 32, group_m: 2}
sources:
  - title: "Triton tutorial: matrix multiplication"
    url: https://triton-lang.org/main/getting-started/tutorials/03-matrix-multiplication.html
    licence: MIT
  - title: "Triton: triton.language.swizzle2d"
    url: https://triton-lang.org/main/python-api/generated/triton.language.swizzle2d.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x16384x2048
  dtype: bfloat16
  baseline: matmul-plain
  baseline_ms: 1.693
  measured_ms: 1.529
  speedup: 1.107
  floor_fraction: 0.8925
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x16384x2048
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.44
  measured_ms: 1.529
  speedup: 0.9418
  floor_fraction: 0.8925
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x16384x2048
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.443
  measured_ms: 1.529
  speedup: 0.9438
  floor_fraction: 0.8925
---

C = A @ B with the tiles numbered in bands GROUP_M tile rows high: consecutive programs go down one
tile column of the band, then on to the next column. The programs that run at the same time then
cover a nearly square patch of C. A patch of R x S tiles needs R strips of A and S strips of B; for
the same number of tiles a square has the smallest R + S, so more of what is read is still in L2.
Row-major numbering makes the patch a flat strip, and B comes from DRAM again for every tile row.

Nothing else differs from the plain version, and the swizzle costs a few integer instructions once
a program. It cannot pay where A and B fit in L2 together, or where C has only a few tile rows.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [64, 128, 256],
    "block_n": [64, 128, 256],
    "block_k": [32, 64],
    "group_m": [1, 4, 8, 16],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def _matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    # Row-major coordinates in, column-major within bands of GROUP_M tile rows out. A last band that
    # is less than GROUP_M high is handled as well.
    pid_m, pid_n = tl.swizzle2d(pid // tiles_n, pid % tiles_n, tiles_m, tiles_n, GROUP_M)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
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
    group_m: int = 8,
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
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=group_m,
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
