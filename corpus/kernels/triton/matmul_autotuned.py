"""
---
slug: matmul-autotuned
title: Matrix product whose tile sizes a pruned, measured search chooses
op: matmul
language: triton
techniques: [autotuning, pid-swizzling, tensor-cores]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: matmul-plain
sizes:
  check: [[96, 64, 64], [33, 45, 70], [1, 77, 40]]
  bench: [4096, 4096, 4096]
check_params: {block_m: 32, block_n: 32, block_k: 32, group_m: 2}
sources:
  - title: "Triton tutorial: matrix multiplication"
    url: https://triton-lang.org/main/getting-started/tutorials/03-matrix-multiplication.html
    licence: MIT
  - title: "Triton: triton.testing.do_bench"
    url: https://triton-lang.org/main/python-api/generated/triton.testing.do_bench.html
    licence: MIT
  - title: "Triton: triton.autotune"
    url: https://triton-lang.org/main/python-api/generated/triton.autotune.html
    licence: MIT
  - title: "Triton: triton.language.swizzle2d"
    url: https://triton-lang.org/main/python-api/generated/triton.language.swizzle2d.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 4096x4096x4096
  dtype: bfloat16
  baseline: matmul-plain
  baseline_ms: 0.2252
  measured_ms: 0.1858
  speedup: 1.212
  floor_fraction: 0.9181
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 4096x4096x4096
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1782
  measured_ms: 0.1858
  speedup: 0.9591
  floor_fraction: 0.9181
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 4096x4096x4096
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1782
  measured_ms: 0.1858
  speedup: 0.9591
  floor_fraction: 0.9181
---

C = A @ B where the tile shape, the number of warps and the pipeline depth are found by measuring.
No tile is best everywhere: a large one reuses more of what it loads but leaves multiprocessors
idle on a small C, needs more shared memory and registers, and wastes work at ragged edges.

The search is explicit, so that every step can be read and replaced: all combinations of
`TUNABLES`; without those that cannot run (shared memory, registers) or are plainly wasteful (tiles
far larger than C, more stages than K tiles); one tile of each of the most promising shapes timed,
by a two-term estimate; then whatever differs from the fastest in a single parameter; the winner
kept for this shape, dtype, layout and GPU. The first call for a new key therefore takes seconds,
and never happens while a CUDA graph is captured. Without a GPU, or with `tune=False`, the tile
given in the arguments is used; it is also always one of those timed.
"""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.runtime.errors import OutOfResources, PTXASError

TUNABLES = {
    "block_m": [64, 128, 256],
    "block_n": [64, 128, 256],
    "block_k": [32, 64, 128],
    "group_m": [4, 8],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
    "tune": [True, False],
}

# Tile shapes timed in the first round. Compiling dominates the cost of a search, and the estimate
# tells good shapes from bad ones but not the best of the good.
SHAPES_TIMED = 6
# float32 accumulators that a thread can hold beside addresses and operands, out of 255 registers.
MAX_ACCUMULATORS_PER_THREAD = 128
# Rates of one multiprocessor for the estimate, of an H100: 16-bit multiply-adds on tensor cores and
# bytes from L2, both per clock. Only their ratio matters.
MULTIPLY_ADDS_PER_CLOCK = 2048
L2_BYTES_PER_CLOCK = 64


class Tile(NamedTuple):
    """One point of the search space."""

    block_m: int
    block_n: int
    block_k: int
    group_m: int
    num_warps: int
    num_stages: int


class Limits(NamedTuple):
    """What the search needs to know about a GPU."""

    multiprocessors: int
    shared_memory_bytes: int
    """The most that one program can have."""


_best_tiles: dict[tuple[object, ...], Tile] = {}


@triton.jit
def _matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    pid_m, pid_n = tl.swizzle2d(pid // tiles_n, pid % tiles_n, tiles_m, tiles_n, GROUP_M)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    row_ok = rows[:, None] < M
    col_ok = cols[None, :] < N

    # Index times stride is taken in int64: it passes 2**31 on matrices of a few GB.
    rows64 = rows[:, None].to(tl.int64)
    cols64 = cols[None, :].to(tl.int64)
    depth64 = depth.to(tl.int64)
    a_ptrs = a_ptr + rows64 * stride_am + depth64[None, :] * stride_ak
    b_ptrs = b_ptr + depth64[:, None] * stride_bk + cols64 * stride_bn
    a_step = tl.full((), BLOCK_K, tl.int64) * stride_ak
    b_step = tl.full((), BLOCK_K, tl.int64) * stride_bk

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K):
        in_k = depth < K - k
        a = tl.load(a_ptrs, mask=row_ok & in_k[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=in_k[:, None] & col_ok, other=0.0)
        # float32 operands: three TF32 products keep float32 accuracy on tensor cores. 16-bit
        # operands ignore the setting.
        acc = tl.dot(a, b, acc, input_precision="tf32x3")
        a_ptrs += a_step
        b_ptrs += b_step

    c_ptrs = c_ptr + rows64 * stride_cm + cols64 * stride_cn
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=row_ok & col_ok)


def _launch(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, tile: Tile) -> None:
    (m, k), n = a.shape, b.shape[1]
    grid = (triton.cdiv(m, tile.block_m) * triton.cdiv(n, tile.block_n),)
    _matmul_kernel[grid](
        a, b, c,
        m, n, k,
        *a.stride(), *b.stride(), *c.stride(),
        BLOCK_M=tile.block_m, BLOCK_N=tile.block_n, BLOCK_K=tile.block_k, GROUP_M=tile.group_m,
        num_warps=tile.num_warps, num_stages=tile.num_stages,
    )  # fmt: skip


def can_pay(tile: Tile, m: int, n: int, k: int, element_size: int, limits: Limits) -> bool:
    """Whether `tile` can run on the GPU and is not plainly wasteful for [m, k] x [k, n]."""
    stage = (tile.block_m + tile.block_n) * tile.block_k * element_size
    accumulators = tile.block_m * tile.block_n // (32 * tile.num_warps)
    smallest_m, smallest_n = min(TUNABLES["block_m"]), min(TUNABLES["block_n"])
    return (
        tile.num_stages * stage <= limits.shared_memory_bytes
        and accumulators <= MAX_ACCUMULATORS_PER_THREAD
        and (tile.block_m == smallest_m or tile.block_m < 2 * m)
        and (tile.block_n == smallest_n or tile.block_n < 2 * n)
        and tile.num_stages <= max(2, triton.cdiv(k, tile.block_k))
    )


def estimated_clocks(tile: Tile, m: int, n: int, element_size: int, limits: Limits) -> float:
    """Clocks for one step along K: waves of tiles times the slower of arithmetic and loading."""
    tiles = triton.cdiv(m, tile.block_m) * triton.cdiv(n, tile.block_n)
    waves = math.ceil(tiles / limits.multiprocessors)
    arithmetic = tile.block_m * tile.block_n * (element_size / 2) / MULTIPLY_ADDS_PER_CLOCK
    loading = (tile.block_m + tile.block_n) * element_size / L2_BYTES_PER_CLOCK
    return waves * max(arithmetic, loading)


def first_round(m: int, n: int, k: int, element_size: int, limits: Limits) -> list[Tile]:
    """One tile of each of the `SHAPES_TIMED` most promising shapes, the best estimate first."""
    space = (Tile(*values) for values in itertools.product(*(TUNABLES[f] for f in Tile._fields)))
    possible = [tile for tile in space if can_pay(tile, m, n, k, element_size, limits)]
    # Within a shape the tile with most K in flight speaks for it.
    possible.sort(key=lambda tile: tile.num_stages * tile.block_k)
    of_shape = {(tile.block_m, tile.block_n): tile for tile in possible}
    ranked = sorted(
        of_shape.values(), key=lambda tile: estimated_clocks(tile, m, n, element_size, limits)
    )
    return ranked[:SHAPES_TIMED]


def neighbours(tile: Tile) -> list[Tile]:
    """The tiles that differ from `tile` in one parameter."""
    return [
        tile._replace(**{name: value})
        for name in Tile._fields
        for value in TUNABLES[name]
        if value != getattr(tile, name)
    ]


def median_ms(launch: Callable[[], None]) -> float:
    """Median time of a launch in milliseconds, with a cold L2 before each run."""
    return triton.testing.do_bench(launch, warmup=5, rep=20, return_mode="median")


def search(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    incumbent: Tile,
    limits: Limits,
    measure: Callable[[Callable[[], None]], float] = median_ms,
) -> list[tuple[float, Tile]]:
    """Time `incumbent`, the first round and the winner's neighbours.

    Returns (milliseconds, tile), the fastest first.
    """
    problem = (a.shape[0], b.shape[1], a.shape[1], a.element_size(), limits)
    timed: dict[Tile, float] = {}

    def time_new(tiles: list[Tile]) -> None:
        for tile in tiles:
            if tile not in timed:
                # What cannot run after all, by its real use of resources, loses.
                with contextlib.suppress(OutOfResources, PTXASError):
                    timed[tile] = measure(functools.partial(_launch, a, b, c, tile))

    time_new([incumbent, *first_round(*problem)])
    if timed:
        best = min(timed, key=timed.__getitem__)
        time_new([tile for tile in neighbours(best) if can_pay(tile, *problem)])
    return sorted((milliseconds, tile) for tile, milliseconds in timed.items())


def _limits(device: torch.device) -> Limits:
    properties = triton.runtime.driver.active.utils.get_device_properties(device.index or 0)
    return Limits(properties["multiprocessor_count"], properties["max_shared_mem"])


def _tuned_tile(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, given: Tile) -> Tile:
    gpu = torch.cuda.get_device_name(a.device)
    key = (a.shape, b.shape, a.stride(), b.stride(), a.dtype, gpu)
    if key not in _best_tiles:
        if torch.cuda.is_current_stream_capturing():
            return given  # timing would end up in the graph
        timed = search(a, b, c, given, _limits(a.device))
        _best_tiles[key] = timed[0][1] if timed else given
    return _best_tiles[key]


def kernel_function(
    a: torch.Tensor,
    b: torch.Tensor,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 64,
    group_m: int = 8,
    num_warps: int = 8,
    num_stages: int = 3,
    tune: bool = True,
) -> torch.Tensor:
    """Return `a @ b`: `a` [M, K] and `b` [K, N] of one dtype, any strides -> [M, N] of that dtype.

    With `tune`, and on a GPU, the first call for a shape searches and the others use what it found.
    Else `block_k` is cut to 256 bytes a row, so that float32 tiles fit in Hopper's shared memory.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(f"cannot multiply {a.dtype} {list(a.shape)} by {b.dtype} {list(b.shape)}")
    c = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    block_k = min(block_k, 256 // a.element_size())
    if a.dtype == torch.bfloat16 and not a.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        a, b = a.float(), b.float()
    tile = Tile(block_m, block_n, block_k, group_m, num_warps, num_stages)
    if tune and a.is_cuda and 0 not in (*a.shape, *b.shape):
        tile = _tuned_tile(a, b, c, tile)
    _launch(a, b, c, tile)
    return c


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N, K]."""
    m, n, k = size
    generator = torch.Generator(device=device).manual_seed(seed)
    return [
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((m, k), (k, n))
    ]
