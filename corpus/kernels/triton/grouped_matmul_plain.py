"""
---
slug: grouped-matmul-plain
title: Products of groups of rows with matrices of their own, one launch for each group
op: grouped-matmul
language: triton
techniques: [tensor-cores]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[70, 40, 48, 4], [5, 33, 20, 3], [64, 64, 64, 1]]
  bench: [8192, 4096, 2048, 64]
check_params: {block_m: 32, block_n: 32, block_k: 32}
sources:
  - title: "Triton tutorial: matrix multiplication"
    url: https://triton-lang.org/main/getting-started/tutorials/03-matrix-multiplication.html
    licence: MIT
  - title: "Triton tutorial: group GEMM"
    url: https://triton-lang.org/main/getting-started/tutorials/08-grouped-gemm.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 8192x4096x2048x64
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.444
  measured_ms: 2.142
  speedup: 0.6741
  floor_fraction: 0.1291
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 8192x4096x2048x64
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.263
  measured_ms: 2.142
  speedup: 0.5896
  floor_fraction: 0.1291
---

y[rows of group g] = x[rows of group g] @ w[g], where group g has the rows offsets[g] to offsets[g
+ 1] - 1, as the experts of a mixture have their tokens. The host reads the offsets, which waits
for the GPU, and launches an ordinary tiled product for each group that has rows. Groups of some
dozen rows fill a small part of the GPU each, one after the other.
"""

import itertools

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [16, 32, 64, 128],
    "block_n": [64, 128, 256],
    "block_k": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def _matmul_kernel(
    x_ptr, w_ptr, y_ptr,
    begin, end, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = begin + tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    row_ok = rows[:, None] < end
    col_ok = cols[None, :] < N
    # Index times stride is taken in int64: it passes 2**31 on matrices of a few GB.
    rows64 = rows[:, None].to(tl.int64)
    cols64 = cols[None, :].to(tl.int64)
    x_ptrs = x_ptr + rows64 * stride_xm + depth[None, :].to(tl.int64) * stride_xk
    w_ptrs = w_ptr + depth[:, None].to(tl.int64) * stride_wk + cols64 * stride_wn
    x_step = tl.full((), BLOCK_K, tl.int64) * stride_xk
    w_step = tl.full((), BLOCK_K, tl.int64) * stride_wk
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K):
        in_k = depth < K - k
        x = tl.load(x_ptrs, mask=row_ok & in_k[None, :], other=0.0)
        w = tl.load(w_ptrs, mask=in_k[:, None] & col_ok, other=0.0)
        acc = tl.dot(x, w, acc, input_precision="tf32x3")
        x_ptrs += x_step
        w_ptrs += w_step
    y_ptrs = y_ptr + rows64 * stride_ym + cols64 * stride_yn
    tl.store(y_ptrs, acc.to(y_ptr.dtype.element_ty), mask=row_ok & col_ok)


def kernel_function(
    x: torch.Tensor,
    w: torch.Tensor,
    offsets: torch.Tensor,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 64,
    num_warps: int = 8,
    num_stages: int = 3,
) -> torch.Tensor:
    """`x` [T, K], rows sorted by group; `w` [G, K, N]; `offsets` int32 [G + 1], 0 to T -> [T, N].

    `block_k` is cut to 128 bytes a row, so that float32 tiles fit in shared memory as well.
    """
    groups, k, n = w.shape
    if x.ndim != 2 or x.shape[1] != k or offsets.shape != (groups + 1,) or x.dtype != w.dtype:
        raise ValueError(f"x {list(x.shape)}, w {list(w.shape)}, {list(offsets.shape)} do not fit")
    y = torch.empty((x.shape[0], n), dtype=x.dtype, device=x.device)
    block_k = min(block_k, 128 // x.element_size())
    if x.dtype == torch.bfloat16 and not x.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        x, w = x.float(), w.float()
    bounds = offsets.tolist()
    for group in range(groups):
        begin, end = bounds[group], bounds[group + 1]
        if begin < end:
            grid = (triton.cdiv(end - begin, block_m), triton.cdiv(n, block_n))
            _matmul_kernel[grid](
                x, w[group], y,
                begin, end, n, k,
                *x.stride(), *w[group].stride(), *y.stride(),
                BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
                num_warps=num_warps, num_stages=num_stages,
            )  # fmt: skip
    return y


def reference(x: torch.Tensor, w: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    bounds = offsets.tolist()
    pairs = itertools.pairwise(bounds)
    return torch.cat([x[begin:end] @ w[group] for group, (begin, end) in enumerate(pairs)])


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [rows, K, N, groups]; the groups' sizes are uneven, some may be empty."""
    rows, k, n, groups = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn((rows, k), dtype=dtype, device=device, generator=generator)
    w = torch.randn((groups, k, n), dtype=dtype, device=device, generator=generator)
    cuts = torch.rand(groups - 1, device=device, generator=generator).sort().values
    offsets = torch.zeros(groups + 1, dtype=torch.int32, device=device)
    offsets[1:-1] = (cuts * rows).to(torch.int32)
    offsets[-1] = rows
    return [x, w, offsets]
