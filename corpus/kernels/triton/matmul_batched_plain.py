"""
---
slug: matmul-batched-plain
title: Batched matrix product, one program for a tile, in plain order
op: batched-matmul
language: triton
techniques: [tensor-cores]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 64, 64, 64, 0], [3, 33, 45, 70, 3], [1, 1, 40, 17, 1]]
  bench: [64, 1024, 1024, 1024, 0]
check_params: {block_m: 32, block_n: 32, block_k: 32}
sources:
  - title: "Triton tutorial: matrix multiplication"
    url: https://triton-lang.org/main/getting-started/tutorials/03-matrix-multiplication.html
    licence: MIT
  - title: "PyTorch: torch.bmm"
    url: https://docs.pytorch.org/docs/stable/generated/torch.bmm.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x1024x1024x1024x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.2022
  measured_ms: 0.2787
  speedup: 0.7255
  floor_fraction: 0.6244
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x1024x1024x1024x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.2019
  measured_ms: 0.2787
  speedup: 0.7244
  floor_fraction: 0.6244
---

C[i] = A[i] @ B[i]: the matrix product with one more dimension of programs. Every thread computes
pointers into both operands at each step, and the tiles of a matrix are taken row by row, so that a
wave of programs reads one block of rows of A but all of B.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [64, 128],
    "block_n": [64, 128, 256],
    "block_k": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def _bmm_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_ab, stride_am, stride_ak, stride_bb, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * tiles_n
    batch = (tl.program_id(0) // tiles).to(tl.int64)
    tile = tl.program_id(0) % tiles
    # Index times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    rows = ((tile // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None]
    cols = ((tile % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)[None, :]
    depth = tl.arange(0, BLOCK_K)
    depth64 = depth.to(tl.int64)
    a_ptrs = a_ptr + batch * stride_ab + rows * stride_am + depth64[None, :] * stride_ak
    b_ptrs = b_ptr + batch * stride_bb + depth64[:, None] * stride_bk + cols * stride_bn
    a_step = tl.full((), BLOCK_K, tl.int64) * stride_ak
    b_step = tl.full((), BLOCK_K, tl.int64) * stride_bk
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K):
        in_k = depth < K - k
        a = tl.load(a_ptrs, mask=(rows < M) & in_k[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=in_k[:, None] & (cols < N), other=0.0)
        # float32 operands: three TF32 products keep float32 accuracy on tensor cores.
        acc = tl.dot(a, b, acc, input_precision="tf32x3")
        a_ptrs += a_step
        b_ptrs += b_step
    c_ptrs = c_ptr + (batch * M + rows) * N + cols
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(rows < M) & (cols < N))


def kernel_function(
    a: torch.Tensor,
    b: torch.Tensor,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 64,
    num_warps: int = 8,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return `a @ b`: `a` [B, M, K] and `b` [B, K, N] of one dtype, any strides -> [B, M, N].

    `block_k` is cut to 128 bytes a row, so that float32 tiles fit in shared memory as well.
    """
    if a.ndim != 3 or b.ndim != 3 or a.shape[2] != b.shape[1] or a.shape[0] != b.shape[0]:
        raise ValueError(f"cannot multiply {list(a.shape)} by {list(b.shape)}")
    (batches, m, k), n = a.shape, b.shape[2]
    c = torch.empty((batches, m, n), dtype=a.dtype, device=a.device)
    if c.numel() == 0:
        return c
    block_k = min(block_k, 128 // a.element_size())
    if a.dtype == torch.bfloat16 and not a.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        a, b = a.float(), b.float()
    _bmm_kernel[(batches * triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)](
        a, b, c, m, n, k, *a.stride(), *b.stride(),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.bmm(a, b)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [B, M, N, K, order]; order: 1 for a transposed `a`, 2 for `b`, 3 for both."""
    batches, m, n, k, order = size
    generator = torch.Generator(device=device).manual_seed(seed)
    shapes = ((batches, k, m) if order & 1 else (batches, m, k),
              (batches, n, k) if order & 2 else (batches, k, n))  # fmt: skip
    a, b = (torch.randn(shape, dtype=dtype, device=device, generator=generator) for shape in shapes)
    return [a.mT if order & 1 else a, b.mT if order & 2 else b]
