"""
---
slug: matmul-triangular
title: Matrix product with triangular factors or result, blocks of zeros neither read nor computed
op: matmul-triangular
language: triton
techniques: [structural-sparsity, load-balancing, tma-host-descriptor, tensor-cores]
architectures: [sm_90]
dtypes: [float32, float16, bfloat16]
derived_from: matmul-triangular-plain
sizes:
  check:
    - [64, 64, 64, -1, -1, -1]
    - [70, 70, 70, 1, 1, 1]
    - [33, 45, 40, -1, 0, 0]
    - [40, 33, 45, 1, -1, 1]
  bench: [4096, 4096, 4096, -1, -1, -1]
check_params: {block_m: 32, block_n: 16, block_k: 16}
sources:
  - title: "BLAS: trmm and syrk (reference implementation)"
    url: https://www.netlib.org/blas/
    licence: BSD-3-Clause
  - title: "PyTorch: torch.tril"
    url: https://docs.pytorch.org/docs/stable/generated/torch.tril.html
    licence: BSD-3-Clause
  - title: "Triton: triton.language.tensor_descriptor"
    url: https://triton-lang.org/main/python-api/generated/triton.language.tensor_descriptor.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 4096x4096x4096x-1x-1x-1
  dtype: bfloat16
  baseline: matmul-triangular-plain
  baseline_ms: 0.2026
  measured_ms: 0.05798
  speedup: 3.494
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 4096x4096x4096x-1x-1x-1
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.2054
  measured_ms: 0.05798
  speedup: 3.543
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 4096x4096x4096x-1x-1x-1
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1833
  measured_ms: 0.05798
  speedup: 3.161
---

Three kinds of zeros can be left out, each by whole blocks. Where only a triangle of C is wanted, a
tile outside it is filled without a product: half of the work. Where A is lower triangular, rows up
to r need only the inner indices up to r; where B is lower triangular, columns from c on need only
those from c on; so the loop runs over the part where both are present. With all three of them a
sixth of the products remains.

The tiles then differ in length. Those with the longest loop start first, so that the short ones
fill the multiprocessors at the end. What is said to be zero has to be zero in memory: blocks on
the diagonal are read whole. Elements of C outside its triangle are written as zeros whatever the
product.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

TUNABLES = {
    "block_m": [64, 128],
    "block_n": [64, 128, 256],
    "block_k": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [3, 4],
}

LOWER, FULL, UPPER = -1, 0, 1


@triton.jit
def _matmul_kernel(
    a_desc, b_desc, c_ptr,
    M, N, K,
    PART_A: tl.constexpr, PART_B: tl.constexpr, PART_C: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    tile_m = tl.program_id(0) // tiles_n
    tile_n = tl.program_id(0) % tiles_n
    # Of a lower triangular A the last rows are the longest; of a lower triangular B the first
    # columns: these start first.
    if PART_A == -1:
        tile_m = tiles_m - 1 - tile_m
    if PART_B == 1:
        tile_n = tiles_n - 1 - tile_n
    row = tile_m * BLOCK_M
    col = tile_n * BLOCK_N
    rows = row + tl.arange(0, BLOCK_M)[:, None]
    cols = col + tl.arange(0, BLOCK_N)[None, :]
    first = 0
    end = K
    if PART_A == -1:
        end = tl.minimum(end, row + BLOCK_M)
    if PART_A == 1:
        first = tl.maximum(first, row)
    if PART_B == -1:
        first = tl.maximum(first, col)
    if PART_B == 1:
        end = tl.minimum(end, col + BLOCK_N)
    if PART_C == -1:  # nothing to compute where the first column is after the last row
        end = tl.where(col >= row + BLOCK_M, first, end)
    if PART_C == 1:
        end = tl.where(row >= col + BLOCK_N, first, end)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(first, end, BLOCK_K):
        a = a_desc.load([row, k])
        b = b_desc.load([k, col])
        # float32 operands: three TF32 products keep float32 accuracy on tensor cores.
        acc = tl.dot(a, b, acc, input_precision="tf32x3")
    if PART_C == -1:
        acc = tl.where(cols <= rows, acc, 0.0)
    if PART_C == 1:
        acc = tl.where(cols >= rows, acc, 0.0)
    # Counted in int64: results of a few GB have more than 2**31 elements.
    at = rows.to(tl.int64) * N + cols
    tl.store(c_ptr + at, acc.to(c_ptr.dtype.element_ty), mask=(rows < M) & (cols < N))


def _for_tma(x: torch.Tensor) -> torch.Tensor:
    """`x` itself where TMA can address it, else a copy that it can (one more pass over `x`)."""
    unit = 16 // x.element_size()
    strided = x.stride(1) == 1 and x.stride(0) >= x.shape[1] and x.stride(0) % unit == 0
    if strided and x.data_ptr() % 16 == 0:
        return x
    padded = triton.cdiv(x.shape[1], unit) * unit
    copy = torch.empty((x.shape[0], padded), dtype=x.dtype, device=x.device)
    return copy[:, : x.shape[1]].copy_(x)


def kernel_function(
    a: torch.Tensor,
    b: torch.Tensor,
    part_a: int,
    part_b: int,
    part_c: int,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 64,
    num_warps: int = 8,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return the part of `a @ b` [M, N] that `part_c` names: -1 the lower triangle, 1 the upper
    one, 0 all; zeros elsewhere.

    `a` [M, K] and `b` [K, N] of one dtype, any strides. `part_a` and `part_b` say in the same way
    where they may be other than zero: the rest is zero in memory, and is not read where whole
    blocks of it are. `block_k` is cut to 128 bytes a row.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(f"cannot multiply {a.dtype} {list(a.shape)} by {b.dtype} {list(b.shape)}")
    if not {part_a, part_b, part_c} <= {LOWER, FULL, UPPER}:
        raise ValueError(f"a part is -1, 0 or 1, not {part_a}, {part_b}, {part_c}")
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    if c.numel() == 0 or k == 0:
        return c.zero_()
    if a.dtype == torch.bfloat16 and not a.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        a, b = a.float(), b.float()
    block_k = min(block_k, 128 // a.element_size())
    _matmul_kernel[(triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)](
        TensorDescriptor.from_tensor(_for_tma(a), [block_m, block_k]),
        TensorDescriptor.from_tensor(_for_tma(b), [block_k, block_n]),
        c, m, n, k,
        PART_A=part_a, PART_B=part_b, PART_C=part_c,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c


def reference(
    a: torch.Tensor, b: torch.Tensor, part_a: int, part_b: int, part_c: int
) -> torch.Tensor:
    c = a @ b
    return c.tril() if part_c == LOWER else c.triu() if part_c == UPPER else c


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | int]:
    """`size` is [M, N, K, part of A, part of B, part of C]."""
    m, n, k, part_a, part_b, part_c = size
    generator = torch.Generator(device=device).manual_seed(seed)
    a, b = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((m, k), (k, n))
    )
    a = a.tril() if part_a == LOWER else a.triu() if part_a == UPPER else a
    b = b.tril() if part_b == LOWER else b.triu() if part_b == UPPER else b
    return [a, b, part_a, part_b, part_c]
