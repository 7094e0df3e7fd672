"""
---
slug: rope-plain
title: Rotary position embedding, one program for each row
op: rope
language: triton
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 2, 4, 32], [1, 3, 5, 24], [1, 1, 7, 2]]
  bench: [8, 32, 4096, 128]
check_params: {num_warps: 1}
sources:
  - title: "Su et al.: RoFormer, enhanced transformer with rotary position embedding"
    url: https://arxiv.org/abs/2104.09864
    licence: proprietary
  - title: "Triton: triton.language.load"
    url: https://triton-lang.org/main/python-api/generated/triton.language.load.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 8x32x4096x128
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.053
  measured_ms: 0.6353
  speedup: 1.657
  floor_fraction: 0.1983
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 8x32x4096x128
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1549
  measured_ms: 0.6353
  speedup: 0.2438
  floor_fraction: 0.1983
---

Feature i of a row is rotated together with feature D / 2 + i by the angle of its position. One
program takes one row of one head: a few hundred bytes, less than its start costs, and cosine and
sine are read again for every head.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {"num_warps": [1, 2, 4]}


@triton.jit
def _rope_kernel(x_ptr, cos_ptr, sin_ptr, out_ptr, N, HALF: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    position = row % N
    dims = tl.arange(0, BLOCK)
    mask = dims < HALF
    x_row = x_ptr + row * (2 * HALF) + dims
    first = tl.load(x_row, mask=mask, other=0.0).to(tl.float32)
    second = tl.load(x_row + HALF, mask=mask, other=0.0).to(tl.float32)
    cos = tl.load(cos_ptr + position * HALF + dims, mask=mask, other=0.0).to(tl.float32)
    sin = tl.load(sin_ptr + position * HALF + dims, mask=mask, other=0.0).to(tl.float32)
    out_row = out_ptr + row * (2 * HALF) + dims
    dtype = out_ptr.dtype.element_ty
    tl.store(out_row, (first * cos - second * sin).to(dtype), mask=mask)
    tl.store(out_row + HALF, (second * cos + first * sin).to(dtype), mask=mask)


def kernel_function(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, num_warps: int = 1
) -> torch.Tensor:
    """Rotate `x` [..., N, D] by the angles whose `cos` and `sin` [N, D / 2] are given: feature i
    with feature D / 2 + i."""
    n, d = x.shape[-2:]
    if d % 2 or cos.shape != (n, d // 2) or sin.shape != cos.shape:
        raise ValueError(f"x {list(x.shape)} and cos {list(cos.shape)} do not fit")
    x, cos, sin = x.contiguous(), cos.contiguous(), sin.contiguous()
    out = torch.empty_like(x)
    rows = math.prod(x.shape[:-1])
    if rows:
        _rope_kernel[(rows,)](
            x, cos, sin, out, n,
            HALF=d // 2, BLOCK=triton.next_power_of_2(d // 2), num_warps=num_warps,
        )  # fmt: skip
    return out


def reference(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [B, heads, N, D]."""
    b, h, n, d = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn((b, h, n, d), dtype=dtype, device=device, generator=generator)
    angles = torch.rand((n, d // 2), device=device, generator=generator) * 6.2831853
    return [x, angles.cos().to(dtype), angles.sin().to(dtype)]
