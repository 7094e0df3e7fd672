"""
---
slug: smooth-steps-pdl
title: Smoothing of a signal in many short steps that overlap by dependent launches
op: smooth-steps
language: triton
techniques: [programmatic-dependent-launch]
architectures: [sm_80]
dtypes: [float32]
derived_from: smooth-steps-plain
sizes:
  check: [[512, 4], [100, 3], [7, 2]]
  bench: [262144, 64]
check_params: {block: 64}
sources:
  - title: "CUDA Programming Guide 4.5: programmatic dependent launch"
    url: https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/programmatic-dependent-launch.html
    licence: proprietary
  - title: "Triton pull request 6394: programmatic dependent launch"
    url: https://github.com/triton-lang/triton/pull/6394
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
  baseline: smooth-steps-plain
  baseline_ms: 0.4709
  measured_ms: 0.5233
  speedup: 0.8999
  floor_fraction: 0.001416
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 262144x64
  dtype: float32
  baseline: eager
  baseline_ms: 4.004
  measured_ms: 0.5233
  speedup: 7.651
  floor_fraction: 0.001416
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 262144x64
  dtype: float32
  baseline: torch.compile
  baseline_ms: 0.1495
  measured_ms: 0.5233
  speedup: 0.2857
  floor_fraction: 0.001416
---

x[i] becomes x[i] + rate[i] * (x[i - 1] - 2 x[i] + x[i + 1]) / 4, `steps` times; beyond the ends
lie the end values. Each step needs the whole result of the one before.

From sm_90 on, a step is launched while the one before still runs. It computes its indices and
loads the rates, which no step writes, then `gdc_wait` holds it until the step before has ended and
its values are visible. Every step waits before its first access to the two buffers, also before
its store: what it overwrites is read by the step before. `gdc_launch_dependents` comes after the
loads, so that the next step's blocks take their places when these are about to leave. On older
GPUs and in the interpreter the launches are ordinary.

Overlap gains only where the host is ahead of the device. Launched one by one from Python, as here,
a step of two microseconds takes less time than its launch does, the device waits for the host
either way, and the attribute costs the host more: measured, this is slower than plain launches.
In a graph, or from a loop in C++, the launches are there in time (smooth-steps-graph-cuda).
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [256, 512, 1024, 2048], "num_warps": [2, 4, 8]}


@triton.jit
def _smooth_kernel(x_ptr, rate_ptr, out_ptr, N, BLOCK: tl.constexpr, PDL: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < N
    rate = tl.load(rate_ptr + at, mask=mask)
    if PDL:
        tl.extra.cuda.gdc_wait()
    here = tl.load(x_ptr + at, mask=mask)
    left = tl.load(x_ptr + tl.maximum(at - 1, 0), mask=mask)
    right = tl.load(x_ptr + tl.minimum(at + 1, N - 1), mask=mask)
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    tl.store(out_ptr + at, here + 0.25 * rate * (left - 2.0 * here + right), mask=mask)


def kernel_function(
    x: torch.Tensor, rate: torch.Tensor, steps: int, block: int = 1024, num_warps: int = 4
) -> torch.Tensor:
    """Return `x` [N] float32 after `steps` smoothing steps with the rates `rate` [N]."""
    if x.shape != rate.shape or x.ndim != 1 or x.dtype != torch.float32:
        raise ValueError(f"x {list(x.shape)} and rate {list(rate.shape)} must be float32 [N]")
    x, rate = x.contiguous(), rate.contiguous()
    pdl = x.is_cuda and torch.cuda.get_device_capability(x.device)[0] >= 9
    options = {"num_warps": num_warps, **({"launch_pdl": True} if pdl else {})}
    buffers = (torch.empty_like(x), torch.empty_like(x))
    for step in range(steps):
        out = buffers[step % 2]
        _smooth_kernel[(triton.cdiv(x.numel(), block),)](
            x, rate, out, x.numel(), BLOCK=block, PDL=pdl, **options
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
