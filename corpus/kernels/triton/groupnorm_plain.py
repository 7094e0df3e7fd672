"""
---
slug: groupnorm-plain
title: Group norm with one program a group and three passes over memory
op: group-norm
language: triton
techniques: []
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 8, 64, 4], [3, 6, 35, 2], [2, 5, 12, 5], [2, 4, 1, 2]]
  bench: [32, 256, 16384, 32]
check_params: {block: 128}
sources:
  - title: "Wu, He: Group Normalization"
    url: https://arxiv.org/abs/1803.08494
    licence: arXiv-nonexclusive
  - title: "PyTorch: torch.nn.GroupNorm"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.GroupNorm.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 32x256x16384x32
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.567
  measured_ms: 0.2667
  speedup: 2.126
  floor_fraction: 0.4709
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 32x256x16384x32
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.2473
  measured_ms: 0.2667
  speedup: 0.9273
  floor_fraction: 0.4709
---

y = (x - mean) / sqrt(variance + eps) * weight + bias with mean and variance over a group of
channels of one image; one channel a group is instance norm. A group is contiguous: one program
walks over it three times, for the mean, the spread and the result. Few groups leave
multiprocessors idle, and a group that does not stay in L2 between the passes is read from DRAM
three times.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [1024, 2048, 4096, 8192], "num_warps": [4, 8, 16]}

# PyTorch's default, added to the variance.
EPS = 1e-5


@triton.jit
def _groupnorm_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    length, plane, group_channels, groups, eps,
    HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # Index times length is taken in int64: it passes 2**31 on tensors of a few GB.
    base = tl.program_id(0).to(tl.int64) * length
    first_channel = (tl.program_id(0) % groups) * group_channels

    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in tl.range(0, length, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + base + i, mask=i < length, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / length

    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in tl.range(0, length, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + i, mask=i < length, other=0.0).to(tl.float32)
        centred = tl.where(i < length, x - mean, 0.0)
        squares += centred * centred
    scale = tl.rsqrt(tl.sum(squares, axis=0) / length + eps)

    for start in tl.range(0, length, BLOCK):
        i = start + tl.arange(0, BLOCK)
        mask = i < length
        y = (tl.load(x_ptr + base + i, mask=mask, other=0.0).to(tl.float32) - mean) * scale
        channel = first_channel + i // plane
        if HAS_WEIGHT:
            y *= tl.load(weight_ptr + channel, mask=mask, other=0.0).to(tl.float32)
        if HAS_BIAS:
            y += tl.load(bias_ptr + channel, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + base + i, y.to(out_ptr.dtype.element_ty), mask=mask)


def _checked(
    x: torch.Tensor, groups: int, weight: torch.Tensor | None, bias: torch.Tensor | None
) -> tuple[int, int, int]:
    """Batch, channels and elements of a plane."""
    if x.dim() < 2:
        raise ValueError(f"group norm takes [batch, channels, ...], not {list(x.shape)}")
    channels = x.shape[1]
    if groups < 1 or channels % groups:
        raise ValueError(f"{channels} channels do not part into {groups} groups")
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and given.shape != (channels,):
            raise ValueError(f"{name} {list(given.shape)} does not fit {channels} channels")
    return x.shape[0], channels, math.prod(x.shape[2:])


def kernel_function(
    x: torch.Tensor,
    groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = EPS,
    block: int = 2048,
    num_warps: int = 8,
) -> torch.Tensor:
    """Return group norm of `x` [batch, channels, ...] in `groups` groups, contiguous, in `x`'s
    dtype. `weight` and `bias` [channels], where given, belong to the channels. A group has less
    than 2**31 elements.
    """
    batch, channels, plane = _checked(x, groups, weight, bias)
    x = x.contiguous()
    out = torch.empty_like(x)
    if not out.numel():
        return out
    length = channels // groups * plane
    _groupnorm_kernel[(batch * groups,)](
        x,
        None if weight is None else weight.contiguous(),
        None if bias is None else bias.contiguous(),
        out,
        length, plane, channels // groups, groups, eps,
        HAS_WEIGHT=weight is not None, HAS_BIAS=bias is not None,
        BLOCK=min(block, triton.next_power_of_2(length)), num_warps=num_warps,
    )  # fmt: skip
    return out


def reference(
    x: torch.Tensor,
    groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = EPS,
) -> torch.Tensor:
    return torch.nn.functional.group_norm(x, groups, weight, bias, eps)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [batch, channels, elements of a plane, groups]."""
    *shape, groups = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(shape, dtype=dtype, device=device, generator=generator)
    weight = torch.rand(shape[1], dtype=dtype, device=device, generator=generator) + 0.5
    bias = torch.randn(shape[1], dtype=dtype, device=device, generator=generator)
    return [x, groups, weight, bias]
