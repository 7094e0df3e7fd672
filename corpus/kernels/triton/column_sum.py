"""
---
slug: column-sum
title: Column sums in two passes, with the slab height and warps to tune
op: column-sum
language: triton
techniques: [occupancy-tuning]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[64, 64], [70, 45], [1, 33]]
  bench: [65536, 8192]
check_params: {rows_per_program: 32, block_m: 16, block_n: 32}
sources:
  - title: "Triton: triton.language.sum"
    url: https://triton-lang.org/main/python-api/generated/triton.language.sum.html
    licence: MIT
  - title: "CUDA C++ Best Practices Guide"
    url: https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 65536x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.2642
  measured_ms: 0.2422
  speedup: 1.091
  floor_fraction: 1.042
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 65536x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.2424
  measured_ms: 0.2422
  speedup: 1.001
  floor_fraction: 1.042
---

out[n] = sum over m of x[m, n]. Columns lie along the threads, so each step of a program reads
whole lines. The rows are cut into slabs of `rows_per_program`: one program sums one slab of
BLOCK_N columns into a float32 workspace [slabs, N], and a second launch of the same kernel sums
the slabs, in narrow blocks, so that many programs share what is left. The order is fixed, so the
result is the same bit for bit at every run.

The sizes trade parallelism against overhead. High slabs mean few programs and idle multiprocessors
at the end; flat ones mean more partial sums to write and read. BLOCK_M * BLOCK_N over the number
of threads is what a thread has in flight and in registers: more hides latency with fewer resident
warps, until registers limit how many programs are resident. Measure achieved occupancy and DRAM
throughput together: the aim is bandwidth, and occupancy beyond what it needs is worth nothing.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "rows_per_program": [128, 256, 512, 1024],
    "block_m": [1, 2, 4, 8],
    "block_n": [128, 512, 1024, 2048],
    "num_warps": [4, 8],
}

# Columns of a program of the second launch: float32 values of one line of 128 bytes.
LAST_BLOCK_N = 32


@triton.jit
def _column_sum_kernel(
    x_ptr, out_ptr,
    M, N,
    stride_xm, stride_xn,
    rows_per_program,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Row s of the output [slabs, N] is the sum of slab s."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    slab = tl.program_id(0) // tiles_n
    cols = (tl.program_id(0) % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    col_ok = cols < N
    first = slab * rows_per_program
    end = tl.minimum(first + rows_per_program, M)
    # Index times stride is taken in int64: it passes 2**31 on matrices of a few GB.
    x_cols = x_ptr + cols[None, :].to(tl.int64) * stride_xn

    # One slot for each element of the tile: no reduction across threads inside the loop.
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in tl.range(first, end, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        mask = (rows < end)[:, None] & col_ok[None, :]
        x = tl.load(
            x_cols + rows[:, None].to(tl.int64) * stride_xm,
            mask=mask,
            other=0.0,
            eviction_policy="evict_first",
        )
        acc += x.to(tl.float32)
    total = tl.sum(acc, axis=0)
    out_ptrs = out_ptr + slab.to(tl.int64) * N + cols
    tl.store(out_ptrs, total.to(out_ptr.dtype.element_ty), mask=col_ok)


def _width(n: int, block_n: int) -> int:
    """Columns of a program: of the powers of two up to `block_n` the one that leaves least idle."""
    sizes = [block_n]
    while sizes[-1] > 256:
        sizes.append(sizes[-1] // 2)
    return min(sizes, key=lambda size: triton.cdiv(n, size) * size)


def kernel_function(
    x: torch.Tensor,
    rows_per_program: int = 256,
    block_m: int = 1,
    block_n: int = 2048,
    num_warps: int = 8,
) -> torch.Tensor:
    """Return the column sums [N] of `x` [M, N], any strides, in `x`'s dtype."""
    m, n = x.shape
    slabs = max(1, triton.cdiv(m, rows_per_program))
    block_m, block_n = block_m * (block_n // _width(n, block_n)), _width(n, block_n)
    tiles_n = triton.cdiv(n, block_n)
    partial = torch.empty((slabs, n), dtype=torch.float32, device=x.device)
    out = torch.empty(n, dtype=x.dtype, device=x.device)
    blocks = {"BLOCK_M": block_m, "BLOCK_N": block_n, "num_warps": num_warps}
    _column_sum_kernel[(slabs * tiles_n,)](
        x, partial, m, n, *x.stride(), rows_per_program, **blocks
    )
    # Few steps, in many programs: the second launch is all latency.
    high = min(128, triton.next_power_of_2(slabs))
    _column_sum_kernel[(triton.cdiv(n, LAST_BLOCK_N),)](
        partial, out, slabs, n, *partial.stride(), slabs,
        BLOCK_M=high, BLOCK_N=LAST_BLOCK_N, num_warps=4,
    )  # fmt: skip
    return out


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.sum(dim=0)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator)]
