"""
---
slug: topk-rows-select
title: Top-k of rows by selection of the k-th value bit by bit, sorted at the end
op: top-k
language: triton
techniques: [register-caching, parallel-scan]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[3, 128, 4], [7, 100, 7], [2, 33, 33], [1, 300, 5]]
  bench: [8192, 32768, 64]
check_params: {chunk: 128}
sources:
  - title: "Alabi and others: Fast k-Selection Algorithms for Graphics Processing Units"
    url: https://doi.org/10.1145/2133803.2345676
    licence: proprietary
  - title: "PyTorch: torch.topk"
    url: https://docs.pytorch.org/docs/stable/generated/torch.topk.html
    licence: BSD-3-Clause
  - title: "Batcher: Sorting networks and their applications"
    url: https://doi.org/10.1145/1468075.1468121
    licence: proprietary
verified:
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 8192x32768x64
  dtype: bfloat16
  baseline: eager
  baseline_ms: 10.25
  measured_ms: 2.86
  speedup: 3.584
  floor_fraction: 0.06269
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 8192x32768x64
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 10.25
  measured_ms: 2.86
  speedup: 3.584
  floor_fraction: 0.06269
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 8192x32768x64
  dtype: bfloat16
  baseline: vendor library
  baseline_ms: 2.069
  measured_ms: 2.86
  speedup: 0.7234
  floor_fraction: 0.06269
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x32768x64
  dtype: bfloat16
  baseline: eager
  baseline_ms: 9.527
  measured_ms: 2.476
  speedup: 3.848
  floor_fraction: 0.05168
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x32768x64
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 9.524
  measured_ms: 2.476
  speedup: 3.847
  floor_fraction: 0.05168
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x32768x64
  dtype: bfloat16
  baseline: vendor library
  baseline_ms: 2.048
  measured_ms: 2.476
  speedup: 0.8271
  floor_fraction: 0.05168
---

The k largest (or smallest) of each row with their places, in order. A sort of the row would be
log2(N)^2 / 2 exchanges of all of it for k values. Here a row lies in registers, as integers of the
same order as its values, and the k-th largest is found bit by bit from the top: a bit is set if k
values at least are then as large. That is one comparison a value and one sum over the program for
each bit, as many bits as the input's dtype has significant ones (16 for bfloat16, 32 for float32).

What is larger than the k-th is taken, and of those equal to it the first ones; a running count over
the row gives each its place in a list of k. A second launch sorts the lists, one 64-bit number for
value and place each, so that of equal values the first stands first. Rows longer than `chunk` are
cut: the lists of their parts, one after another, are rows for the same kernel again.

NaN counts as the largest, as PyTorch has it.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"chunk": [4096, 8192, 16384, 32768], "num_warps": [8, 16, 32]}

# Elements that one thread can keep without spilling.
MAX_PER_THREAD = 32
# Of the sorted list: the network is unrolled by the compiler.
MAX_K = 1024
# Bits that float32 values from these dtypes have all equal at the lower end.
IDLE_BITS = {torch.bfloat16: 16, torch.float16: 13, torch.float32: 0}


@triton.jit
def _ordered(x, LARGEST: tl.constexpr):
    """float32 as int32 of the same order (or the reverse); NaN is the largest."""
    # Both zeros are equal.
    bits = tl.where(x == 0.0, 0.0, x).to(tl.int32, bitcast=True)
    key = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    key = tl.where(x != x, 0x7FFFFFFF, key)
    return key if LARGEST else ~key


@triton.jit
def _select_kernel(
    x_ptr, places_ptr, keys_out, places_out, N, parts, chunk, k, stride_xm, stride_xn,
    LARGEST: tl.constexpr, HAS_PLACES: tl.constexpr, IDLE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Keys and places of the `k` best of a chunk of a row, in the order of the row."""
    # Row times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    row = (tl.program_id(0) // parts).to(tl.int64)
    first = (tl.program_id(0) % parts) * chunk
    i = tl.arange(0, BLOCK)
    n = first + i
    valid = (i < chunk) & (n < N)
    x_at = x_ptr + row * stride_xm + n.to(tl.int64) * stride_xn
    if HAS_PLACES:
        key = tl.load(x_at, mask=valid, other=-2147483648)
        place = tl.load(places_ptr + row * N + n, mask=valid, other=0)
    else:
        x = tl.load(x_at, mask=valid, other=0.0).to(tl.float32)
        key = tl.where(valid, _ordered(x, LARGEST), -2147483648)
        place = n
    wanted = tl.minimum(k, tl.minimum(chunk, N - first))
    # The highest bit turns the lowest integer into zero; the others are set where they are clear.
    threshold = tl.full((), -2147483648, tl.int32)
    one = tl.full((), 1, tl.int32)
    for step in tl.range(0, 32 - IDLE):
        tried = threshold ^ (one << (31 - step))
        enough = tl.sum((valid & (key >= tried)).to(tl.int32), axis=0) >= wanted
        threshold = tl.where(enough, tried, threshold)
    # Idle bits are all clear, or all set in the keys of negative values.
    above = valid & (key > (threshold | ((1 << IDLE) - 1)))
    equal = valid & (key >= threshold) & (key <= (threshold | ((1 << IDLE) - 1)))
    missing = wanted - tl.sum(above.to(tl.int32), axis=0)
    taken = above | (equal & (tl.cumsum(equal.to(tl.int32), axis=0) <= missing))
    at = tl.cumsum(taken.to(tl.int32), axis=0) - 1
    out = tl.program_id(0).to(tl.int64) * k + at
    tl.store(keys_out + out, key, mask=taken)
    tl.store(places_out + out, place, mask=taken)
    # A chunk shorter than k leaves the rest of its list empty.
    rest = tl.program_id(0).to(tl.int64) * k + i
    tl.store(
        keys_out + rest, tl.full((BLOCK,), -2147483648, tl.int32), mask=(i >= wanted) & (i < k)
    )
    tl.store(
        places_out + rest, tl.full((BLOCK,), 2147483647, tl.int32), mask=(i >= wanted) & (i < k)
    )


@triton.jit
def _sort_kernel(
    keys_ptr, places_ptr, values_out, places_out, rows, k,
    LARGEST: tl.constexpr, ROWS: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    i = tl.arange(0, BLOCK_K)[None, :]
    mask = (row < rows) & (i < k)
    key = tl.load(keys_ptr + row * k + i, mask=mask, other=-2147483648)
    place = tl.load(places_ptr + row * k + i, mask=mask, other=2147483647)
    # Of equal keys the smaller place is the larger number.
    pair = (key.to(tl.int64) << 32) | (2147483647 - place).to(tl.int64)
    pair = tl.sort(pair, dim=1, descending=True)
    key = (pair >> 32).to(tl.int32)
    place = 2147483647 - (pair & 0x7FFFFFFF)
    if not LARGEST:
        key = ~key
    bits = key ^ ((key >> 31) & 0x7FFFFFFF)
    value = bits.to(tl.float32, bitcast=True)
    tl.store(values_out + row * k + i, value.to(values_out.dtype.element_ty), mask=mask)
    tl.store(places_out + row * k + i, place, mask=mask)


def kernel_function(
    x: torch.Tensor,
    k: int,
    largest: bool = True,
    chunk: int = 8192,
    num_warps: int = 16,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the `k` largest (or smallest) values of `x` [..., N] along its last dimension, in
    order, and their places, int64: both [..., k]. Of equal values the first is taken.

    `k` is at most MAX_K; `num_warps` is raised where a chunk needs more registers.
    """
    if x.dtype not in IDLE_BITS or x.dim() == 0:
        raise ValueError(f"x must be floats of 16 or 32 bits, not {x.dtype} {list(x.shape)}")
    length = x.shape[-1]
    if not 0 < k <= min(length, MAX_K):
        raise ValueError(f"k must be 1 to {min(length, MAX_K)} for rows of {length}, not {k}")
    rows = x.reshape(x.shape[:-1].numel(), length)  # a view wherever the strides allow one
    count = rows.shape[0]
    values = torch.empty((*x.shape[:-1], k), dtype=x.dtype, device=x.device)
    places = torch.empty(values.shape, dtype=torch.int64, device=x.device)
    if not count:
        return values, places
    # Parts of at least two lists, so that each round leaves fewer.
    chunk = max(min(chunk, triton.next_power_of_2(length)), 2 * triton.next_power_of_2(k))
    source, found = rows, None
    while True:
        chunk = min(chunk, triton.next_power_of_2(source.shape[1]))
        parts = triton.cdiv(source.shape[1], chunk)
        keys = torch.empty((count, parts * k), dtype=torch.int32, device=x.device)
        new = torch.empty_like(keys)
        _select_kernel[(count * parts,)](
            source, found, keys, new, source.shape[1], parts, chunk, k, *source.stride(),
            LARGEST=largest, HAS_PLACES=found is not None, IDLE=IDLE_BITS[x.dtype],
            BLOCK=chunk, num_warps=max(num_warps, min(32, chunk // (32 * MAX_PER_THREAD))),
        )  # fmt: skip
        source, found = keys, new
        if parts == 1:
            break
    block_k = triton.next_power_of_2(k)
    high = max(1, min(1024 // block_k, triton.next_power_of_2(count)))
    _sort_kernel[(triton.cdiv(count, high),)](
        source, found, values, places, count, k,
        LARGEST=largest, ROWS=high, BLOCK_K=block_k, num_warps=4,
    )  # fmt: skip
    return values, places


def reference(x: torch.Tensor, k: int, largest: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    # Of equal values PyTorch's topk takes any; a stable sort takes the first.
    found = torch.sort(x, dim=-1, descending=largest, stable=True)
    return found.values[..., :k], found.indices[..., :k]


def library(x: torch.Tensor, k: int, largest: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    # Of equal values it takes any.
    return torch.topk(x, k, largest=largest)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [rows, row length, k]."""
    rows, length, k = size
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn((rows, length), dtype=dtype, device=device, generator=generator), k]
