"""
---
slug: scale-plain
title: Scaled copy whose threads read far apart from each other
op: scale
language: triton
techniques: []
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[4096], [1000], [1]]
  bench: [268435456]
check_params: {block: 256}
sources:
  - title: "CUDA C++ Best Practices Guide"
    url: https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/
    licence: proprietary
  - title: "NVIDIA technical blog: Increase Performance with Vectorized Memory Access"
    url: https://developer.nvidia.com/blog/cuda-pro-tip-increase-performance-with-vectorized-memory-access/
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: '268435456'
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.2527
  measured_ms: 5.172
  speedup: 0.04886
  floor_fraction: 0.04877
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: '268435456'
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.2528
  measured_ms: 5.172
  speedup: 0.04888
  floor_fraction: 0.04877
---

out = factor * x with the work dealt out like cards: program p of P handles the elements p, p + P,
p + 2P and so on. On a CPU that balances threads well. On a GPU the lanes of a warp then touch
addresses P elements apart, so every lane needs a 32-byte sector of its own, each access is a
single element wide, and neighbouring programs fetch the same sectors again unless a cache still
has them.

The mistake is common in ported code, and the profiler shows it as many sectors a request and few
bytes used of each. Blocks of neighbouring elements mend both.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [256, 512, 1024, 2048], "num_warps": [1, 2, 4, 8]}


@triton.jit
def _scale_kernel(x_ptr, out_ptr, factor, total, BLOCK: tl.constexpr):
    programs = tl.num_programs(0)
    # Neighbouring lanes are `programs` elements apart.
    offsets = tl.program_id(0) + tl.arange(0, BLOCK).to(tl.int64) * programs
    mask = offsets < total
    x = tl.load(x_ptr + offsets, mask=mask)
    out = x.to(tl.float32) * factor
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=mask)


def kernel_function(
    x: torch.Tensor, factor: float, block: int = 1024, num_warps: int = 4
) -> torch.Tensor:
    """Return `factor * x` for `x` of any shape (made contiguous first), contiguous."""
    x = x.contiguous()
    out = torch.empty_like(x)
    total = x.numel()
    _scale_kernel[(triton.cdiv(total, block),)](
        x, out, factor, total, BLOCK=block, num_warps=num_warps
    )
    return out


def reference(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | float]:
    """`size` is [elements]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator), 1.7]
