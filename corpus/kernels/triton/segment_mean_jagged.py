"""
---
slug: segment-mean-jagged
title: Mean or sum of the segments of jagged data, equal ranges of rows for every program
op: segment-reduction
language: triton
techniques: [load-balancing, parallel-scan]
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
  - title: "Triton: triton.language.associative_scan"
    url: https://triton-lang.org/main/python-api/generated/triton.language.associative_scan.html
    licence: MIT
---

Segment s has the rows offsets[s] to offsets[s + 1] - 1 of the values: the tokens of a sequence, the
nodes of a graph, the items of a session. With a program for each segment, one that has a hundred
times the mean length still runs when the others have ended; segments of two rows leave most of a
tile empty.

Here every program takes `span` rows, whatever segments they are in, and finds their segments by
binary search in the offsets. A tile within one segment is added up; one that holds borders is
summed within segments by a segmented scan, which each thread does alone for its column. At the last
row of a segment its result is written.

A segment cut by a border between programs leaves float32 sums, of its begin and of its end; a
second kernel adds up those of each such segment, always in the same order, without atomics. A third
one writes zeros for segments without rows. Where all segments have about the same length, of a
hundred rows and more, a program for each of them does as well.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "span": [128, 256, 512, 1024],
    "block_t": [8, 16, 32],
    "block_d": [32, 64, 128],
    "num_warps": [1, 2, 4],
}


@triton.jit
def _binary_search(offsets_ptr, place, low, high):
    """The last segment from `low` to `high` whose offset is at most `place`, in its shape."""
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
def _add_within(segment_1, sum_1, segment_2, sum_2):
    """Sums of neighbours, added where both are in one segment."""
    return segment_2, tl.where(segment_1 == segment_2, sum_1 + sum_2, sum_2)


# Nothing is said of these numbers so that loads are not made wide: a thread has one column of all
# rows of a tile then, and scans them alone. A warp still reads 32 neighbouring columns at a time.
@triton.jit(do_not_specialize=["D", "stride_xt", "stride_xd"])
def _ranges_kernel(
    offsets_ptr, x_ptr, y_ptr, heads_ptr, tails_ptr, cut_ptr,
    S, T, D, span,
    stride_xt, stride_xd,
    MEAN: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """One range: `heads` and `tails` [ranges, D] are its sums of segments that began before it and
    that go on after it, `cut` the segment that goes on or -1."""
    pid = tl.program_id(0)
    d = (tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)).to(tl.int64)
    in_d = d < D
    item = tl.arange(0, BLOCK_T)
    begin = pid * span
    end = tl.minimum(begin + span, T)
    first = _binary_search(offsets_ptr, begin, 0, S - 1)
    last = _binary_search(offsets_ptr, end - 1, first, S - 1)
    # A segment that began before this range, or -1.
    older = tl.where(tl.load(offsets_ptr + first) < begin, first, -1)
    first_end = tl.load(offsets_ptr + first + 1)
    # The segment that the tile before left open, where it ends, and its sum so far.
    now = first
    now_end = first_end
    sums = tl.zeros((BLOCK_D,), dtype=tl.float32)
    # In a thread this comparison is known: it costs nothing.
    closes = (item == BLOCK_T - 1)[:, None]
    for start in tl.range(begin, end, BLOCK_T):
        t = start + item
        in_t = t < end
        x_at = t.to(tl.int64)[:, None] * stride_xt + d[None, :] * stride_xd
        x = tl.load(x_ptr + x_at, mask=in_t[:, None] & in_d[None, :], other=0.0).to(tl.float32)
        if now_end > start + BLOCK_T:
            sums += tl.sum(x, axis=0)
        else:
            # Past the end: zeros that belong to the last segment.
            segment = _binary_search(offsets_ptr, tl.minimum(t, end - 1), first, last)
            segments = tl.broadcast_to(segment[:, None], (BLOCK_T, BLOCK_D))
            x += tl.where((item == 0)[:, None] & (segments == now), sums[None, :], 0.0)
            segments, total = tl.associative_scan((segments, x), 0, _add_within)
            # -0.0 is what leaves every number as it is when added, so the compiler drops it.
            sums = tl.sum(tl.where(closes, total, -0.0), axis=0)
            segment_end = tl.load(offsets_ptr + segment + 1)
            ends = in_t & (segment_end == t + 1)
            result = total
            if MEAN:
                length = segment_end - tl.load(offsets_ptr + segment)
                result = total / tl.maximum(length, 1).to(tl.float32)[:, None]
            y_at = segment.to(tl.int64)[:, None] * D + d[None, :]
            mask = (ends & (segment > older))[:, None] & in_d[None, :]
            tl.store(y_ptr + y_at, result.to(y_ptr.dtype.element_ty), mask=mask)
            if (older >= 0) & (first_end > start) & (first_end <= tl.minimum(start + BLOCK_T, end)):
                head = ends & (segment == older)
                head_at = pid.to(tl.int64) * D + d[None, :] + (item * 0).to(tl.int64)[:, None]
                tl.store(heads_ptr + head_at, total, mask=head[:, None] & in_d[None, :])
            now = tl.max(segment, axis=0)
            now_end = tl.load(offsets_ptr + now + 1)
    goes_on = tl.load(offsets_ptr + last + 1) > end
    tl.store(cut_ptr + pid, tl.where(goes_on, last, -1))
    if goes_on:
        tl.store(tails_ptr + pid.to(tl.int64) * D + d, sums, mask=in_d)


@triton.jit
def _join_kernel(
    offsets_ptr, y_ptr, heads_ptr, tails_ptr, cut_ptr,
    D, span,
    MEAN: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Add up the segment that goes on after range `pid`, if it began in it."""
    pid = tl.program_id(0)
    segment = tl.load(cut_ptr + pid)
    if segment < 0:
        return
    begin = tl.load(offsets_ptr + segment)
    if begin // span != pid:
        return
    end = tl.load(offsets_ptr + segment + 1)
    # The range that holds the segment's last row.
    last = (end - 1) // span
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D).to(tl.int64)
    part = tl.arange(0, BLOCK_P)
    acc = tl.zeros((BLOCK_P, BLOCK_D), dtype=tl.float32)
    for start in tl.range(pid, last, BLOCK_P):
        at = (start + part).to(tl.int64)[:, None] * D + d[None, :]
        mask = (start + part < last)[:, None] & (d < D)[None, :]
        acc += tl.load(tails_ptr + at, mask=mask, other=0.0)
    total = tl.sum(acc, axis=0)
    total += tl.load(heads_ptr + last.to(tl.int64) * D + d, mask=d < D, other=0.0)
    if MEAN:
        total = total / (end - begin).to(tl.float32)
    tl.store(y_ptr + segment.to(tl.int64) * D + d, total.to(y_ptr.dtype.element_ty), mask=d < D)


@triton.jit
def _empty_segments_kernel(
    offsets_ptr, y_ptr, S, D, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr
):  # fmt: skip
    segment = tl.program_id(0) * BLOCK_S + tl.arange(0, BLOCK_S)
    in_s = segment < S
    begin = tl.load(offsets_ptr + segment, mask=in_s, other=0)
    end = tl.load(offsets_ptr + segment + 1, mask=in_s, other=1)
    empty = in_s & (begin == end)
    if tl.max(empty.to(tl.int32), axis=0) > 0:
        zeros = tl.zeros((BLOCK_S, BLOCK_D), dtype=y_ptr.dtype.element_ty)
        for start in tl.range(0, D, BLOCK_D):
            d = start + tl.arange(0, BLOCK_D)
            at = segment.to(tl.int64)[:, None] * D + d[None, :]
            tl.store(y_ptr + at, zeros, mask=empty[:, None] & (d < D)[None, :])


def kernel_function(
    x: torch.Tensor,
    offsets: torch.Tensor,
    reduction: str = "mean",
    span: int = 256,
    block_t: int = 16,
    block_d: int = 64,
    num_warps: int = 1,
) -> torch.Tensor:
    """The mean, or with reduction "sum" the sum, of each segment of `x` [T, D], any strides ->
    [S, D] in x's dtype; segments without rows give 0.

    `offsets` [S + 1], int32 or int64, does not decrease and goes from 0 to T, below 2**31. Sums are
    float32, in an order that depends on nothing but the offsets and parameters.
    """
    if x.ndim != 2 or offsets.ndim != 1 or not len(offsets) or len(x) >= 2**31 - span:
        raise ValueError(
            f"x [T, D] and offsets [S + 1]: not {list(x.shape)}, {list(offsets.shape)}"
        )
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction is mean or sum, not '{reduction}'")
    segments, (rows, width) = len(offsets) - 1, x.shape
    y = torch.empty((segments, width), dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    # Binary search compares in int32.
    offsets = offsets.to(torch.int32).contiguous()
    block_d = min(block_d, max(32, triton.next_power_of_2(width)))
    blocks_d = triton.cdiv(width, block_d)
    _empty_segments_kernel[(triton.cdiv(segments, 64),)](
        offsets, y, segments, width, BLOCK_S=64, BLOCK_D=block_d, num_warps=4
    )
    ranges = triton.cdiv(rows, span)
    if not ranges:
        return y
    heads, tails = torch.empty((2, ranges, width), dtype=torch.float32, device=x.device)
    cut = torch.empty(ranges, dtype=torch.int32, device=x.device)
    mean = reduction == "mean"
    _ranges_kernel[(ranges, blocks_d)](
        offsets, x, y, heads, tails, cut,
        segments, rows, width, span, *x.stride(),
        MEAN=mean, BLOCK_T=block_t, BLOCK_D=block_d, num_warps=num_warps,
    )  # fmt: skip
    _join_kernel[(ranges, blocks_d)](
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
