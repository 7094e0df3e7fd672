"""
---
slug: spmm-csr-balanced
title: Sparse CSR matrix times a dense one, equal ranges of nonzeros for every program
op: sparse-matmul
language: triton
techniques: [load-balancing, parallel-scan]
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
    licence: arXiv-nonexclusive
---

y = A x with A in CSR form: y[r] is the sum of values[i] x[columns[i]] over the nonzeros of row r.
With a program for each row, a row with 100,000 nonzeros, as graphs and logs have them, is a chain
of loads that goes on when the rest of the GPU has finished; rows of two nonzeros leave most of a
tile empty.

Here every program takes `span` nonzeros, whatever rows they are in. It finds its first and last row
by binary search in the row offsets, and the row of each nonzero in a tile by a search between these
two. The products of a tile are summed within rows by a segmented scan that each thread does alone
for its column: one pass over any number of rows. At the last nonzero of a row the sum is complete
and is written.

A row cut by a border leaves float32 sums: what a program has of a row that goes on after its range,
and what it has of the row that began before. A second kernel adds up those of each such row, always
in the same order: there are no atomics and every run gives the same bits. A third one writes zeros
for rows that have no nonzeros.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "span": [128, 256, 512, 1024],
    "block_k": [8, 16, 32],
    "block_n": [32, 64, 128],
    "num_warps": [1, 2, 4],
}


@triton.jit
def _binary_search(offsets_ptr, place, low, high):
    """The last row from `low` to `high` whose offset is at most `place`, in its shape."""
    width = high - low
    first = place * 0 + low
    last = place * 0 + high
    while width > 0:
        middle = (first + last + 1) // 2
        right = tl.load(offsets_ptr + middle) <= place
        first = tl.where(right, middle, first)
        last = tl.where(right, last, middle - 1)
        width = width // 2
    return first


@triton.jit
def _add_within(row_1, sum_1, row_2, sum_2):
    """Sums of neighbours, added where both are in one row."""
    return row_2, tl.where(row_1 == row_2, sum_1 + sum_2, sum_2)


# Nothing is said of these numbers so that loads are not made wide: a thread has one column of all
# rows of a tile then, and scans them alone. A warp still reads 32 neighbouring columns at a time.
@triton.jit(do_not_specialize=["N", "stride_xm", "stride_xn"])
def _ranges_kernel(
    offsets_ptr, columns_ptr, values_ptr, x_ptr, y_ptr, heads_ptr, tails_ptr, cut_ptr,
    M, N, nonzeros, span,
    stride_xm, stride_xn,
    BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One range: `heads` and `tails` [ranges, N] are its sums of rows that began before it and
    that go on after it, `cut` the row that goes on or -1."""
    pid = tl.program_id(0)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    in_n = n < N
    n64 = n.to(tl.int64)
    item = tl.arange(0, BLOCK_K)
    begin = pid * span
    end = tl.minimum(begin + span, nonzeros)
    first_row = _binary_search(offsets_ptr, begin, 0, M - 1)
    last_row = _binary_search(offsets_ptr, end - 1, first_row, M - 1)
    # A row that began before this range, or -1.
    older = tl.where(tl.load(offsets_ptr + first_row) < begin, first_row, -1)
    first_end = tl.load(offsets_ptr + first_row + 1)
    before = first_row
    sums = tl.zeros((BLOCK_N,), dtype=tl.float32)
    # In a thread this comparison is known: it costs nothing.
    closes = (item == BLOCK_K - 1)[:, None]
    for start in tl.range(begin, end, BLOCK_K):
        k = start + item
        in_k = k < end
        # Past the end: zeros that belong to the last row.
        row = _binary_search(offsets_ptr, tl.minimum(k, end - 1), first_row, last_row)
        column = tl.load(columns_ptr + k, mask=in_k, other=0).to(tl.int64)
        value = tl.load(values_ptr + k, mask=in_k, other=0.0).to(tl.float32)
        x_at = column[:, None] * stride_xm + n64[None, :] * stride_xn
        x = tl.load(x_ptr + x_at, mask=in_k[:, None] & in_n[None, :], other=0.0).to(tl.float32)
        product = value[:, None] * x
        rows = tl.broadcast_to(row[:, None], (BLOCK_K, BLOCK_N))
        # The row that the tile before left open goes on in the first nonzero, or nowhere.
        product += tl.where((item == 0)[:, None] & (rows == before), sums[None, :], 0.0)
        rows, total = tl.associative_scan((rows, product), 0, _add_within)
        # -0.0 is what leaves every number as it is when added, so the compiler drops it.
        sums = tl.sum(tl.where(closes, total, -0.0), axis=0)
        ends = in_k & (tl.load(offsets_ptr + row + 1) == k + 1)
        whole = ends & (row > older)
        y_at = row.to(tl.int64)[:, None] * N + n64[None, :]
        mask = whole[:, None] & in_n[None, :]
        tl.store(y_ptr + y_at, total.to(y_ptr.dtype.element_ty), mask=mask)
        if (older >= 0) & (first_end > start) & (first_end <= tl.minimum(start + BLOCK_K, end)):
            head = ends & (row == older)
            head_at = pid.to(tl.int64) * N + n64[None, :] + (item * 0).to(tl.int64)[:, None]
            tl.store(heads_ptr + head_at, total, mask=head[:, None] & in_n[None, :])
        before = _last(row, item, BLOCK_K)
    goes_on = tl.load(offsets_ptr + last_row + 1) > end
    tl.store(cut_ptr + pid, tl.where(goes_on, last_row, -1))
    if goes_on:
        tl.store(tails_ptr + pid.to(tl.int64) * N + n64, sums, mask=in_n)


@triton.jit
def _last(row, item, BLOCK_K: tl.constexpr):
    """The last one of a tile's rows, which do not decrease."""
    return tl.max(tl.where(item == BLOCK_K - 1, row, 0), axis=0)


@triton.jit
def _join_kernel(
    offsets_ptr, y_ptr, heads_ptr, tails_ptr, cut_ptr,
    N, span,
    BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Add up the row that goes on after range `pid`, if it began in it."""
    pid = tl.program_id(0)
    row = tl.load(cut_ptr + pid)
    if row < 0:
        return
    if tl.load(offsets_ptr + row) // span != pid:
        return
    # The range that holds the row's last nonzero.
    last = (tl.load(offsets_ptr + row + 1) - 1) // span
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)
    part = tl.arange(0, BLOCK_P)
    acc = tl.zeros((BLOCK_P, BLOCK_N), dtype=tl.float32)
    for start in tl.range(pid, last, BLOCK_P):
        at = (start + part).to(tl.int64)[:, None] * N + n[None, :]
        mask = (start + part < last)[:, None] & (n < N)[None, :]
        acc += tl.load(tails_ptr + at, mask=mask, other=0.0)
    head = tl.load(heads_ptr + last.to(tl.int64) * N + n, mask=n < N, other=0.0)
    total = tl.sum(acc, axis=0) + head
    tl.store(y_ptr + row.to(tl.int64) * N + n, total.to(y_ptr.dtype.element_ty), mask=n < N)


@triton.jit
def _empty_rows_kernel(
    offsets_ptr, y_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    in_m = row < M
    begin = tl.load(offsets_ptr + row, mask=in_m, other=0)
    end = tl.load(offsets_ptr + row + 1, mask=in_m, other=1)
    empty = in_m & (begin == end)
    if tl.max(empty.to(tl.int32), axis=0) > 0:
        zeros = tl.zeros((BLOCK_M, BLOCK_N), dtype=y_ptr.dtype.element_ty)
        for start in tl.range(0, N, BLOCK_N):
            n = start + tl.arange(0, BLOCK_N)
            at = row.to(tl.int64)[:, None] * N + n[None, :]
            tl.store(y_ptr + at, zeros, mask=empty[:, None] & (n < N)[None, :])


def kernel_function(
    offsets: torch.Tensor,
    columns: torch.Tensor,
    values: torch.Tensor,
    x: torch.Tensor,
    span: int = 256,
    block_k: int = 16,
    block_n: int = 64,
    num_warps: int = 1,
) -> torch.Tensor:
    """The CSR matrix of `offsets` [M + 1], `columns` [nonzeros] and `values` [nonzeros] times `x`
    [K, N], any strides, -> [M, N] in x's dtype.

    `offsets` (crow_indices in PyTorch) goes from 0 to the number of nonzeros, below 2**31, and both
    are int32 or int64. Columns of a row may be in any order and repeat; none may reach K. Sums are
    float32, in an order that depends on nothing but the offsets and parameters.
    """
    if offsets.ndim != 1 or x.ndim != 2 or columns.ndim != 1 or columns.shape != values.shape:
        raise ValueError(
            "a CSR matrix is offsets [M + 1], columns [nonzeros] and values [nonzeros]"
        )
    if not len(offsets) or len(values) >= 2**31 - span:
        raise ValueError(f"{len(offsets)} offsets of {len(values)} nonzeros: 1 and up, below 2**31")
    rows, count, n = len(offsets) - 1, len(values), x.shape[1]
    y = torch.empty((rows, n), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    # Binary search compares in int32.
    offsets = offsets.to(torch.int32).contiguous()
    columns, values = columns.contiguous(), values.contiguous()
    block_n = min(block_n, max(32, triton.next_power_of_2(n)))
    blocks_n = triton.cdiv(n, block_n)
    _empty_rows_kernel[(triton.cdiv(rows, 64),)](
        offsets, y, rows, n, BLOCK_M=64, BLOCK_N=block_n, num_warps=4
    )
    ranges = triton.cdiv(count, span)
    if not ranges:
        return y
    heads = torch.empty((2, ranges, n), dtype=torch.float32, device=x.device)
    cut = torch.empty(ranges, dtype=torch.int32, device=x.device)
    _ranges_kernel[(ranges, blocks_n)](
        offsets, columns, values, x, y, heads[0], heads[1], cut,
        rows, n, count, span, *x.stride(),
        BLOCK_K=block_k, BLOCK_N=block_n, num_warps=num_warps,
    )  # fmt: skip
    _join_kernel[(ranges, blocks_n)](
        offsets, y, heads[0], heads[1], cut, n, span,
        BLOCK_P=16, BLOCK_N=block_n, num_warps=2,
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


def library(
    offsets: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, x: torch.Tensor
) -> torch.Tensor:
    shape = (len(offsets) - 1, x.shape[0])
    return torch.sparse_csr_tensor(offsets, columns, values, shape, check_invariants=False) @ x


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
