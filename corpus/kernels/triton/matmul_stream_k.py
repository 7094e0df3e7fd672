"""
---
slug: matmul-stream-k
title: Matrix product with equal shares of main-loop steps for every program
op: matmul
language: triton
techniques: [stream-k, wave-quantization, tensor-cores]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: matmul-plain
sizes:
  check: [[96, 64, 64], [33, 45, 70], [1, 150, 40]]
  bench: [2304, 2048, 4096]
check_params: {block_m: 32, block_n: 32, block_k: 32}
sources:
  - title: "Osama et al.: Stream-K, work-centric parallel decomposition for dense matrix products"
    url: https://arxiv.org/abs/2301.03598
    licence: proprietary
  - title: "CUTLASS: Efficient GEMM in CUDA, stream-K"
    url: https://github.com/NVIDIA/cutlass/blob/main/media/docs/efficient_gemm.md
    licence: BSD-3-Clause
  - title: "Triton tutorial: matrix multiplication"
    url: https://triton-lang.org/main/getting-started/tutorials/03-matrix-multiplication.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 2304x2048x4096
  dtype: bfloat16
  baseline: matmul-plain
  baseline_ms: 0.09216
  measured_ms: 0.07837
  speedup: 1.176
  floor_fraction: 0.6162
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 2304x2048x4096
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.05382
  measured_ms: 0.07837
  speedup: 0.6867
  floor_fraction: 0.6162
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 2304x2048x4096
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.05389
  measured_ms: 0.07837
  speedup: 0.6876
  floor_fraction: 0.6162
---

C = A @ B for shapes whose tiles fill no whole number of waves: 144 tiles on 132 multiprocessors
would take as long as 264. Whole waves of tiles are done one tile a program. What remains, with one
whole wave added so that shares are long enough, is numbered through step by step of the K loop and
cut into as many equal shares as there are programs.

A share covers the end of one tile, some whole tiles and the beginning of another. A program that
does the whole of a tile stores it; one that does a part writes it to a float32 workspace: slot 0
of the program if the part is the tile's end, slot 1 if it begins there. A second kernel adds up
the parts of each shared tile in the order of the programs, so the result is the same at every run.
Nobody waits for a flag, as the launch order of the two kernels stands for it.

The workspace has 2 * programs * BLOCK_M * BLOCK_N values, which L2 holds.
"""

import torch
import triton
import triton.language as tl

# Shares to cut where there is no GPU to ask: enough that, in the CPU interpreter, tiles are shared.
CPU_PROGRAMS = 4

TUNABLES = {
    "block_m": [64, 128, 256],
    "block_n": [64, 128, 256],
    "block_k": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def _steps(
    a_ptr, b_ptr, tile, first, last,
    M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Steps [first, last) of one tile of the product, in float32."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = (tile // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tile % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    row_ok = rows[:, None] < M
    col_ok = cols[None, :] < N
    depth = tl.arange(0, BLOCK_K)
    # Index times stride is taken in int64: it passes 2**31 on matrices of a few GB.
    depth64 = (first * BLOCK_K + depth).to(tl.int64)
    a_ptrs = a_ptr + rows[:, None].to(tl.int64) * stride_am + depth64[None, :] * stride_ak
    b_ptrs = b_ptr + depth64[:, None] * stride_bk + cols[None, :].to(tl.int64) * stride_bn
    a_step = tl.full((), BLOCK_K, tl.int64) * stride_ak
    b_step = tl.full((), BLOCK_K, tl.int64) * stride_bk
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(first * BLOCK_K, last * BLOCK_K, BLOCK_K):
        in_k = depth < K - k
        a = tl.load(a_ptrs, mask=row_ok & in_k[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=in_k[:, None] & col_ok, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="tf32x3")
        a_ptrs += a_step
        b_ptrs += b_step
    return acc


@triton.jit
def _store_tile(
    c_ptr, acc, tile, M, N, stride_cm, stride_cn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = (tile // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tile % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    at = rows[:, None].to(tl.int64) * stride_cm + cols[None, :].to(tl.int64) * stride_cn
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptr + at, acc.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _whole_tiles_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    acc = _steps(
        a_ptr, b_ptr, tile, 0, tl.cdiv(K, BLOCK_K), M, N, K,
        stride_am, stride_ak, stride_bk, stride_bn, BLOCK_M, BLOCK_N, BLOCK_K,
    )  # fmt: skip
    _store_tile(c_ptr, acc, tile, M, N, stride_cm, stride_cn, BLOCK_M, BLOCK_N)


@triton.jit
def _stream_k_kernel(
    a_ptr, b_ptr, c_ptr, parts_ptr,
    M, N, K, first_tile, tiles,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Program p does its share of the steps of tiles [first_tile, first_tile + tiles)."""
    program = tl.program_id(0)
    per_tile = tl.cdiv(K, BLOCK_K)
    steps = tl.full((), 1, tl.int64) * tiles * per_tile
    step = (program * steps // tl.num_programs(0)).to(tl.int32)
    end = ((program + 1) * steps // tl.num_programs(0)).to(tl.int32)
    inside = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    while step < end:
        tile = step // per_tile
        begin = step - tile * per_tile
        stop = tl.minimum(per_tile, end - tile * per_tile)
        acc = _steps(
            a_ptr, b_ptr, first_tile + tile, begin, stop, M, N, K,
            stride_am, stride_ak, stride_bk, stride_bn, BLOCK_M, BLOCK_N, BLOCK_K,
        )  # fmt: skip
        if (begin == 0) & (stop == per_tile):
            _store_tile(c_ptr, acc, first_tile + tile, M, N, stride_cm, stride_cn, BLOCK_M, BLOCK_N)
        else:
            # A part that begins inside its tile is the program's first; one from 0 on its last.
            slot = program.to(tl.int64) * 2 + (begin == 0).to(tl.int64)
            tl.store(parts_ptr + slot * (BLOCK_M * BLOCK_N) + inside, acc)
        step += stop - begin


@triton.jit
def _fix_up_kernel(
    parts_ptr, c_ptr,
    M, N, K, first_tile, tiles, programs,
    stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Adds up the parts of one tile, if it was shared."""
    tile = tl.program_id(0)
    per_tile = tl.cdiv(K, BLOCK_K)
    steps = tl.full((), 1, tl.int64) * tiles * per_tile
    first_step = tile.to(tl.int64) * per_tile
    # The program that has a step s is the last whose first step is at most s.
    low = ((first_step + 1) * programs - 1) // steps
    high = ((first_step + per_tile) * programs - 1) // steps
    if low != high:
        inside = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for program in tl.range(low, high + 1):
            begins = program * steps // programs <= first_step
            slot = program * 2 + begins.to(tl.int64)
            acc += tl.load(parts_ptr + slot * (BLOCK_M * BLOCK_N) + inside)
        _store_tile(c_ptr, acc, first_tile + tile, M, N, stride_cm, stride_cn, BLOCK_M, BLOCK_N)


def _programs(device: torch.device) -> int:
    if device.type != "cuda":
        return CPU_PROGRAMS
    return torch.cuda.get_device_properties(device).multi_processor_count


def kernel_function(
    a: torch.Tensor,
    b: torch.Tensor,
    block_m: int = 128,
    block_n: int = 256,
    block_k: int = 64,
    num_warps: int = 8,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return `a @ b`: `a` [M, K] and `b` [K, N] of one dtype, any strides -> [M, N] of that dtype.

    `block_k` is cut to 128 bytes a row, and for float32 `block_n` to 128, so that tiles fit in
    shared memory and registers.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(f"cannot multiply {a.dtype} {list(a.shape)} by {b.dtype} {list(b.shape)}")
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    if c.numel() == 0 or k == 0:
        return c.zero_()
    block_k = min(block_k, 128 // a.element_size())
    block_n = min(block_n, 128) if a.dtype == torch.float32 else block_n
    if a.dtype == torch.bfloat16 and not a.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        a, b = a.float(), b.float()
    tiles = triton.cdiv(m, block_m) * triton.cdiv(n, block_n)
    programs = _programs(a.device)
    # All waves but the last full one are plain tiles; that one and the remainder are shared out.
    whole_waves = max(tiles // programs - 1, 0) if tiles % programs else tiles // programs
    whole = whole_waves * programs
    blocks = {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "num_warps": num_warps}
    if whole:
        _whole_tiles_kernel[(whole,)](
            a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(),
            num_stages=num_stages, **blocks,
        )  # fmt: skip
    shared = tiles - whole
    if shared:
        parts = torch.empty((programs, 2, block_m, block_n), dtype=torch.float32, device=a.device)
        shares = min(programs, shared * triton.cdiv(k, block_k))
        _stream_k_kernel[(shares,)](
            a, b, c, parts, m, n, k, whole, shared, *a.stride(), *b.stride(), *c.stride(),
            num_stages=num_stages, **blocks,
        )  # fmt: skip
        _fix_up_kernel[(shared,)](
            parts, c, m, n, k, whole, shared, shares, *c.stride(), **blocks
        )  # fmt: skip
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
