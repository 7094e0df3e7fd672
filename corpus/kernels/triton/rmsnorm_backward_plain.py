"""
---
slug: rmsnorm-backward-plain
title: Gradients of RMSNorm, one program a row, the weight's by atomic additions
op: rmsnorm-backward
language: triton
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[16, 128], [7, 100], [5, 3], [30, 64]]
  bench: [16384, 8192]
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
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 16384x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 5.042
  measured_ms: 0.4744
  speedup: 10.63
  floor_fraction: 0.3969
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 16384x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.5003
  measured_ms: 0.4744
  speedup: 1.055
  floor_fraction: 0.3969
---

A program reads a row of the gradient and of x, and writes the row's gradient. The weight's gradient
is a sum over rows, so every program adds its row to one float32 vector by atomic additions, as many
as x has elements, all to the same N addresses. Their order, and so the last digits, change from run
to run.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"num_warps": [4, 8, 16, 32]}

# Added to the mean square, as in most language models.
EPS = 1e-6
# Elements of a row that one thread can hold of x, gradient and weight.
MAX_PER_THREAD = 32
MAX_ROW = 32768


@triton.jit
def _backward_kernel(
    grad_ptr, x_ptr, weight_ptr, dx_ptr, dweight_ptr, N, eps,
    stride_gm, stride_gn, stride_xm, stride_xn, stride_w,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N).to(tl.int64)
    mask = cols < N
    weight = tl.load(weight_ptr + cols * stride_w, mask=mask, other=0.0).to(tl.float32)
    grad = tl.load(grad_ptr + row * stride_gm + cols * stride_gn, mask=mask, other=0.0)
    x = tl.load(x_ptr + row * stride_xm + cols * stride_xn, mask=mask, other=0.0).to(tl.float32)
    grad = grad.to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)
    normed = x * scale
    d_normed = grad * weight
    dx = (d_normed - normed * (tl.sum(d_normed * normed, axis=0) / N)) * scale
    tl.store(dx_ptr + row * N + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)
    tl.atomic_add(dweight_ptr + cols, grad * normed, mask=mask, sem="relaxed")


def kernel_function(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float = EPS,
    num_warps: int = 8,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of RMSNorm of `x` [..., N] over its last dimension, times `weight` [N], where
    `grad` [..., N] is that of its output -> dx, contiguous, and dweight, in the inputs' dtypes.

    Any strides; N is at most `MAX_ROW`. The sum over rows is in float32.
    """
    length = x.shape[-1]
    if grad.shape != x.shape or weight.shape != (length,):
        raise ValueError(f"grad {list(grad.shape)}, x {list(x.shape)} and weight do not fit")
    if length > MAX_ROW:
        raise ValueError(f"rows of {length} do not fit in registers (at most {MAX_ROW})")
    rows = x.reshape(x.shape[:-1].numel(), length)  # a view wherever the strides allow one
    grad_rows = grad.reshape(rows.shape)
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    dweight = torch.zeros(length, dtype=torch.float32, device=x.device)
    if x.numel():
        block_n = triton.next_power_of_2(length)
        _backward_kernel[(rows.shape[0],)](
            grad_rows, rows, weight, dx, dweight, length, eps,
            *grad_rows.stride(), *rows.stride(), *weight.stride(),
            BLOCK_N=block_n, num_warps=max(num_warps, min(32, block_n // (32 * MAX_PER_THREAD))),
        )  # fmt: skip
    return dx, dweight.to(weight.dtype)


def reference(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float = EPS
) -> tuple[torch.Tensor, torch.Tensor]:
    wide = torch.promote_types(x.dtype, torch.float32)
    scale = torch.rsqrt(x.to(wide).square().mean(-1, keepdim=True) + eps)
    normed = x.to(wide) * scale
    d_normed = grad.to(wide) * weight.to(wide)
    dx = (d_normed - normed * (d_normed * normed).mean(-1, keepdim=True)) * scale
    dweight = (grad.to(wide) * normed).sum_to_size(weight.shape)
    return dx.to(x.dtype), dweight.to(weight.dtype)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [rows, row length]; of one element, dx would be rounding alone."""
    if size[-1] == 1:
        raise ValueError("rows of one element cannot be compared: all of dx is rounding")
    generator = torch.Generator(device=device).manual_seed(seed)
    grad, x = (torch.randn(size, dtype=dtype, device=device, generator=generator) for _ in range(2))
    weight = torch.rand(size[-1], dtype=dtype, device=device, generator=generator) + 0.5
    return [grad, x, weight]
