"""
---
slug: matmul-pipelined
title: Matrix product with an explicitly pipelined K loop and a separate tail
op: matmul
language: triton
techniques: [software-pipelining, tensor-cores]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: matmul-plain
sizes:
  check: [[96, 64, 64], [33, 45, 70], [1, 77, 40]]
  bench: [4096, 4096, 4096]
check_params: {block_m: 32, block_n: 32, block_k: 32, num_stages: 2}
sources:
  - title: "Triton: triton.language.range"
    url: https://triton-lang.org/main/python-api/generated/triton.language.range.html
    licence: MIT
  - title: "Triton tutorial: matrix multiplication"
    url: https://triton-lang.org/main/getting-started/tutorials/03-matrix-multiplication.html
    licence: MIT
  - title: "PTX ISA: cp.async"
    url: https://docs.nvidia.com/cuda/parallel-thread-execution/
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 4096x4096x4096
  dtype: bfloat16
  baseline: matmul-plain
  baseline_ms: 0.224
  measured_ms: 0.211
  speedup: 1.062
  floor_fraction: 0.8085
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 4096x4096x4096
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1779
  measured_ms: 0.211
  speedup: 0.8431
  floor_fraction: 0.8085
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 4096x4096x4096
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1777
  measured_ms: 0.211
  speedup: 0.8422
  floor_fraction: 0.8085
---

C = A @ B whose K loop asks for its pipeline itself: `tl.range(..., num_stages=S)` keeps S - 1
tiles of A and B in flight (cp.async into a ring of shared-memory buffers) while the tensor cores
work on the oldest one. Memory latency hides behind arithmetic; the price is S times (BLOCK_M +
BLOCK_N) * BLOCK_K elements of shared memory, which can cost a resident program.

Two things keep the steady state free of other work: the loop covers whole K tiles only, so its
loads need no K mask, and the ragged rest is one masked step after it. `num_stages=1` switches the
overlap off: load, wait, multiply, one after the other. That is the version to compare with.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [64, 128, 256],
    "block_n": [64, 128, 256],
    "block_k": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3, 4, 5],
}


@triton.jit
def _matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NUM_STAGES: tl.constexpr,
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
    whole_k = K // BLOCK_K * BLOCK_K
    for _ in tl.range(0, whole_k, BLOCK_K, num_stages=NUM_STAGES):
        # The masks do not change from step to step: nothing to compute here but two additions.
        a = tl.load(a_ptrs, mask=row_ok, other=0.0)
        b = tl.load(b_ptrs, mask=col_ok, other=0.0)
        # float32 operands: three TF32 products keep float32 accuracy on tensor cores. 16-bit
        # operands ignore the setting.
        acc = tl.dot(a, b, acc, input_precision="tf32x3")
        a_ptrs += a_step
        b_ptrs += b_step
    if whole_k < K:
        in_k = depth < K - whole_k
        a = tl.load(a_ptrs, mask=row_ok & in_k[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=in_k[:, None] & col_ok, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="tf32x3")

    c_ptrs = c_ptr + rows64 * stride_cm + cols64 * stride_cn
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=row_ok & col_ok)


def kernel_function(
    a: torch.Tensor,
    b: torch.Tensor,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 64,
    num_warps: int = 8,
    num_stages: int = 4,
) -> torch.Tensor:
    """Return `a @ b`: `a` [M, K] and `b` [K, N] of one dtype, any strides -> [M, N] of that dtype.

    `block_k` is cut to 128 bytes a row, so that float32 tiles fit in shared memory as well. The
    default tile takes 32 KiB of shared memory a stage: use `num_stages=3` where a program can have
    no more than 99 KiB (sm_86, sm_89, sm_120).
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
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, NUM_STAGES=num_stages,
        num_warps=num_warps,
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
