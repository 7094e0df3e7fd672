"""
---
slug: rmsnorm-plain
title: RMSNorm that reads each row twice
op: rmsnorm
language: triton
techniques: []
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[16, 128], [7, 100], [5, 3]]
  bench: [16384, 8192]
check_params: {block_n: 32}
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
  date: 2026-11-21
  shape: 16384x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.2099
  measured_ms: 0.1352
  speedup: 1.553
  floor_fraction: 0.9329
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1264
  measured_ms: 0.1352
  speedup: 0.9349
  floor_fraction: 0.9329
---

y = x / sqrt(mean(x^2) + eps) * weight over the last dimension, one row a program, in two passes
over chunks of BLOCK_N: the sum of squares, then the scaled values. The second pass reads the row
again from L2 or, when many rows are in flight, from DRAM: up to 3 * M * N elements of traffic
instead of 2 * M * N. Between the passes all threads wait for the reduction with nothing to load.
Rows may be of any length.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block_n": [512, 1024, 2048, 4096], "num_warps": [2, 4, 8, 16]}

# Added to the mean square, as in most language models.
EPS = 1e-6


@triton.jit
def _rmsnorm_kernel(
    x_ptr, weight_ptr, out_ptr,
    N, eps,
    stride_xm, stride_xn, stride_w, stride_om, stride_on,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * stride_xm
    out_row = out_ptr + row * stride_om
    chunk = tl.arange(0, BLOCK_N).to(tl.int64)

    squares = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for start in tl.range(0, N, BLOCK_N):
        cols = start + chunk
        x = tl.load(x_row + cols * stride_xn, mask=cols < N, other=0.0).to(tl.float32)
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares, axis=0) / N + eps)

    for start in tl.range(0, N, BLOCK_N):
        cols = start + chunk
        mask = cols < N
        x = tl.load(x_row + cols * stride_xn, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols * stride_w, mask=mask, other=0.0).to(tl.float32)
        y = x * scale * weight
        tl.store(out_row + cols * stride_on, y.to(out_ptr.dtype.element_ty), mask=mask)


def kernel_function(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float = EPS,
    block_n: int = 1024,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return RMSNorm of `x` [..., N] over its last dimension, times `weight` [N], contiguous."""
    if weight.shape != x.shape[-1:]:
        raise ValueError(f"weight {list(weight.shape)} does not fit rows of {x.shape[-1]}")
    # A view wherever the strides allow one.
    rows = x.reshape(x.shape[:-1].numel(), x.shape[-1])
    out = torch.empty(rows.shape, dtype=x.dtype, device=x.device)
    _rmsnorm_kernel[(rows.shape[0],)](
        rows, weight, out,
        rows.shape[1], eps,
        *rows.stride(), *weight.stride(), *out.stride(),
        BLOCK_N=block_n,
        num_warps=num_warps,
    )  # fmt: skip
    return out.view(x.shape)


def reference(x: torch.Tensor, weight: torch.Tensor, eps: float = EPS) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [rows, row length]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(size, dtype=dtype, device=device, generator=generator)
    weight = torch.rand(size[-1], dtype=dtype, device=device, generator=generator) + 0.5
    return [x, weight]
