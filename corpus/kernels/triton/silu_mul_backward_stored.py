"""
---
slug: silu-mul-backward-stored
title: Gradient of silu(gate) * up from stored activations
op: silu-mul-backward
language: triton
techniques: []
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[1000], [4096], [7]]
  bench: [134217728]
check_params: {block: 1024}
sources:
  - title: "Liger Kernel issue 555: recomputation in SwiGLU"
    url: https://github.com/linkedin/Liger-Kernel/issues/555
    licence: BSD-2-Clause
  - title: "Shazeer: GLU variants improve transformer"
    url: https://arxiv.org/abs/2002.05202
    licence: arXiv-nonexclusive
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: '134217728'
  dtype: bfloat16
  baseline: eager
  baseline_ms: 4.607
  measured_ms: 0.5682
  speedup: 8.108
  floor_fraction: 0.5525
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: '134217728'
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.3129
  measured_ms: 0.5682
  speedup: 0.5507
  floor_fraction: 0.5525
---

For out = silu(gate) * up: d_up = d_out * silu(gate), d_gate = d_out * up * silu'(gate). What the
gradient needs of the gate, silu(gate) and silu'(gate), is written to memory by one kernel, as a
forward pass that saves them does, and read back by a second. Per element: 1 read and 2 writes, then
4 reads and 2 writes, and two tensors that live as long as the graph.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [1024, 2048, 4096], "num_warps": [4, 8]}


@triton.jit
def _save_kernel(gate_ptr, silu_ptr, slope_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    gate = tl.load(gate_ptr + at, mask=inside, other=0.0).to(tl.float32)
    sigmoid = tl.sigmoid(gate)
    silu = gate * sigmoid
    tl.store(silu_ptr + at, silu.to(silu_ptr.dtype.element_ty), mask=inside)
    slope = sigmoid + silu * (1.0 - sigmoid)
    tl.store(slope_ptr + at, slope.to(slope_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _backward_kernel(
    grad_ptr, up_ptr, silu_ptr, slope_ptr, d_gate_ptr, d_up_ptr, n, BLOCK: tl.constexpr
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    grad = tl.load(grad_ptr + at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + at, mask=inside, other=0.0).to(tl.float32)
    silu = tl.load(silu_ptr + at, mask=inside, other=0.0).to(tl.float32)
    slope = tl.load(slope_ptr + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(d_gate_ptr + at, (grad * up * slope).to(d_gate_ptr.dtype.element_ty), mask=inside)
    tl.store(d_up_ptr + at, (grad * silu).to(d_up_ptr.dtype.element_ty), mask=inside)


def kernel_function(
    grad: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, block: int = 2048, num_warps: int = 8
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of silu(gate) * up by `gate` and `up`, in their dtype.

    `grad`, `gate` and `up` have one shape and dtype; results are contiguous.
    """
    if not grad.shape == gate.shape == up.shape:
        raise ValueError(f"shapes differ: {[list(t.shape) for t in (grad, gate, up)]}")
    grad, gate, up = grad.contiguous(), gate.contiguous(), up.contiguous()
    silu, slope, d_gate, d_up = (torch.empty_like(gate) for _ in range(4))
    grid = (triton.cdiv(gate.numel(), block),)
    _save_kernel[grid](gate, silu, slope, gate.numel(), BLOCK=block, num_warps=num_warps)
    _backward_kernel[grid](
        grad, up, silu, slope, d_gate, d_up, gate.numel(), BLOCK=block, num_warps=num_warps
    )
    return d_gate, d_up


def reference(
    grad: torch.Tensor, gate: torch.Tensor, up: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    wide = gate.float()
    sigmoid = torch.sigmoid(wide)
    silu = wide * sigmoid
    d_gate = grad.float() * up.float() * (sigmoid + silu * (1.0 - sigmoid))
    return d_gate.to(gate.dtype), (grad.float() * silu).to(gate.dtype)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [elements]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator) for _ in range(3)]
