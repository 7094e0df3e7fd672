"""
---
slug: segment-mean-jagged
title: Mean or sum of the segments of jagged data, equal pieces of a merge path for every program
op: segment-reduction
language: triton
techniques: [load-balancing]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: segment-mean-plain
sizes:
  check: [[120, 32, 24], [100, 20, 37], [3, 40, 1]]
  bench: [2097152, 128, 65536]
check_params: {span: 32, block_t: 16, block_d: 64}
sources:
  - title: "Merrill, Garland: Merge-based parallel sparse matrix-vector multiplication"
    url: https://research.nvidia.com/publication/2016-11_merge-based-parallel-sparse-matrix-vector-multiplication
    licence: proprietary
  - title: "PyTorch: torch.Tensor.index_add_"
    url: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_add_.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 2097152x128x65536
  dtype: bfloat16
  baseline: segment-mean-plain
  baseline_ms: 0.6951
  measured_ms: 0.1549
  speedup: 4.487
  floor_fraction: 0.8411
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 2097152x128x65536
  dtype: bfloat16
  baseline: eager
  baseline_ms: 2.974
  measured_ms: 0.1549
  speedup: 19.2
  floor_fraction: 0.8411
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 2097152x128x65536
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.02
  measured_ms: 0.1549
  speedup: 6.585
  floor_fraction: 0.8411
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 2097152x128x65536
  dtype: bfloat16
  baseline: vendor library
  baseline_ms: 5.898
  measured_ms: 0.1549
  speedup: 38.08
  floor_fraction: 0.8411
---

Segment s has the rows offsets[s] to offsets[s + 1] - 1 of the values: the tokens of a sequence, the
nodes of a graph, the items of a session. With a program for each segment, one that has a hundred
times the mean length still runs when the others have ended.

Here rows and ends of segments lie on one path: the end of a segment follows its last row. Every
program takes `span` steps of this path, so neither a long segment nor a million empty ones make one
program slow. It finds its first step by a search in the offsets that reads 128 of them at a time:
three dependent loads instead of sixteen. Then it reads rows in tiles, whether or not they hold ends
of segments; the next tile is loaded before the present one is added up. A warp has whole tiles, 16
bytes for each lane and load, so that a sum over rows needs additions within lanes and one shuffle.

A segment cut by a border between programs leaves float32 sums of its parts. A second kernel adds
these up, always in the same order, without atomics. Where all segments have about the same length,
a program for each of them does as well.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "span": [256, 512, 1024],
    "block_t": [8, 16],
    "block_d": [64, 128],
    "num_warps": [1],
}


@triton.jit
def merge_path(offsets_ptr, step, S, WIDTH: tl.constexpr):
    """How many of `S` segments end before this step: segment s ends in step offsets[s + 1] + s."""
    low = step * 0
    high = tl.minimum(step, S)
    while low < high:
        stride = tl.cdiv(high - low, WIDTH)
        segment = low + (tl.arange(0, WIDTH) + 1) * stride - 1
        in_s = segment < high
        end = tl.load(offsets_ptr + segment + 1, mask=in_s, other=0) + segment
        before = tl.sum((in_s & (end < step)).to(tl.int32), axis=0)
        low += before * stride
        high = tl.minimum(high, low + stride - 1)
    return low


@triton.jit
def _spans_kernel(
    offsets_ptr, x_ptr, y_ptr, heads_ptr, tails_ptr, cut_ptr,
    S, T, D, span,
    stride_xt, stride_xd,
    MEAN: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """One span: `heads` and `tails` [spans, D] are its sums of the segment that began before it and
    of the one that goes on after it, `cut` the latter or -1."""
    pid = tl.program_id(0)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    in_d = d < D
    d_at = d.to(tl.int64)[None, :] * stride_xd
    item = tl.arange(0, BLOCK_T)
    stop = tl.minimum((pid + 1) * span, S + T)
    # The segment at hand, where it begins and ends. A row is step row + segment.
    segment = merge_path(offsets_ptr, pid * span, S, 128)
    first_row = pid * span - segment
    start = first_row
    segment_begin = tl.load(offsets_ptr + segment)
    segment_end = tl.load(offsets_ptr + tl.minimum(segment + 1, S))
    sums = tl.zeros((BLOCK_D,), dtype=tl.float32)
    t = start + item
    in_t = t < tl.minimum(stop - segment, T)
    x_at = t.to(tl.int64)[:, None] * stride_xt + d_at
    x_next = tl.load(x_ptr + x_at, mask=in_t[:, None] & in_d[None, :], other=0.0)
    while start + segment < stop:
        x = x_next
        t = start + item
        # Ends in this tile leave fewer steps for rows of the next one: it may read some too many.
        in_t = t < tl.minimum(stop - segment, T) - BLOCK_T
        x_at = (t + BLOCK_T).to(tl.int64)[:, None] * stride_xt + d_at
        x_next = tl.load(x_ptr + x_at, mask=in_t[:, None] & in_d[None, :], other=0.0)
        x = x.to(tl.float32)
        while (segment_end <= start + BLOCK_T) & (segment_end + segment < stop):
            inside = (t >= segment_begin) & (t < segment_end)
            total = sums + tl.sum(tl.where(inside[:, None], x, 0.0), axis=0)
            if segment_begin < first_row:
                tl.store(heads_ptr + pid.to(tl.int64) * D + d, total, mask=in_d)
            else:
                if MEAN:
                    total = total / tl.maximum(segment_end - segment_begin, 1).to(tl.float32)
                y_at = segment.to(tl.int64) * D + d
                tl.store(y_ptr + y_at, total.to(y_ptr.dtype.element_ty), mask=in_d)
            sums = tl.zeros((BLOCK_D,), dtype=tl.float32)
            segment += 1
            segment_begin = segment_end
            segment_end = tl.load(offsets_ptr + tl.minimum(segment + 1, S))
        inside = (t >= segment_begin) & (t < stop - segment)
        sums += tl.sum(tl.where(inside[:, None], x, 0.0), axis=0)
        start += BLOCK_T
    goes_on = segment_begin < stop - segment
    tl.store(cut_ptr + pid, tl.where(goes_on, segment, -1))
    if goes_on:
        tl.store(tails_ptr + pid.to(tl.int64) * D + d, sums, mask=in_d)


@triton.jit
def _join_kernel(
    offsets_ptr, y_ptr, heads_ptr, tails_ptr, cut_ptr,
    D, span,
    MEAN: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Add up the segment that goes on after span `pid`, if it began in it."""
    pid = tl.program_id(0)
    segment = tl.load(cut_ptr + pid)
    older = tl.load(cut_ptr + pid - 1, mask=pid > 0, other=-1)
    if (segment < 0) | (segment == older):
        return
    begin = tl.load(offsets_ptr + segment)
    end = tl.load(offsets_ptr + segment + 1)
    # The span in which the segment ends.
    last = (end + segment) // span
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    part = tl.arange(0, BLOCK_P)
    total = tl.load(heads_ptr + last.to(tl.int64) * D + d, mask=d < D, other=0.0)
    for start in tl.range(pid, last, BLOCK_P):
        at = (start + part).to(tl.int64)[:, None] * D + d[None, :]
        mask = (start + part < last)[:, None] & (d < D)[None, :]
        total += tl.sum(tl.load(tails_ptr + at, mask=mask, other=0.0), axis=0)
    if MEAN:
        total = total / (end - begin).to(tl.float32)
    tl.store(y_ptr + segment.to(tl.int64) * D + d, total.to(y_ptr.dtype.element_ty), mask=d < D)


def kernel_function(
    x: torch.Tensor,
    offsets: torch.Tensor,
    reduction: str = "mean",
    span: int = 1024,
    block_t: int = 8,
    block_d: int = 128,
    num_warps: int = 1,
) -> torch.Tensor:
    """The mean, or with reduction "sum" the sum, of each segment of `x` [T, D], any strides ->
    [S, D] in x's dtype; segments without rows give 0.

    `offsets` [S + 1], int32 or int64, does not decrease and goes from 0 to T; T + S is below 2**31.
    Sums are float32, in an order that depends on nothing but the offsets and parameters.
    """
    if x.ndim != 2 or offsets.ndim != 1 or not len(offsets):
        raise ValueError(
            f"x is [T, D] and offsets [S + 1], not {list(x.shape)} and {list(offsets.shape)}"
        )
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction is mean or sum, not '{reduction}'")
    segments, (rows, width) = len(offsets) - 1, x.shape
    # What follows the last step is counted in int32 as well.
    if rows + segments >= 2**31 - 2 * (span + block_t):
        raise ValueError(f"{rows} rows and {segments} segments: split x, together they pass 2**31")
    y = torch.empty((segments, width), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    offsets = offsets.to(torch.int32).contiguous()
    block_d = min(block_d, max(16, triton.next_power_of_2(width)))
    grid = (triton.cdiv(rows + segments, span), triton.cdiv(width, block_d))
    heads, tails = torch.empty((2, grid[0], width), dtype=torch.float32, device=x.device)
    cut = torch.empty(grid[0], dtype=torch.int32, device=x.device)
    mean = reduction == "mean"
    _spans_kernel[grid](
        offsets, x, y, heads, tails, cut,
        segments, rows, width, span, *x.stride(),
        MEAN=mean, BLOCK_T=block_t, BLOCK_D=block_d, num_warps=num_warps,
    )  # fmt: skip
    _join_kernel[grid](
        offsets, y, heads, tails, cut, width, span,
        MEAN=mean, BLOCK_P=16, BLOCK_D=block_d, num_warps=2,
    )  # fmt: skip
    return y


def reference(x: torch.Tensor, offsets: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    lengths = offsets.diff()
    place = torch.arange(len(lengths), device=x.device)
    place = torch.repeat_interleave(place, lengths, output_size=len(x))
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    total = wide.new_zeros((len(lengths), x.shape[1])).index_add_(0, place, wide)
    if reduction == "mean":
        total = total / lengths.clamp(min=1)[:, None]
    return total.to(x.dtype)


def library(x: torch.Tensor, offsets: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    return torch.segment_reduce(x, reduction, offsets=offsets.long(), initial=0)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [rows, columns, segments]; few segments have many of the rows, some have none."""
    rows, width, segments = size
    generator = torch.Generator(device=device).manual_seed(seed)
    # Of each row its segment: u**3 is much more often near 0.
    u = torch.rand(rows, device=device, generator=generator)
    segment = (u**3 * segments).long().clamp(max=segments - 1)
    # Long segments lie anywhere, not beside each other.
    place = torch.randperm(segments, device=device, generator=generator)
    offsets = torch.zeros(segments + 1, dtype=torch.int32, device=device)
    offsets[1:] = torch.bincount(place[segment], minlength=segments).cumsum(0)
    return [torch.randn((rows, width), dtype=dtype, device=device, generator=generator), offsets]
