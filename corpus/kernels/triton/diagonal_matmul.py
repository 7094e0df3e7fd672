"""
---
slug: diagonal-matmul
title: Product of a diagonal matrix and a matrix as a scaling of rows
op: diagonal-matmul
language: triton
techniques: [structural-sparsity, vectorized-access]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[8, 64], [5, 100], [1, 33]]
  bench: [8192, 8192]
check_params: {tile: 128}
sources:
  - title: "PyTorch: torch.diag"
    url: https://docs.pytorch.org/docs/stable/generated/torch.diag.html
    licence: BSD-3-Clause
  - title: "Triton: triton.language.load"
    url: https://triton-lang.org/main/python-api/generated/triton.language.load.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.276
  measured_ms: 0.06624
  speedup: 19.26
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.271
  measured_ms: 0.06624
  speedup: 19.19
---

diag(d) @ B scales row i of B by d[i]. Written as a matrix product it makes an N x N matrix of
which one element in N is not zero, and multiplies by the zeros: N times the arithmetic and more
traffic than the result has. Here B is read once and the result written once.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"tile": [1024, 2048, 4096], "num_warps": [4, 8]}


@triton.jit
def _diagonal_kernel(
    d_ptr, b_ptr, c_ptr, M, N, stride_d, stride_bm, stride_bn,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, COLS)
    # Index times stride is taken in int64: it passes 2**31 on matrices of a few GB.
    rows = (tl.program_id(0) // tiles_n * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    cols = (tl.program_id(0) % tiles_n * COLS + tl.arange(0, COLS)).to(tl.int64)[None, :]
    mask = (rows < M) & (cols < N)
    d = tl.load(d_ptr + rows * stride_d, mask=rows < M, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + rows * stride_bm + cols * stride_bn, mask=mask, other=0.0)
    tl.store(c_ptr + rows * N + cols, (d * b.to(tl.float32)).to(c_ptr.dtype.element_ty), mask=mask)


def kernel_function(
    diagonal: torch.Tensor, b: torch.Tensor, tile: int = 2048, num_warps: int = 4
) -> torch.Tensor:
    """Return diag(`diagonal`) @ `b` [M, N]: `diagonal` [M], `b` [M, N] of one dtype, any strides.

    An infinite or undefined element of `b` reaches its own row alone, where a product with the
    matrix's zeros would spread it over its column.
    """
    if diagonal.ndim != 1 or b.ndim != 2 or diagonal.shape[0] != b.shape[0]:
        raise ValueError(f"diagonal {list(diagonal.shape)} does not fit {list(b.shape)}")
    m, n = b.shape
    c = torch.empty((m, n), dtype=b.dtype, device=b.device)
    if c.numel() == 0:
        return c
    cols = min(tile, triton.next_power_of_2(n))
    rows = max(1, min(tile // cols, triton.next_power_of_2(m)))
    _diagonal_kernel[(triton.cdiv(m, rows) * triton.cdiv(n, cols),)](
        diagonal, b, c, m, n, diagonal.stride(0), *b.stride(),
        ROWS=rows, COLS=cols, num_warps=num_warps,
    )  # fmt: skip
    return c


def reference(diagonal: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.diag(diagonal) @ b


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N]."""
    m, n = size
    generator = torch.Generator(device=device).manual_seed(seed)
    return [
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((m,), (m, n))
    ]
