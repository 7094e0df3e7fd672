"""
---
slug: matmul-persistent
title: Persistent matrix product, one program per multiprocessor loops over tiles
op: matmul
language: triton
techniques: [persistent-kernel, pid-swizzling, tensor-cores]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: matmul-swizzled
sizes:
  check: [[96, 64, 64], [33, 45, 70], [1, 150, 40]]
  bench: [8192, 8192, 1024]
check_params: {block_m: 32, block_n: 32, block_k: 32, group_m: 2}
sources:
  - title: "Triton tutorial: persistent matmul"
    url: https://triton-lang.org/main/getting-started/tutorials/09-persistent-matmul.html
    licence: MIT
  - title: "Triton: triton.language.range"
    url: https://triton-lang.org/main/python-api/generated/triton.language.range.html
    licence: MIT
  - title: "Triton: triton.language.swizzle2d"
    url: https://triton-lang.org/main/python-api/generated/triton.language.swizzle2d.html
    licence: MIT
verified:
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 8192x8192x1024
  dtype: bfloat16
  baseline: matmul-swizzled
  baseline_ms: 0.2205
  measured_ms: 0.2305
  speedup: 0.9566
  floor_fraction: 0.7518
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 8192x8192x1024
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1911
  measured_ms: 0.2305
  speedup: 0.8291
  floor_fraction: 0.7518
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 8192x8192x1024
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1911
  measured_ms: 0.2305
  speedup: 0.8291
  floor_fraction: 0.7518
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x8192x1024
  dtype: bfloat16
  baseline: matmul-swizzled
  baseline_ms: 0.2209
  measured_ms: 0.2298
  speedup: 0.9613
  floor_fraction: 0.7779
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x8192x1024
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1989
  measured_ms: 0.2298
  speedup: 0.8655
  floor_fraction: 0.7779
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x8192x1024
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.199
  measured_ms: 0.2298
  speedup: 0.866
  floor_fraction: 0.7779
---

C = A @ B with as many programs as the GPU has multiprocessors. Each one takes every P-th tile (P
is the number of programs) until none is left, so launch and set-up are paid once a multiprocessor,
not once a tile.

`flatten=True` folds the loop over tiles and the loop over K into one loop for the compiler's
pipeliner: the first loads of the next tile are issued while the last products of this one still
run, so the pipeline is filled and drained once, not at every tile. Tiles are visited in grouped
order (`swizzle2d`), and because all programs advance in step the tiles in flight stay neighbours
in L2.

The gain is largest where K is short and the set-up of a tile weighs most. A last wave that is not
full remains: 140 tiles on 132 multiprocessors take as long as 264.
"""

import torch
import triton
import triton.language as tl

# Programs to start where there is no GPU to ask: few, so that in the CPU interpreter, too, each one
# gets several tiles.
CPU_PROGRAMS = 2

TUNABLES = {
    "block_m": [64, 128, 256],
    "block_n": [64, 128, 256],
    "block_k": [32, 64],
    "group_m": [4, 8, 16],
    "programs_per_sm": [1, 2],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def _matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    NUM_PROGRAMS: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    depth64 = depth.to(tl.int64)
    a_step = tl.full((), BLOCK_K, tl.int64) * stride_ak
    b_step = tl.full((), BLOCK_K, tl.int64) * stride_bk

    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, NUM_PROGRAMS, flatten=True):
        tile_m, tile_n = tl.swizzle2d(tile // tiles_n, tile % tiles_n, tiles_m, tiles_n, GROUP_M)
        rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
        cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        row_ok = rows[:, None] < M
        col_ok = cols[None, :] < N
        # Index times stride is taken in int64: it passes 2**31 on matrices of a few GB.
        rows64 = rows[:, None].to(tl.int64)
        cols64 = cols[None, :].to(tl.int64)
        a_ptrs = a_ptr + rows64 * stride_am + depth64[None, :] * stride_ak
        b_ptrs = b_ptr + depth64[:, None] * stride_bk + cols64 * stride_bn

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


def _sm_count(device: torch.device) -> int:
    if device.type != "cuda":
        return CPU_PROGRAMS
    return torch.cuda.get_device_properties(device).multi_processor_count


def kernel_function(
    a: torch.Tensor,
    b: torch.Tensor,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 64,
    group_m: int = 8,
    programs_per_sm: int = 1,
    num_warps: int = 8,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return `a @ b`: `a` [M, K] and `b` [K, N] of one dtype, any strides -> [M, N] of that dtype.

    `block_k` is cut to 128 bytes a row, so that float32 tiles fit in shared memory as well.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(f"cannot multiply {a.dtype} {list(a.shape)} by {b.dtype} {list(b.shape)}")
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    block_k = min(block_k, 128 // a.element_size())
    if a.dtype == torch.bfloat16 and not a.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        a, b = a.float(), b.float()
    tiles = triton.cdiv(m, block_m) * triton.cdiv(n, block_n)
    # Always the same constant on one GPU, also for few tiles: a kernel is compiled for each value.
    programs = programs_per_sm * _sm_count(a.device)
    _matmul_kernel[(min(programs, tiles),)](
        a, b, c,
        m, n, k,
        *a.stride(), *b.stride(), *c.stride(),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=group_m,
        NUM_PROGRAMS=programs,
        num_warps=num_warps, num_stages=num_stages,
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
