"""
---
slug: rmsnorm-backward-persistent
title: Gradients of RMSNorm by persistent programs that sum the weight's in registers
op: rmsnorm-backward
language: triton
techniques: [persistent-kernel, atomics-privatization, software-pipelining]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: rmsnorm-backward-plain
sizes:
  check: [[16, 128], [7, 100], [5, 3], [30, 64]]
  bench: [16384, 8192]
check_params: {tile: 256}
sources:
  - title: "Zhang, Sennrich: Root Mean Square Layer Normalization"
    url: https://arxiv.org/abs/1910.07467
    licence: CC-BY-4.0
  - title: "PyTorch: torch.nn.RMSNorm"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.RMSNorm.html
    licence: BSD-3-Clause
  - title: "Triton tutorial: layer normalization"
    url: https://triton-lang.org/main/getting-started/tutorials/05-layer-norm.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 16384x8192
  dtype: bfloat16
  baseline: rmsnorm-backward-plain
  baseline_ms: 0.4747
  measured_ms: 0.1996
  speedup: 2.378
  floor_fraction: 0.9434
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 16384x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 5.043
  measured_ms: 0.1996
  speedup: 25.27
  floor_fraction: 0.9434
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 16384x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.5007
  measured_ms: 0.1996
  speedup: 2.509
  floor_fraction: 0.9434
---

Two gradients of different shapes: dx needs sums along each row, the weight's gradient a sum over
all rows. Added up by atomics, the second costs an addition in L2 for each element of x. Here a few
programs a multiprocessor run through the rows, program p through p, p + P, p + 2 P and so on, and
keep the sum over their rows in registers. Each writes one float32 row at the end; a second kernel
adds these P rows up. Traffic is that of dx alone: two reads and one write of x's size. The order of
additions is fixed: results are equal from run to run.

What a loop of few programs costs is the wait for each row. `tl.range` with `num_stages` copies the
next rows to shared memory meanwhile; without that argument Triton pipelines only loads that feed
`tl.dot`. The inverse root mean square is computed again from the row, which is read anyway, and
both sums along a row are one reduction of pairs, one exchange between warps.

Short rows (the norm of a query head) are taken several at once, `tile` elements in all. Very few
rows, less than some per multiprocessor, leave nothing to keep in registers: the second kernel then
reads as much as the first.
"""

import torch
import triton
import triton.language as tl

# Programs to start where there is no GPU to ask: few, so that each one gets several rows.
CPU_PROGRAMS = 3

TUNABLES = {
    "tile": [2048, 4096, 8192],
    "programs_per_sm": [1, 2, 4],
    "num_warps": [4, 8, 16, 32],
    "stages": [1, 2, 3],
}

# Added to the mean square, as in most language models.
EPS = 1e-6
# Elements of a row that one thread can hold of x, gradient, weight and the sum.
MAX_PER_THREAD = 32
# A longer row spills: one of this length a few registers, one of twice the length most of them.
MAX_ROW = 16384
# Shared memory for the rows on their way: what a block has on sm_80, some kB left to reductions.
SHARED_BYTES = 160 * 1024


@triton.jit
def _add_pairs(a, b, c, d):
    return a + c, b + d


@triton.jit
def _rows_kernel(
    grad_ptr, x_ptr, weight_ptr, dx_ptr, partial_ptr, M, N, eps,
    stride_gm, stride_gn, stride_xm, stride_xn, stride_w,
    ROWS: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    lanes = tl.arange(0, BLOCK_N)
    cols = lanes.to(tl.int64)[None, :]
    weight = tl.load(weight_ptr + cols * stride_w, mask=cols < N, other=0.0)
    total = tl.zeros((ROWS, BLOCK_N), dtype=tl.float32)
    step = tl.num_programs(0) * ROWS
    for first in tl.range(tl.program_id(0) * ROWS, M, step, num_stages=STAGES):
        # Row times stride is taken in int64: it passes 2**31 on tensors of a few GB.
        rows = (first + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        mask = (rows < M) & (cols < N)
        x = tl.load(x_ptr + rows * stride_xm + cols * stride_xn, mask=mask, other=0.0)
        grad = tl.load(grad_ptr + rows * stride_gm + cols * stride_gn, mask=mask, other=0.0)
        x = x.to(tl.float32)
        grad = grad.to(tl.float32)
        d_normed = grad * weight.to(tl.float32)
        squares, products = tl.reduce((x * x, d_normed * x), 1, _add_pairs, keep_dims=True)
        scale = tl.rsqrt(squares / N + eps)
        normed = x * scale
        dx = (d_normed - normed * (products * scale / N)) * scale
        tl.store(dx_ptr + rows * N + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)
        total += grad * normed
    partial = partial_ptr + tl.program_id(0) * N + lanes
    tl.store(partial, tl.sum(total, axis=0), mask=lanes < N)


@triton.jit
def _sum_kernel(
    partial_ptr, dweight_ptr, parts, N, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_P, BLOCK_N), dtype=tl.float32)
    for start in tl.range(0, parts, BLOCK_P):
        part = start + tl.arange(0, BLOCK_P)[:, None]
        mask = (part < parts) & (cols < N)[None, :]
        total += tl.load(partial_ptr + part * N + cols[None, :], mask=mask, other=0.0)
    dweight = tl.sum(total, axis=0).to(dweight_ptr.dtype.element_ty)
    tl.store(dweight_ptr + cols, dweight, mask=cols < N)


def _programs(device: torch.device) -> int:
    if device.type != "cuda":
        return CPU_PROGRAMS
    return torch.cuda.get_device_properties(device).multi_processor_count


def kernel_function(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float = EPS,
    tile: int = 4096,
    programs_per_sm: int = 2,
    num_warps: int = 16,
    stages: int = 2,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of RMSNorm of `x` [..., N] over its last dimension, times `weight` [N], where
    `grad` [..., N] is that of its output -> dx, contiguous, and dweight, in the inputs' dtypes.

    Any strides; N is at most `MAX_ROW`. Sums are in float32, in an order that depends on the
    parameters and the number of multiprocessors alone. `num_warps` is raised where the rows need
    more registers, and `stages` lowered where they need more shared memory.
    """
    length = x.shape[-1]
    if grad.shape != x.shape or weight.shape != (length,):
        raise ValueError(f"grad {list(grad.shape)}, x {list(x.shape)} and weight do not fit")
    if length > MAX_ROW:
        raise ValueError(
            f"rows of {length} do not fit in registers (at most {MAX_ROW}): "
            "use rmsnorm-backward-plain"
        )
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not x.numel():
        return dx, torch.zeros_like(weight)
    rows = x.reshape(x.shape[:-1].numel(), length)  # a view wherever the strides allow one
    grad_rows = grad.reshape(rows.shape)
    dweight = torch.empty(length, dtype=weight.dtype, device=x.device)
    block_n = triton.next_power_of_2(length)
    high = max(1, min(tile // block_n, triton.next_power_of_2(rows.shape[0])))
    parts = min(_programs(x.device) * programs_per_sm, triton.cdiv(rows.shape[0], high))
    partial = torch.empty((parts, length), dtype=torch.float32, device=x.device)
    row_bytes = high * block_n * (x.element_size() + grad.element_size())
    _rows_kernel[(parts,)](
        grad_rows, rows, weight, dx, partial, *rows.shape, eps,
        *grad_rows.stride(), *rows.stride(), *weight.stride(),
        ROWS=high, BLOCK_N=block_n, STAGES=max(1, min(stages, SHARED_BYTES // row_bytes)),
        num_warps=max(num_warps, min(32, high * block_n // (32 * MAX_PER_THREAD))),
    )  # fmt: skip
    # Narrow blocks, in many programs: this launch is all latency.
    _sum_kernel[(triton.cdiv(length, 32),)](
        partial, dweight, parts, length, BLOCK_P=64, BLOCK_N=32, num_warps=4
    )
    return dx, dweight


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
