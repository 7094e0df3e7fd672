"""
---
slug: rmsnorm-dim-plain
title: RMSNorm over any dimension in two passes over memory
op: rmsnorm
language: triton
techniques: []
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 64, 32], [3, 10, 21], [7, 100], [5, 33, 1], [1, 1, 7]]
  bench: [16, 64, 262144]
check_params: {block_n: 16, block_p: 32}
sources:
  - title: "Zhang, Sennrich: Root Mean Square Layer Normalization"
    url: https://arxiv.org/abs/1910.07467
    licence: CC-BY-4.0
  - title: "PyTorch: torch.nn.RMSNorm"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.RMSNorm.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x64x262144
  dtype: bfloat16
  baseline: eager
  baseline_ms: 3.706
  measured_ms: 0.2942
  speedup: 12.6
  floor_fraction: 0.8537
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x64x262144
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.4938
  measured_ms: 0.2942
  speedup: 1.678
  floor_fraction: 0.8537
---

y = x / sqrt(mean(x^2) + eps) over one dimension of a tensor, wherever it lies. The tensor is seen
as [batch, N, positions], positions being what lies after the dimension: neighbours in memory. A
program takes a block of positions and walks along N twice, first for the sum of squares, then to
scale. So nothing is transposed and every load is along the contiguous positions, but x is read
twice: 3 elements of traffic each instead of 2, unless the second reading finds it in L2.

Any length of the dimension is taken.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_n": [8, 16, 32, 64],
    "block_p": [64, 128, 256, 512],
    "num_warps": [2, 4, 8],
}

# Added to the mean square, as in most language models.
EPS = 1e-6


@triton.jit
def _rmsnorm_kernel(
    x_ptr, weight_ptr, out_ptr,
    N, P, eps,
    stride_xb, stride_xn, stride_xp, stride_w, stride_ob, stride_on, stride_op,
    HAS_WEIGHT: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(P, BLOCK_P)
    batch = (tl.program_id(0) // tiles).to(tl.int64)
    positions = (tl.program_id(0) % tiles) * BLOCK_P + tl.arange(0, BLOCK_P)
    position_ok = (positions < P)[None, :]
    # Index times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    p64 = positions.to(tl.int64)[None, :]
    x_base = x_ptr + batch * stride_xb + p64 * stride_xp
    out_base = out_ptr + batch * stride_ob + p64 * stride_op

    squares = tl.zeros((BLOCK_N, BLOCK_P), dtype=tl.float32)
    for start in tl.range(0, N, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)[:, None]
        x = tl.load(x_base + n.to(tl.int64) * stride_xn, mask=(n < N) & position_ok, other=0.0)
        x = x.to(tl.float32)
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares, axis=0, keep_dims=True) / N + eps)

    for start in tl.range(0, N, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)[:, None]
        n64 = n.to(tl.int64)
        mask = (n < N) & position_ok
        y = tl.load(x_base + n64 * stride_xn, mask=mask, other=0.0).to(tl.float32) * scale
        if HAS_WEIGHT:
            y *= tl.load(weight_ptr + n64 * stride_w, mask=n < N, other=0.0).to(tl.float32)
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
    dim: int = -1,
    eps: float = EPS,
    block_n: int = 16,
    block_p: int = 256,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return RMSNorm of `x` over its dimension `dim`, contiguous, in `x`'s dtype.

    `weight` [N], where given, scales along that dimension.
    """
    view, dim = _split(x, dim)
    if weight is not None and weight.shape != (x.shape[dim],):
        raise ValueError(f"weight {list(weight.shape)} does not fit a dimension of {x.shape[dim]}")
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    batch, length, positions = view.shape
    block_n = min(block_n, triton.next_power_of_2(length))
    block_p = min(block_p, triton.next_power_of_2(positions))
    _rmsnorm_kernel[(batch * triton.cdiv(positions, block_p),)](
        view, weight, out,
        length, positions, eps,
        *view.stride(), 0 if weight is None else weight.stride(0), *_split(out, dim)[0].stride(),
        HAS_WEIGHT=weight is not None, BLOCK_N=block_n, BLOCK_P=block_p,
        num_warps=num_warps,
    )  # fmt: skip
    return out


def reference(
    x: torch.Tensor, weight: torch.Tensor | None = None, dim: int = -1, eps: float = EPS
) -> torch.Tensor:
    moved = x.movedim(dim, -1)
    return torch.nn.functional.rms_norm(moved, moved.shape[-1:], weight, eps).movedim(-1, dim)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [batch, length of the dimension, positions after it], or without the last."""
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(size, dtype=dtype, device=device, generator=generator)
    weight = torch.rand(size[1], dtype=dtype, device=device, generator=generator) + 0.5
    return [x, weight, 1]
