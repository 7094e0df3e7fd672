"""
---
slug: smooth-steps-plain
title: Smoothing of a signal in many short steps, one ordinary launch each
op: smooth-steps
language: triton
techniques: []
architectures: [sm_80]
dtypes: [float32]
sizes:
  check: [[512, 4], [100, 3], [7, 2]]
  bench: [262144, 64]
check_params: {block: 64}
sources:
  - title: "CUDA Programming Guide 4.2: CUDA graphs"
    url: https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/cuda-graphs.html
    licence: proprietary
  - title: "Triton tutorial: vector addition"
    url: https://triton-lang.org/main/getting-started/tutorials/01-vector-add.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 262144x64
  dtype: float32
  baseline: eager
  baseline_ms: 3.89
  measured_ms: 0.4877
  speedup: 7.976
  floor_fraction: 0.001519
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 262144x64
  dtype: float32
  baseline: torch.compile
  baseline_ms: 0.1493
  measured_ms: 0.4877
  speedup: 0.3061
  floor_fraction: 0.001519
---

x[i] becomes x[i] + rate[i] * (x[i - 1] - 2 x[i] + x[i + 1]) / 4, `steps` times; beyond the ends
lie the end values. Each step needs the whole result of the one before, so it is a kernel of its
own, reading one buffer and writing the other. A step takes a few microseconds, about as long as
its launch from Python.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [256, 512, 1024, 2048], "num_warps": [2, 4, 8]}


@triton.jit
def _smooth_kernel(x_ptr, rate_ptr, out_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < N
    rate = tl.load(rate_ptr + at, mask=mask)
    here = tl.load(x_ptr + at, mask=mask)
    left = tl.load(x_ptr + tl.maximum(at - 1, 0), mask=mask)
    right = tl.load(x_ptr + tl.minimum(at + 1, N - 1), mask=mask)
    tl.store(out_ptr + at, here + 0.25 * rate * (left - 2.0 * here + right), mask=mask)


def kernel_function(
    x: torch.Tensor, rate: torch.Tensor, steps: int, block: int = 1024, num_warps: int = 4
) -> torch.Tensor:
    """Return `x` [N] float32 after `steps` smoothing steps with the rates `rate` [N]."""
    if x.shape != rate.shape or x.ndim != 1 or x.dtype != torch.float32:
        raise ValueError(f"x {list(x.shape)} and rate {list(rate.shape)} must be float32 [N]")
    x, rate = x.contiguous(), rate.contiguous()
    buffers = (torch.empty_like(x), torch.empty_like(x))
    for step in range(steps):
        out = buffers[step % 2]
        _smooth_kernel[(triton.cdiv(x.numel(), block),)](
            x, rate, out, x.numel(), BLOCK=block, num_warps=num_warps
        )
        x = out
    return x


def reference(x: torch.Tensor, rate: torch.Tensor, steps: int) -> torch.Tensor:
    for _ in range(steps):
        left = torch.cat([x[:1], x[:-1]])
        right = torch.cat([x[1:], x[-1:]])
        x = x + 0.25 * rate * (left - 2.0 * x + right)
    return x


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [elements, steps]."""
    n, steps = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(n, dtype=dtype, device=device, generator=generator)
    return [x, torch.rand(n, dtype=dtype, device=device, generator=generator), steps]
