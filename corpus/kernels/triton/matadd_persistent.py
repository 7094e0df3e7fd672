"""
---
slug: matadd-persistent
title: Persistent matrix addition, few programs stream over all tiles
op: elementwise-add
language: triton
techniques: [persistent-kernel]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: matadd-plain
sizes:
  check: [[64, 128], [33, 45], [1, 70]]
  bench: [16384, 16384]
check_params: {block_m: 16, block_n: 64, programs_per_sm: 1, num_stages: 2}
sources:
  - title: "Triton tutorial: persistent matmul"
    url: https://triton-lang.org/main/getting-started/tutorials/09-persistent-matmul.html
    licence: MIT
  - title: "Triton: triton.language.range"
    url: https://triton-lang.org/main/python-api/generated/triton.language.range.html
    licence: MIT
  - title: "CUDA C++ Best Practices Guide"
    url: https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x16384
  dtype: bfloat16
  baseline: matadd-plain
  baseline_ms: 0.3672
  measured_ms: 0.3753
  speedup: 0.9784
  floor_fraction: 1.008
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x16384
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.3661
  measured_ms: 0.3753
  speedup: 0.9755
  floor_fraction: 1.008
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x16384
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.3676
  measured_ms: 0.3753
  speedup: 0.9795
  floor_fraction: 1.008
---

A + B with a fixed number of programs for each multiprocessor. Each one walks over the tiles in
steps of the number of programs. Because one program now handles many tiles, the compiler can
pipeline the loop (`tl.range(..., num_stages=S)`): the loads of the next tiles are under way,
through asynchronous copies into shared memory, while this one is added and stored. The plain
version gets the same overlap only from other programs that happen to be resident.

The memory system wants enough bytes in flight, whoever asks for them: with many resident programs
the plain version has them too, so expect a small gain for large matrices, and a loss if
`programs_per_sm` is too low. Where it does pay is where set-up that all tiles share (tables,
scales, descriptors) is done once a program.
"""

import torch
import triton
import triton.language as tl

# Programs to start where there is no GPU to ask: few, so that in the CPU interpreter, too, each one
# gets several tiles.
CPU_PROGRAMS = 2

TUNABLES = {
    "block_m": [1, 4, 16, 32],
    "block_n": [128, 256, 512, 1024],
    "programs_per_sm": [1, 2, 4, 8],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def _add_kernel(
    a_ptr, b_ptr, out_ptr,
    M, N,
    stride_am, stride_an, stride_bm, stride_bn, stride_om, stride_on,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, NUM_STAGES: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * tiles_n
    programs = tl.num_programs(0)
    for tile in tl.range(tl.program_id(0), tiles, programs, num_stages=NUM_STAGES):
        rows = (tile // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
        cols = (tile % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        # Index times stride is taken in int64: it passes 2**31 on matrices of a few GB.
        rows64 = rows[:, None].to(tl.int64)
        cols64 = cols[None, :].to(tl.int64)
        a = tl.load(a_ptr + rows64 * stride_am + cols64 * stride_an, mask=mask)
        b = tl.load(b_ptr + rows64 * stride_bm + cols64 * stride_bn, mask=mask)
        out = a.to(tl.float32) + b.to(tl.float32)
        out_ptrs = out_ptr + rows64 * stride_om + cols64 * stride_on
        tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=mask)


def _sm_count(device: torch.device) -> int:
    if device.type != "cuda":
        return CPU_PROGRAMS
    return torch.cuda.get_device_properties(device).multi_processor_count


def kernel_function(
    a: torch.Tensor,
    b: torch.Tensor,
    block_m: int = 16,
    block_n: int = 256,
    programs_per_sm: int = 4,
    num_warps: int = 4,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return `a + b` for matrices [M, N] of one dtype and any strides, as a contiguous one."""
    if a.ndim != 2 or a.shape != b.shape or a.dtype != b.dtype:
        raise ValueError(f"cannot add {a.dtype} {list(a.shape)} and {b.dtype} {list(b.shape)}")
    m, n = a.shape
    out = torch.empty((m, n), dtype=a.dtype, device=a.device)
    tiles = triton.cdiv(m, block_m) * triton.cdiv(n, block_n)
    _add_kernel[(min(tiles, programs_per_sm * _sm_count(a.device)),)](
        a, b, out,
        m, n,
        *a.stride(), *b.stride(), *out.stride(),
        BLOCK_M=block_m, BLOCK_N=block_n, NUM_STAGES=num_stages,
        num_warps=num_warps,
    )  # fmt: skip
    return out


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator) for _ in range(2)]
