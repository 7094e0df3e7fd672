"""
---
slug: spmm-csr-balanced
title: Sparse CSR matrix times a dense one, equal pieces of a merge path for every program
op: sparse-matmul
language: triton
techniques: [load-balancing]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: spmm-csr-plain
sizes:
  check: [[24, 30, 32, 120], [37, 20, 21, 100], [1, 5, 40, 3]]
  bench: [131072, 131072, 128, 4194304]
check_params: {span: 32, block_k: 16, block_n: 64}
sources:
  - title: "Merrill, Garland: Merge-based parallel sparse matrix-vector multiplication"
    url: https://research.nvidia.com/publication/2016-11_merge-based-parallel-sparse-matrix-vector-multiplication
    licence: proprietary
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
  baseline: spmm-csr-plain
  baseline_ms: 1.757
  measured_ms: 0.24
  speedup: 7.321
  floor_fraction: 0.09094
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 131072x131072x128x4194304
  dtype: bfloat16
  baseline: eager
  baseline_ms: 9.905
  measured_ms: 0.24
  speedup: 41.27
  floor_fraction: 0.09094
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 131072x131072x128x4194304
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.99
  measured_ms: 0.24
  speedup: 8.292
  floor_fraction: 0.09094
---

y = A x with A in CSR form: y[r] is the sum of values[i] x[columns[i]] over the nonzeros of row r.
With a program for each row, a row with 100,000 nonzeros, as graphs and logs have them, is a chain
of loads that goes on when the rest of the GPU has finished.

Here nonzeros and ends of rows lie on one path: the end of a row follows its last nonzero. Every
program takes `span` steps of this path, so neither a long row nor a million empty ones make one
program slow. It finds its first step by a search in the offsets that reads 128 of them at a time:
three dependent loads instead of seventeen. Then it takes nonzeros in tiles, whether or not they
hold ends of rows. A tile needs two loads that depend on each other, of columns and of what they
name: while one tile is added up, the gather for the next one and the columns of the one after that
are under way. A warp has whole tiles and gathers 16 bytes for each lane and load.

A row cut by a border between programs leaves float32 sums of its parts. A second kernel adds these
up, always in the same order: there are no atomics and every run gives the same bits. The gathered
rows of x come mostly from L2 if x fits there, and their bytes are the floor. Where all rows have
about the same number of nonzeros, a program for each row does as well.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "span": [256, 512, 1024],
    "block_k": [8, 16],
    "block_n": [64, 128],
    "num_warps": [1],
}


@triton.jit
def merge_path(offsets_ptr, step, M, WIDTH: tl.constexpr):
    """How many of `M` rows end before this step: row r ends in step offsets[r + 1] + r."""
    low = step * 0
    high = tl.minimum(step, M)
    while low < high:
        stride = tl.cdiv(high - low, WIDTH)
        row = low + (tl.arange(0, WIDTH) + 1) * stride - 1
        in_m = row < high
        end = tl.load(offsets_ptr + row + 1, mask=in_m, other=0) + row
        before = tl.sum((in_m & (end < step)).to(tl.int32), axis=0)
        low += before * stride
        high = tl.minimum(high, low + stride - 1)
    return low


@triton.jit
def _spans_kernel(
    offsets_ptr, columns_ptr, values_ptr, x_ptr, y_ptr, heads_ptr, tails_ptr, cut_ptr,
    M, N, nonzeros, span,
    stride_xm, stride_xn,
    BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One span: `heads` and `tails` [spans, N] are its sums of the row that began before it and of
    the one that goes on after it, `cut` the latter or -1."""
    pid = tl.program_id(0)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    in_n = n < N
    n_at = n.to(tl.int64)[None, :] * stride_xn
    item = tl.arange(0, BLOCK_K)
    stop = tl.minimum((pid + 1) * span, M + nonzeros)
    # The row at hand, where it begins and ends. A nonzero k is step k + row.
    row = merge_path(offsets_ptr, pid * span, M, 128)
    first = pid * span - row
    start = first
    # No nonzero from here on is this program's. Ends of rows to come leave fewer steps for them: it
    # may load some too many, and masks them.
    limit = tl.minimum(stop - row, nonzeros)
    k = start + item
    column = tl.load(columns_ptr + k, mask=k < limit, other=0)
    value_next = tl.load(values_ptr + k, mask=k < limit, other=0.0)
    column_next = tl.load(columns_ptr + k + BLOCK_K, mask=k < limit - BLOCK_K, other=0)
    row_begin = tl.load(offsets_ptr + row)
    row_end = tl.load(offsets_ptr + tl.minimum(row + 1, M))
    x_at = column.to(tl.int64)[:, None] * stride_xm + n_at
    x_next = tl.load(x_ptr + x_at, mask=(k < limit)[:, None] & in_n[None, :], other=0.0)
    sums = tl.zeros((BLOCK_N,), dtype=tl.float32)
    while start + row < stop:
        k = start + item
        value, x = value_next, x_next
        limit = tl.minimum(stop - row, nonzeros)
        in_k = k < limit - BLOCK_K
        x_at = column_next.to(tl.int64)[:, None] * stride_xm + n_at
        x_next = tl.load(x_ptr + x_at, mask=in_k[:, None] & in_n[None, :], other=0.0)
        value_next = tl.load(values_ptr + k + BLOCK_K, mask=in_k, other=0.0)
        in_k = k < limit - 2 * BLOCK_K
        column_next = tl.load(columns_ptr + k + 2 * BLOCK_K, mask=in_k, other=0)
        product = value.to(tl.float32)[:, None] * x.to(tl.float32)
        while (row_end <= start + BLOCK_K) & (row_end + row < stop):
            inside = (k >= row_begin) & (k < row_end)
            total = sums + tl.sum(tl.where(inside[:, None], product, 0.0), axis=0)
            if row_begin < first:
                tl.store(heads_ptr + pid.to(tl.int64) * N + n, total, mask=in_n)
            else:
                y_at = row.to(tl.int64) * N + n
                tl.store(y_ptr + y_at, total.to(y_ptr.dtype.element_ty), mask=in_n)
            sums = tl.zeros((BLOCK_N,), dtype=tl.float32)
            row += 1
            row_begin = row_end
            row_end = tl.load(offsets_ptr + tl.minimum(row + 1, M))
        inside = (k >= row_begin) & (k < stop - row)
        sums += tl.sum(tl.where(inside[:, None], product, 0.0), axis=0)
        start += BLOCK_K
    goes_on = row_begin < stop - row
    tl.store(cut_ptr + pid, tl.where(goes_on, row, -1))
    if goes_on:
        tl.store(tails_ptr + pid.to(tl.int64) * N + n, sums, mask=in_n)


@triton.jit
def _join_kernel(
    offsets_ptr, y_ptr, heads_ptr, tails_ptr, cut_ptr,
    N, span,
    BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Add up the row that goes on after span `pid`, if it began in it."""
    pid = tl.program_id(0)
    row = tl.load(cut_ptr + pid)
    older = tl.load(cut_ptr + pid - 1, mask=pid > 0, other=-1)
    if (row < 0) | (row == older):
        return
    # The span in which the row ends.
    last = (tl.load(offsets_ptr + row + 1) + row) // span
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    part = tl.arange(0, BLOCK_P)
    total = tl.load(heads_ptr + last.to(tl.int64) * N + n, mask=n < N, other=0.0)
    for start in tl.range(pid, last, BLOCK_P):
        at = (start + part).to(tl.int64)[:, None] * N + n[None, :]
        mask = (start + part < last)[:, None] & (n < N)[None, :]
        total += tl.sum(tl.load(tails_ptr + at, mask=mask, other=0.0), axis=0)
    tl.store(y_ptr + row.to(tl.int64) * N + n, total.to(y_ptr.dtype.element_ty), mask=n < N)


def kernel_function(
    offsets: torch.Tensor,
    columns: torch.Tensor,
    values: torch.Tensor,
    x: torch.Tensor,
    span: int = 1024,
    block_k: int = 16,
    block_n: int = 128,
    num_warps: int = 1,
) -> torch.Tensor:
    """The CSR matrix of `offsets` [M + 1], `columns` [nonzeros] and `values` [nonzeros] times `x`
    [K, N], any strides, -> [M, N] in x's dtype.

    `offsets` (crow_indices in PyTorch) goes from 0 to the number of nonzeros, which with M is below
    2**31; it and `columns` are int32 or int64. Columns of a row may be in any order and repeat;
    none may reach K. Sums are float32, in an order that depends on nothing but the offsets and
    parameters.
    """
    if offsets.ndim != 1 or x.ndim != 2 or columns.ndim != 1 or columns.shape != values.shape:
        raise ValueError(
            "a CSR matrix is offsets [M + 1], columns [nonzeros] and values [nonzeros]"
        )
    # What follows the last step is counted in int32 as well.
    if not len(offsets) or len(offsets) + len(values) > 2**31 - 2 * (span + 2 * block_k):
        raise ValueError(
            f"{len(offsets)} offsets and {len(values)} nonzeros: pass 1 offset and more, together "
            "below 2**31"
        )
    rows, count, n = len(offsets) - 1, len(values), x.shape[1]
    y = torch.empty((rows, n), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    offsets = offsets.to(torch.int32).contiguous()
    columns, values = columns.contiguous(), values.contiguous()
    block_n = min(block_n, max(16, triton.next_power_of_2(n)))
    grid = (triton.cdiv(rows + count, span), triton.cdiv(n, block_n))
    heads, tails = torch.empty((2, grid[0], n), dtype=torch.float32, device=x.device)
    cut = torch.empty(grid[0], dtype=torch.int32, device=x.device)
    _spans_kernel[grid](
        offsets, columns, values, x, y, heads, tails, cut,
        rows, n, count, span, *x.stride(),
        BLOCK_K=block_k, BLOCK_N=block_n, num_warps=num_warps,
    )  # fmt: skip
    _join_kernel[grid](
        offsets, y, heads, tails, cut, n, span, BLOCK_P=16, BLOCK_N=block_n, num_warps=2
    )
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
