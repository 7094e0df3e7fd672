"""
---
slug: spmm-csr-plain
title: Sparse CSR matrix times a dense one, one program for each row
op: sparse-matmul
language: triton
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[24, 30, 32, 120], [37, 20, 21, 100], [1, 5, 40, 3]]
  bench: [131072, 131072, 128, 4194304]
check_params: {block_k: 16, block_n: 64}
sources:
  - title: "Yang, Buluc, Owens: Design principles for sparse matrix multiplication on the GPU"
    url: https://arxiv.org/abs/1803.08601
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 131072x131072x128x4194304
  dtype: bfloat16
  baseline: eager
  baseline_ms: 9.842
  measured_ms: 1.742
  speedup: 5.65
  floor_fraction: 0.01253
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 131072x131072x128x4194304
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.991
  measured_ms: 1.742
  speedup: 1.143
  floor_fraction: 0.01253
---

y[r] is the sum of values[i] x[columns[i]] over the nonzeros of row r. A program walks over the
nonzeros of one row, `block_k` at a time, and gathers the rows of x that they name. The longest row
decides when the last program ends; short rows fill part of a tile.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_k": [8, 16, 32, 64],
    "block_n": [32, 64, 128],
    "num_warps": [1, 4],
}


@triton.jit
def _row_kernel(
    offsets_ptr, columns_ptr, values_ptr, x_ptr, y_ptr,
    N, stride_xm, stride_xn,
    BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)
    begin = tl.load(offsets_ptr + row)
    end = tl.load(offsets_ptr + row + 1)
    acc = tl.zeros((BLOCK_K, BLOCK_N), dtype=tl.float32)
    for start in tl.range(begin, end, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        column = tl.load(columns_ptr + k, mask=k < end, other=0).to(tl.int64)
        value = tl.load(values_ptr + k, mask=k < end, other=0.0).to(tl.float32)
        x_at = column[:, None] * stride_xm + n[None, :] * stride_xn
        x = tl.load(x_ptr + x_at, mask=(k < end)[:, None] & (n < N)[None, :], other=0.0)
        acc += value[:, None] * x.to(tl.float32)
    total = tl.sum(acc, axis=0)
    tl.store(y_ptr + row * N + n, total.to(y_ptr.dtype.element_ty), mask=n < N)


def kernel_function(
    offsets: torch.Tensor,
    columns: torch.Tensor,
    values: torch.Tensor,
    x: torch.Tensor,
    block_k: int = 16,
    block_n: int = 32,
    num_warps: int = 4,
) -> torch.Tensor:
    """The CSR matrix of `offsets` [M + 1], `columns` [nonzeros] and `values` [nonzeros] times `x`
    [K, N], any strides, -> [M, N] in x's dtype."""
    if columns.shape != values.shape or x.ndim != 2:
        raise ValueError(f"{list(columns.shape)} columns, {list(values.shape)} values do not fit")
    rows, n = len(offsets) - 1, x.shape[1]
    y = torch.empty((rows, n), dtype=x.dtype, device=x.device)
    if y.numel():
        block_n = min(block_n, max(16, triton.next_power_of_2(n)))
        _row_kernel[(rows, triton.cdiv(n, block_n))](
            offsets.contiguous(), columns.contiguous(), values.contiguous(), x, y,
            n, *x.stride(),
            BLOCK_K=block_k, BLOCK_N=block_n, num_warps=num_warps,
        )  # fmt: skip
    return y


def reference(
    offsets: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, x: torch.Tensor
) -> torch.Tensor:
    rows = torch.arange(len(offsets) - 1, device=x.device)
    lengths = offsets.diff()
    row = torch.repeat_interleave(rows, lengths, output_size=len(values))
    wide = torch.promote_types(x.dtype, torch.float32)
    products = values.to(wide)[:, None] * x[columns].to(wide)
    y = torch.zeros((len(rows), x.shape[1]), dtype=wide, device=x.device)
    return y.index_add_(0, row, products).to(x.dtype)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, K, N, nonzeros]; few rows have most of the nonzeros, some have none."""
    rows, depth, n, count = size
    generator = torch.Generator(device=device).manual_seed(seed)
    # Of each nonzero its row: u**3 is much more often near 0.
    u = torch.rand(count, device=device, generator=generator)
    row = (u**3 * rows).long().clamp(max=rows - 1)
    # Long rows lie anywhere, not beside each other.
    place = torch.randperm(rows, device=device, generator=generator)
    lengths = torch.bincount(place[row], minlength=rows)
    offsets = torch.zeros(rows + 1, dtype=torch.int32, device=device)
    offsets[1:] = lengths.cumsum(0)
    columns = torch.randint(
        0, depth, (count,), device=device, generator=generator, dtype=torch.int32
    )
    values = torch.randn(count, dtype=dtype, device=device, generator=generator)
    return [
        offsets,
        columns,
        values,
        torch.randn((depth, n), dtype=dtype, device=device, generator=generator),
    ]
