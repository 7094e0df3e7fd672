"""
---
slug: batchnorm-inference
title: Batch norm with given statistics, a scale and a shift a channel
op: batch-norm
language: triton
techniques: [vectorized-access, kernel-fusion]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 8, 64], [3, 6, 35], [7, 5, 1]]
  bench: [64, 256, 16384]
check_params: {tile: 256}
sources:
  - title: "Ioffe, Szegedy: Batch Normalization"
    url: https://arxiv.org/abs/1502.03167
    licence: arXiv-nonexclusive
  - title: "PyTorch: torch.nn.BatchNorm2d"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x256x16384
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.5605
  measured_ms: 0.2593
  speedup: 2.162
  floor_fraction: 0.9737
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x256x16384
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.2772
  measured_ms: 0.2593
  speedup: 1.069
  floor_fraction: 0.9737
---

y = (x - mean) / sqrt(variance + eps) * weight + bias with the statistics of training: a scale and a
shift a channel, elementwise, so bound by one reading and one writing. A tile is a block of one
plane, or several small planes of neighbouring channels: what belongs to the channel is one number a
row of the tile, read once for it, and loads along the plane are 16 bytes a thread. Elementwise work
before and after is fused in.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {"tile": [1024, 2048, 4096, 8192], "num_warps": [2, 4, 8]}

# PyTorch's default, added to the variance.
EPS = 1e-5


@triton.jit
def _unchanged(x, lead, lane, mask, operands):
    """Elementwise functions get float32 values, and where they lie in the contiguous tensor: at
    `lead + lane`, `lane` along neighbours. `operands` is what the caller gave with them."""
    return x


@triton.jit
def _batchnorm_kernel(
    x_ptr, mean_ptr, variance_ptr, weight_ptr, bias_ptr, out_ptr, before_operands, after_operands,
    planes, plane, channels, eps,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr,
    PLANES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(plane, BLOCK)
    row = (tl.program_id(0) // columns) * PLANES + tl.arange(0, PLANES)[:, None]
    lane = (tl.program_id(0) % columns) * BLOCK + tl.arange(0, BLOCK)[None, :]
    row_ok = row < planes
    channel = row % channels
    scale = tl.load(variance_ptr + channel, mask=row_ok, other=1.0).to(tl.float32)
    scale = tl.rsqrt(scale + eps)
    mean = tl.load(mean_ptr + channel, mask=row_ok, other=0.0).to(tl.float32)
    if HAS_WEIGHT:
        scale *= tl.load(weight_ptr + channel, mask=row_ok, other=0.0).to(tl.float32)
    # Index times size is taken in int64: it passes 2**31 on tensors of a few GB.
    lead = row.to(tl.int64) * plane
    mask = row_ok & (lane < plane)
    x = tl.load(x_ptr + lead + lane, mask=mask, other=0.0).to(tl.float32)
    x = BEFORE(x, lead, lane, mask, before_operands)
    y = (x - mean) * scale
    if HAS_BIAS:
        y += tl.load(bias_ptr + channel, mask=row_ok, other=0.0).to(tl.float32)
    y = AFTER(y, lead, lane, mask, after_operands)
    tl.store(out_ptr + lead + lane, y.to(out_ptr.dtype.element_ty), mask=mask)


def kernel_function(
    x: torch.Tensor,
    mean: torch.Tensor,
    variance: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = EPS,
    before=_unchanged,
    before_operands: tuple = (),
    after=_unchanged,
    after_operands: tuple = (),
    out_dtype: torch.dtype | None = None,
    tile: int = 1024,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return batch norm of `x` [batch, channels, ...] with given statistics, contiguous.

    Its dtype is `out_dtype` (`x`'s if None). `mean`, `variance`, and `weight` and `bias` where
    given, are [channels]. `before` and `after` are Triton functions `(values, lead, lane, mask,
    operands)` applied to each element on the way in and out.
    """
    if x.dim() < 2:
        raise ValueError(f"batch norm takes [batch, channels, ...], not {list(x.shape)}")
    vectors = {"mean": mean, "variance": variance, "weight": weight, "bias": bias}
    for name, given in vectors.items():
        if given is not None and given.shape != x.shape[1:2]:
            raise ValueError(f"{name} {list(given.shape)} does not fit {x.shape[1]} channels")
    x = x.contiguous()
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    if not out.numel():
        return out
    plane, planes = math.prod(x.shape[2:]), x.shape[0] * x.shape[1]
    block = min(tile, triton.next_power_of_2(plane))
    high = min(tile // block, triton.next_power_of_2(planes))
    _batchnorm_kernel[(triton.cdiv(planes, high) * triton.cdiv(plane, block),)](
        x, *(None if each is None else each.contiguous() for each in vectors.values()),
        out, before_operands, after_operands,
        planes, plane, x.shape[1], eps,
        BEFORE=before, AFTER=after, HAS_WEIGHT=weight is not None, HAS_BIAS=bias is not None,
        PLANES=high, BLOCK=block, num_warps=num_warps,
    )  # fmt: skip
    return out


def reference(
    x: torch.Tensor,
    mean: torch.Tensor,
    variance: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = EPS,
) -> torch.Tensor:
    return torch.nn.functional.batch_norm(x, mean, variance, weight, bias, eps=eps)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [batch, channels, elements of a plane]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(size, dtype=dtype, device=device, generator=generator)
    drawn = torch.rand(4, size[1], dtype=dtype, device=device, generator=generator)
    return [x, drawn[0] - 0.5, drawn[1] + 0.5, drawn[2] + 0.5, drawn[3] - 0.5]
