"""
---
slug: adamw-plain
title: AdamW, one launch for each parameter tensor
op: optimizer
language: triton
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[1, 16], [2, 7], [3, 5]]
  bench: [32, 512]
check_params: {block: 512}
sources:
  - title: "Loshchilov, Hutter: Decoupled weight decay regularization"
    url: https://arxiv.org/abs/1711.05101
    licence: proprietary
  - title: "PyTorch: torch.optim.AdamW"
    url: https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 32x512
  dtype: bfloat16
  baseline: eager
  baseline_ms: 3.44
  measured_ms: 4.628
  speedup: 0.7433
  floor_fraction: 0.1119
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 32x512
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.5214
  measured_ms: 4.628
  speedup: 0.1127
  floor_fraction: 0.1119
---

The whole update of a parameter in one elementwise kernel: weight, gradient and both moments are
read once, weight and moments written once, 22 bytes an element with bfloat16 weights. The kernel is
launched once for each parameter of the model. Preparing a launch takes the host longer than the GPU
takes to update a tensor of some hundred thousand elements, and a norm's weight occupies one
multiprocessor: with hundreds of tensors the GPU waits most of the time.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [512, 1024, 2048, 4096], "num_warps": [4, 8]}


@triton.jit
def _adamw_kernel(
    param_ptr, grad_ptr, avg_ptr, square_ptr, param_out_ptr, avg_out_ptr, square_out_ptr,
    begin, length, rate, decay, rest1, beta2, rest2, root, eps,
    BLOCK: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = lane < length
    at = begin + lane
    param = tl.load(param_ptr + at, mask=mask, other=0.0).to(tl.float32)
    grad = tl.load(grad_ptr + at, mask=mask, other=0.0).to(tl.float32)
    avg = tl.load(avg_ptr + at, mask=mask, other=0.0)
    square = tl.load(square_ptr + at, mask=mask, other=0.0)
    avg += rest1 * (grad - avg)
    square = beta2 * square + rest2 * grad * grad
    param = param * decay - rate * (avg / (tl.sqrt(square) * root + eps))
    tl.store(param_out_ptr + at, param.to(param_out_ptr.dtype.element_ty), mask=mask)
    tl.store(avg_out_ptr + at, avg, mask=mask)
    tl.store(square_out_ptr + at, square, mask=mask)


def kernel_function(
    params: torch.Tensor,
    grads: torch.Tensor,
    exp_avgs: torch.Tensor,
    exp_avg_sqs: torch.Tensor,
    lengths: list[int],
    step: int = 1,
    lr: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    block: int = 1024,
    num_warps: int = 4,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One step of AdamW, number `step` from 1 -> new weights, first and second moments.

    `params` [N] and `grads` [N] are in any float dtype, the moments [N] in float32. `lengths` cuts
    them into the tensors of a model, one launch each.
    """
    given = tuple(t.contiguous() for t in (params, grads, exp_avgs, exp_avg_sqs))
    if any(t.shape != (sum(lengths),) for t in given):
        raise ValueError(f"tensors must be of {sum(lengths)} elements, the sum of the lengths")
    if exp_avgs.dtype != torch.float32 or exp_avg_sqs.dtype != torch.float32 or step < 1:
        raise ValueError("moments must be float32, and steps count from 1")
    outputs = tuple(torch.empty_like(t) for t in (given[0], *given[2:]))
    rate = lr / (1 - beta1**step)
    root = 1 / math.sqrt(1 - beta2**step)
    begin = 0
    for length in lengths:
        if length:
            _adamw_kernel[(triton.cdiv(length, block),)](
                *given, *outputs,
                begin, length, rate, 1 - lr * weight_decay, 1 - beta1, beta2, 1 - beta2, root, eps,
                BLOCK=block, num_warps=num_warps,
            )  # fmt: skip
        begin += length
    return outputs


def reference(
    params: torch.Tensor,
    grads: torch.Tensor,
    exp_avgs: torch.Tensor,
    exp_avg_sqs: torch.Tensor,
    lengths: list[int],
    step: int = 1,
    lr: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    grads = grads.to(exp_avgs.dtype)
    avgs = exp_avgs.lerp(grads, 1 - beta1)
    squares = exp_avg_sqs * beta2 + (1 - beta2) * grads * grads
    scale = squares.sqrt() / math.sqrt(1 - beta2**step) + eps
    weights = params.to(exp_avgs.dtype) * (1 - lr * weight_decay)
    weights = weights - lr / (1 - beta1**step) * avgs / scale
    return weights.to(params.dtype), avgs, squares


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [layers, width] of a transformer whose layers have 8 parameters each: two vectors,
    four square matrices, and two of four times the size."""
    layers, width = size
    square = width * width
    lengths = [width, square, square, square, square, width, 4 * square, 4 * square] * layers
    generator = torch.Generator(device=device).manual_seed(seed)
    params, grads, avgs, squares = (
        torch.randn(sum(lengths), device=device, generator=generator) * 0.1 for _ in range(4)
    )
    # A large step, so that weights that were not updated are seen in low precision too.
    return [params.to(dtype), grads.to(dtype), avgs, squares.square(), lengths, 3, 0.05]
