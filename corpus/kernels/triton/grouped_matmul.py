"""
---
slug: grouped-matmul
title: Products of groups of rows with matrices of their own, one persistent launch
op: grouped-matmul
language: triton
techniques: [grouped-gemm, persistent-kernel, load-balancing, tensor-cores]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: grouped-matmul-plain
sizes:
  check: [[70, 40, 48, 4], [5, 33, 20, 3], [64, 64, 64, 1]]
  bench: [8192, 4096, 2048, 64]
check_params: {block_m: 32, block_n: 32, block_k: 32}
sources:
  - title: "PyTorch blog: accelerating MoEs with a Triton persistent grouped GEMM kernel"
    url: https://pytorch.org/blog/accelerating-moes-with-a-triton-persistent-cache-aware-grouped-gemm-kernel/
    licence: proprietary
  - title: "Triton tutorial: group GEMM"
    url: https://triton-lang.org/main/getting-started/tutorials/08-grouped-gemm.html
    licence: MIT
verified:
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 8192x4096x2048x64
  dtype: bfloat16
  baseline: grouped-matmul-plain
  baseline_ms: 1.913
  measured_ms: 0.4413
  speedup: 4.335
  floor_fraction: 0.8799
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 8192x4096x2048x64
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.586
  measured_ms: 0.4413
  speedup: 3.594
  floor_fraction: 0.8799
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 8192x4096x2048x64
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.342
  measured_ms: 0.4413
  speedup: 3.041
  floor_fraction: 0.8799
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 8192x4096x2048x64
  dtype: bfloat16
  baseline: vendor library
  baseline_ms: 0.553
  measured_ms: 0.4413
  speedup: 1.253
  floor_fraction: 0.8799
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x4096x2048x64
  dtype: bfloat16
  baseline: grouped-matmul-plain
  baseline_ms: 1.769
  measured_ms: 0.3565
  speedup: 4.962
  floor_fraction: 0.7775
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x4096x2048x64
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.369
  measured_ms: 0.3565
  speedup: 3.84
  floor_fraction: 0.7775
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x4096x2048x64
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.248
  measured_ms: 0.3565
  speedup: 3.501
  floor_fraction: 0.7775
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x4096x2048x64
  dtype: bfloat16
  baseline: vendor library
  baseline_ms: 0.4984
  measured_ms: 0.3565
  speedup: 1.398
  floor_fraction: 0.7775
---

y[rows of group g] = x[rows of group g] @ w[g], where group g has the rows offsets[g] to offsets[g
+ 1] - 1, as the experts of a mixture have their tokens. One program for each multiprocessor; the
tiles of all groups are numbered through, and program p does the tiles p, p + P, p + 2 P and so on.
So groups of any size share the GPU evenly, there is one launch and one tail, and the host need not
know the offsets.

A small kernel adds up the tile counts of the groups first. A program finds the group of its tile
by binary search in those sums. Within a group a column of tiles follows the rows first:
neighbouring programs then read the same part of w[g], which stays in L2.
"""

import itertools

import torch
import triton
import triton.language as tl

# Programs to start where there is no GPU to ask: few, so that each one gets several tiles.
CPU_PROGRAMS = 3

TUNABLES = {
    "block_m": [16, 32, 64, 128],
    "block_n": [64, 128, 256],
    "block_k": [32, 64],
    "programs_per_sm": [1, 2],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def _count_tiles_kernel(
    offsets_ptr, first_tile_ptr, groups, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    """first_tile[g] is the tiles of all groups before g; GROUPS: power of two > groups."""
    group = tl.arange(0, GROUPS)
    inside = group < groups
    begin = tl.load(offsets_ptr + group, mask=inside, other=0)
    end = tl.load(offsets_ptr + group + 1, mask=inside, other=0)
    tiles = tl.cdiv(end - begin, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    tl.store(first_tile_ptr + group + 1, tl.cumsum(tiles, axis=0), mask=inside)
    tl.store(first_tile_ptr + group, tl.zeros_like(tiles), mask=group == 0)


@triton.jit
def _binary_search(first_tile_ptr, tile, groups, STEPS: tl.constexpr):
    """The last group whose first tile is at most `tile`; 2**STEPS > groups."""
    low = tile * 0
    high = low + groups
    for _ in tl.static_range(STEPS):
        middle = (low + high) // 2
        right = tl.load(first_tile_ptr + middle) <= tile
        low = tl.where(right, middle, low)
        high = tl.where(right, high, tl.maximum(middle, low + 1))
    return low


@triton.jit
def _grouped_matmul_kernel(
    x_ptr, w_ptr, y_ptr, offsets_ptr, first_tile_ptr,
    groups, N, K,
    stride_xm, stride_xk, stride_wg, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SEARCH: tl.constexpr,
):  # fmt: skip
    depth = tl.arange(0, BLOCK_K)
    x_step = tl.full((), BLOCK_K, tl.int64) * stride_xk
    w_step = tl.full((), BLOCK_K, tl.int64) * stride_wk
    for tile in tl.range(tl.program_id(0), tl.load(first_tile_ptr + groups), tl.num_programs(0)):
        group = _binary_search(first_tile_ptr, tile, groups, SEARCH)
        begin = tl.load(offsets_ptr + group)
        end = tl.load(offsets_ptr + group + 1)
        within = tile - tl.load(first_tile_ptr + group)
        tiles_m = tl.cdiv(end - begin, BLOCK_M)
        rows = begin + (within % tiles_m) * BLOCK_M + tl.arange(0, BLOCK_M)
        cols = (within // tiles_m) * BLOCK_N + tl.arange(0, BLOCK_N)
        row_ok = rows[:, None] < end
        col_ok = cols[None, :] < N
        # Index times stride is taken in int64: it passes 2**31 on matrices of a few GB.
        rows64 = rows[:, None].to(tl.int64)
        cols64 = cols[None, :].to(tl.int64)
        x_ptrs = x_ptr + rows64 * stride_xm + depth[None, :].to(tl.int64) * stride_xk
        w_group = w_ptr + group.to(tl.int64) * stride_wg
        w_ptrs = w_group + depth[:, None].to(tl.int64) * stride_wk + cols64 * stride_wn
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in tl.range(0, K, BLOCK_K):
            in_k = depth < K - k
            x = tl.load(x_ptrs, mask=row_ok & in_k[None, :], other=0.0)
            w = tl.load(w_ptrs, mask=in_k[:, None] & col_ok, other=0.0)
            acc = tl.dot(x, w, acc, input_precision="tf32x3")
            x_ptrs += x_step
            w_ptrs += w_step
        y_ptrs = y_ptr + rows64 * stride_ym + cols64 * stride_yn
        tl.store(y_ptrs, acc.to(y_ptr.dtype.element_ty), mask=row_ok & col_ok)


def _programs(device: torch.device) -> int:
    if device.type != "cuda":
        return CPU_PROGRAMS
    return torch.cuda.get_device_properties(device).multi_processor_count


def kernel_function(
    x: torch.Tensor,
    w: torch.Tensor,
    offsets: torch.Tensor,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 64,
    programs_per_sm: int = 1,
    num_warps: int = 8,
    num_stages: int = 3,
) -> torch.Tensor:
    """`x` [T, K], rows sorted by group; `w` [G, K, N]; `offsets` int32 [G + 1], 0 to T -> [T, N].

    `block_k` is cut to 128 bytes a row, so that float32 tiles fit in shared memory as well.
    """
    groups, k, n = w.shape
    if x.ndim != 2 or x.shape[1] != k or offsets.shape != (groups + 1,) or x.dtype != w.dtype:
        raise ValueError(f"x {list(x.shape)}, w {list(w.shape)}, {list(offsets.shape)} do not fit")
    y = torch.empty((x.shape[0], n), dtype=x.dtype, device=x.device)
    block_k = min(block_k, 128 // x.element_size())
    if x.dtype == torch.bfloat16 and not x.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        x, w = x.float(), w.float()
    offsets = offsets.contiguous()
    first_tile = torch.empty(groups + 1, dtype=torch.int32, device=x.device)
    _count_tiles_kernel[(1,)](
        offsets, first_tile, groups, n,
        BLOCK_M=block_m, BLOCK_N=block_n, GROUPS=triton.next_power_of_2(groups + 1),
        num_warps=4,
    )  # fmt: skip
    _grouped_matmul_kernel[(_programs(x.device) * programs_per_sm,)](
        x, w, y, offsets, first_tile,
        groups, n, k,
        *x.stride(), *w.stride(), *y.stride(),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, SEARCH=groups.bit_length(),
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return y


def reference(x: torch.Tensor, w: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    bounds = offsets.tolist()
    pairs = itertools.pairwise(bounds)
    return torch.cat([x[begin:end] @ w[group] for group, (begin, end) in enumerate(pairs)])


def library(x: torch.Tensor, w: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    # Public as torch.nn.functional.grouped_mm in later versions.
    return torch._grouped_mm(x, w, offs=offsets[1:])


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [rows, K, N, groups]; the groups' sizes are uneven, some may be empty."""
    rows, k, n, groups = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn((rows, k), dtype=dtype, device=device, generator=generator)
    w = torch.randn((groups, k, n), dtype=dtype, device=device, generator=generator)
    cuts = torch.rand(groups - 1, device=device, generator=generator).sort().values
    offsets = torch.zeros(groups + 1, dtype=torch.int32, device=device)
    offsets[1:-1] = (cuts * rows).to(torch.int32)
    offsets[-1] = rows
    return [x, w, offsets]
