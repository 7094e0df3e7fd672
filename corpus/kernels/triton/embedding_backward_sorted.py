"""
---
slug: embedding-backward-sorted
title: Gradient of an embedding's table by sums over sorted indices, frequent rows in parts
op: embedding-backward
language: triton
techniques: [load-balancing, split-k]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: embedding-backward-plain
sizes:
  check: [[50, 64, 30], [7, 100, 24], [3, 3, 32], [9, 1, 4]]
  bench: [128256, 4096, 32768]
check_params: {block_d: 128, span: 8, high: 2, rows_per_program: 4}
sources:
  - title: "PyTorch: torch.nn.functional.embedding"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding.html
    licence: BSD-3-Clause
  - title: "PyTorch: torch.searchsorted"
    url: https://docs.pytorch.org/docs/stable/generated/torch.searchsorted.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 128256x4096x32768
  dtype: bfloat16
  baseline: embedding-backward-plain
  baseline_ms: 1.547
  measured_ms: 0.5248
  speedup: 2.948
  floor_fraction: 0.5878
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 128256x4096x32768
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.838
  measured_ms: 0.5248
  speedup: 3.502
  floor_fraction: 0.5878
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 128256x4096x32768
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.544
  measured_ms: 0.5248
  speedup: 2.942
  floor_fraction: 0.5878
---

dweight[v] is the sum of the rows grad[i] with index[i] = v. After sorting the indices, the rows to
add for v are neighbours in the order: a program takes a piece of v's row and writes their sum,
once, in the final dtype. Rows that do not occur are written with zeros by the same programs, so the
table is written once in all, which is most of the time where it is large; there is no table in
float32, no filling beforehand, and no atomics. The order of additions is fixed by the indices and
the parameters: results are equal from run to run.

A few rows occur very often (padding, punctuation), and a program alone with thousands of rows would
end long after all others. So the sorted order is cut into spans of `span` indices. A first kernel
adds up each span whose indices are all equal; the second takes these sums, and single rows only
before the first and after the last whole span: fewer than two spans of them, however frequent the
row. How many spans there are is known without asking the GPU, which would wait.

Sorting takes some kernels of PyTorch: with few indices they and the zeros are the time. Where an
optimizer takes a sparse gradient, do not write the zeros.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_d": [512, 1024, 2048],
    "span": [32, 64, 128],
    "high": [2, 4, 8],
    "rows_per_program": [1, 2, 4],
    "num_warps": [2, 4, 8],
}


@triton.jit
def _add_rows(
    total, grad_ptr, order_ptr, begin, end, d, D, stride_gt, stride_gd, HIGH: tl.constexpr
):  # fmt: skip
    """`total` [HIGH, BLOCK_D] plus the rows at `begin` to `end` of the order, dealt out in turn."""
    for start in tl.range(begin, end, HIGH):
        at = start + tl.arange(0, HIGH)[:, None]
        # Row times stride is taken in int64, as the order is.
        row = tl.load(order_ptr + at, mask=at < end, other=0)
        mask = (at < end) & (d < D)
        total += tl.load(grad_ptr + row * stride_gt + d * stride_gd, mask=mask, other=0.0)
    return total


@triton.jit
def _span_kernel(
    grad_ptr, index_ptr, order_ptr, partial_ptr, D, padding, stride_gt, stride_gd,
    SPAN: tl.constexpr, HIGH: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The sum of each span whose sorted indices are equal."""
    blocks = tl.cdiv(D, BLOCK_D)
    span = (tl.program_id(0) // blocks).to(tl.int64)
    begin = span * SPAN
    row = tl.load(index_ptr + begin)
    if (row == tl.load(index_ptr + begin + SPAN - 1)) & (row != padding):
        d = ((tl.program_id(0) % blocks) * BLOCK_D + tl.arange(0, BLOCK_D)).to(tl.int64)[None, :]
        total = tl.zeros((HIGH, BLOCK_D), dtype=tl.float32)
        total = _add_rows(
            total, grad_ptr, order_ptr, begin, begin + SPAN, d, D, stride_gt, stride_gd, HIGH
        )
        total = tl.sum(total, axis=0, keep_dims=True)
        tl.store(partial_ptr + span * D + d, total, mask=d < D)


@triton.jit
def _row_kernel(
    grad_ptr, order_ptr, starts_ptr, partial_ptr, dweight_ptr, rows, D, padding,
    stride_gt, stride_gd,
    ROWS: tl.constexpr, SPAN: tl.constexpr, HIGH: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Rows of the table: sums of what lies from starts[v] to starts[v + 1] in the order."""
    blocks = tl.cdiv(D, BLOCK_D)
    d = ((tl.program_id(0) % blocks) * BLOCK_D + tl.arange(0, BLOCK_D)).to(tl.int64)[None, :]
    first_row = (tl.program_id(0) // blocks) * ROWS
    # Row times length is taken in int64: it passes 2**31 in tables of a few GB.
    length = tl.full((), 1, tl.int64) * D
    for row in tl.range(first_row, tl.minimum(first_row + ROWS, rows)):
        begin = tl.load(starts_ptr + row)
        end = tl.load(starts_ptr + row + 1)
        end = tl.where(row == padding, begin, end)
        total = tl.zeros((HIGH, BLOCK_D), dtype=tl.float32)
        # The spans that lie in it; without any, all rows are added one by one.
        first = tl.cdiv(begin, SPAN)
        last = end // SPAN
        head = tl.where(first < last, first * SPAN, end)
        tail = tl.where(first < last, last * SPAN, end)
        total = _add_rows(total, grad_ptr, order_ptr, begin, head, d, D, stride_gt, stride_gd, HIGH)
        for start in tl.range(first, last, HIGH):
            span = start + tl.arange(0, HIGH)[:, None]
            mask = (span < last) & (d < D)
            total += tl.load(partial_ptr + span * D + d, mask=mask, other=0.0)
        total = _add_rows(total, grad_ptr, order_ptr, tail, end, d, D, stride_gt, stride_gd, HIGH)
        total = tl.sum(total, axis=0, keep_dims=True)
        # What is written is not read here: it shall not push the gradient out of L2.
        tl.store(
            dweight_ptr + row * length + d, total.to(dweight_ptr.dtype.element_ty),
            mask=d < D, eviction_policy="evict_first",
        )  # fmt: skip


def kernel_function(
    grad: torch.Tensor,
    index: torch.Tensor,
    rows: int,
    padding_idx: int | None = None,
    block_d: int = 1024,
    span: int = 64,
    high: int = 4,
    rows_per_program: int = 2,
    num_warps: int = 4,
) -> torch.Tensor:
    """The gradient [rows, D] by an embedding's table: `grad` [..., D], any strides, is that of the
    output and `index` [...] (integers in [0, rows)) what was looked up, in `grad`'s dtype.

    The table's row `padding_idx` gets zeros. Sums are in float32, deterministic. A program adds
    `high` rows at a time.
    """
    if grad.shape[:-1] != index.shape or index.is_floating_point():
        raise ValueError(f"grad {list(grad.shape)} and index {list(index.shape)} do not fit")
    width, count = grad.shape[-1], index.numel()
    dweight = torch.empty((rows, width), dtype=grad.dtype, device=grad.device)
    if not dweight.numel():
        return dweight
    flat = grad.reshape(count, width)  # a view wherever the strides allow one
    # Half the passes of a radix sort over 64 bits.
    keys = index.flatten().to(torch.int32 if rows < 2**31 else torch.int64)
    keys, order = keys.sort(stable=True)
    bounds = torch.arange(rows + 1, dtype=keys.dtype, device=keys.device)
    starts = torch.searchsorted(keys, bounds)
    padding = -1 if padding_idx is None else padding_idx % rows
    block_d = min(block_d, triton.next_power_of_2(width))
    blocks = triton.cdiv(width, block_d)
    spans = count // span
    partial = torch.empty((spans, width), dtype=torch.float32, device=grad.device)
    if spans:
        _span_kernel[(spans * blocks,)](
            flat, keys, order, partial, width, padding, *flat.stride(),
            SPAN=span, HIGH=high, BLOCK_D=block_d, num_warps=num_warps,
        )  # fmt: skip
    _row_kernel[(triton.cdiv(rows, rows_per_program) * blocks,)](
        flat, order, starts, partial, dweight, rows, width, padding, *flat.stride(),
        ROWS=rows_per_program, SPAN=span, HIGH=high, BLOCK_D=block_d, num_warps=num_warps,
    )  # fmt: skip
    return dweight


def reference(
    grad: torch.Tensor, index: torch.Tensor, rows: int, padding_idx: int | None = None
) -> torch.Tensor:
    padding = -1 if padding_idx is None else padding_idx % rows
    # On the CPU the operator would round after each addition.
    wide = grad if grad.is_cuda else grad.to(torch.promote_types(grad.dtype, torch.float32))
    dweight = torch.ops.aten.embedding_dense_backward(wide, index, rows, padding, False)
    return dweight.to(grad.dtype)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [rows of the table, row length, indices]; low indices are frequent, as those of
    tokens are: of 32,768 in a table of 128,256 rows every twentieth is 0."""
    rows, width, count = size
    generator = torch.Generator(device=device).manual_seed(seed)
    grad = torch.randn((count, width), dtype=dtype, device=device, generator=generator)
    uniform = torch.rand(count, device=device, generator=generator)
    return [grad, (uniform**4 * rows).long().clamp(max=rows - 1), rows]
