"""
---
slug: layernorm-dim-plain
title: Layer norm over any dimension in three passes over memory
op: layer-norm
language: triton
techniques: []
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 64, 32], [3, 10, 21], [7, 100], [5, 33, 1], [1, 2, 7]]
  bench: [16384, 8192]
check_params: {block: 512, block_p: 16}
sources:
  - title: "Ba, Kiros, Hinton: Layer Normalization"
    url: https://arxiv.org/abs/1607.06450
    licence: arXiv-nonexclusive
  - title: "PyTorch: torch.nn.LayerNorm"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.LayerNorm.html
    licence: BSD-3-Clause
  - title: "Triton tutorial: layer normalization"
    url: https://triton-lang.org/main/getting-started/tutorials/05-layer-norm.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16384x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.2291
  measured_ms: 0.1588
  speedup: 1.443
  floor_fraction: 0.7909
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16384x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1484
  measured_ms: 0.1588
  speedup: 0.9345
  floor_fraction: 0.7909
---

y = (x - mean) / sqrt(variance + eps) * weight + bias over one dimension, in the passes of the
definition: the mean, the mean square of what is centred, the result. The tensor is seen as [batch,
N, positions]; a program takes a block of positions (over the last dimension: of rows) and walks
along N three times, so x is loaded three times, from L2 at best. Any length is taken.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block": [512, 1024, 2048, 4096],
    "block_p": [16, 64, 256],
    "num_warps": [2, 4, 8],
}

# PyTorch's default, added to the variance.
EPS = 1e-5


@triton.jit
def _layernorm_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    N, P, eps,
    stride_xb, stride_xn, stride_xp, stride_ob, stride_on, stride_op,
    HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(P, BLOCK_P)
    batch = (tl.program_id(0) // tiles).to(tl.int64)
    positions = (tl.program_id(0) % tiles) * BLOCK_P + tl.arange(0, BLOCK_P)
    position_ok = (positions < P)[None, :]
    # Index times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    p64 = positions.to(tl.int64)[None, :]
    x_base = x_ptr + batch * stride_xb + p64 * stride_xp
    out_base = out_ptr + batch * stride_ob + p64 * stride_op

    total = tl.zeros((BLOCK_N, BLOCK_P), dtype=tl.float32)
    for start in tl.range(0, N, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)[:, None]
        x = tl.load(x_base + n.to(tl.int64) * stride_xn, mask=(n < N) & position_ok, other=0.0)
        total += x.to(tl.float32)
    mean = tl.sum(total, axis=0, keep_dims=True) / N

    squares = tl.zeros((BLOCK_N, BLOCK_P), dtype=tl.float32)
    for start in tl.range(0, N, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)[:, None]
        mask = (n < N) & position_ok
        x = tl.load(x_base + n.to(tl.int64) * stride_xn, mask=mask, other=0.0)
        centred = tl.where(mask, x.to(tl.float32) - mean, 0.0)
        squares += centred * centred
    scale = tl.rsqrt(tl.sum(squares, axis=0, keep_dims=True) / N + eps)

    for start in tl.range(0, N, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)[:, None]
        n64 = n.to(tl.int64)
        mask = (n < N) & position_ok
        x = tl.load(x_base + n64 * stride_xn, mask=mask, other=0.0).to(tl.float32)
        y = (x - mean) * scale
        if HAS_WEIGHT:
            y *= tl.load(weight_ptr + n64, mask=n < N, other=0.0).to(tl.float32)
        if HAS_BIAS:
            y += tl.load(bias_ptr + n64, mask=n < N, other=0.0).to(tl.float32)
        tl.store(out_base + n64 * stride_on, y.to(out_ptr.dtype.element_ty), mask=mask)


def _split(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, int]:
    """`x` seen as [batch, N, positions], and the dimension counted from the front."""
    if not -x.dim() <= dim < x.dim():
        raise ValueError(f"there is no dimension {dim} in a tensor of {x.dim()} dimensions")
    dim %= x.dim()
    shape = (math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :]))
    try:
        view = x.view(shape)
    except RuntimeError:  # strides that three numbers cannot tell
        view = x.contiguous().view(shape)
    # Over the last dimension the rows are the positions, and the batch is 1. `unsqueeze` gives that
    # batch a row's stride, often a multiple of 16; Triton takes a stride of 1 for unaligned loads.
    return (view if dim < x.dim() - 1 else view.squeeze(2).t().unsqueeze(0)), dim


def kernel_function(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    dim: int = -1,
    eps: float = EPS,
    block: int = 1024,
    block_p: int = 256,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return layer norm of `x` over its dimension `dim`, contiguous, in `x`'s dtype.

    `weight` and `bias` [N], where given, belong to that dimension. A program loads
    `block` elements at a time, of `block_p` positions or of one row.
    """
    view, dim = _split(x, dim)
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and given.shape != (x.shape[dim],):
            raise ValueError(
                f"{name} {list(given.shape)} does not fit a dimension of {x.shape[dim]}"
            )
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    batch, length, positions = view.shape
    rows = dim == x.dim() - 1
    block_p = 1 if rows else min(block_p, triton.next_power_of_2(positions))
    block_n = min(max(1, block // block_p), triton.next_power_of_2(length))
    _layernorm_kernel[(batch * triton.cdiv(positions, block_p),)](
        view,
        None if weight is None else weight.contiguous(),
        None if bias is None else bias.contiguous(),
        out,
        length, positions, eps,
        *view.stride(), *_split(out, dim)[0].stride(),
        HAS_WEIGHT=weight is not None, HAS_BIAS=bias is not None,
        BLOCK_N=block_n, BLOCK_P=block_p,
        num_warps=num_warps,
    )  # fmt: skip
    return out


def reference(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    dim: int = -1,
    eps: float = EPS,
) -> torch.Tensor:
    moved = x.movedim(dim, -1)
    return torch.nn.functional.layer_norm(moved, moved.shape[-1:], weight, bias, eps).movedim(
        -1, dim
    )


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [batch, length of the dimension, positions after it], or without the last."""
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(size, dtype=dtype, device=device, generator=generator)
    weight = torch.rand(size[1], dtype=dtype, device=device, generator=generator) + 0.5
    bias = torch.randn(size[1], dtype=dtype, device=device, generator=generator)
    return [x, weight, bias, 1]
