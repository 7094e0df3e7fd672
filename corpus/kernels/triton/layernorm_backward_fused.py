"""
---
slug: layernorm-backward-fused
title: Gradients of LayerNorm in one pass, the weight's and the bias's summed in registers
op: layernorm-backward
language: triton
techniques: [persistent-kernel, atomics-privatization, register-caching]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[16, 128], [7, 100], [5, 3], [30, 64]]
  bench: [16384, 4096]
check_params: {tile: 256, programs: 3}
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
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 16384x4096
  dtype: bfloat16
  baseline: eager
  baseline_ms: 2.768
  measured_ms: 0.1088
  speedup: 25.44
  floor_fraction: 0.8655
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 16384x4096
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.4159
  measured_ms: 0.1088
  speedup: 3.823
  floor_fraction: 0.8655
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 16384x4096
  dtype: bfloat16
  baseline: vendor library
  baseline_ms: 0.2403
  measured_ms: 0.1088
  speedup: 2.209
  floor_fraction: 0.8655
---

The gradient of x needs two sums along each row, those of the weight and the bias need a sum over
all rows. Computed one after the other they read x and the output's gradient twice. Here P
programs, two a multiprocessor, run through the rows, program p through tiles p, p + P, p + 2 P and
so on. A tile of rows is in registers, and so are both sums over rows, to which it is added. Each
program writes two float32 rows at the end; a second kernel adds these up. Traffic is that of dx
alone: two reads and one write of x's size. The order of additions is fixed, so results are equal
from run to run; atomics would also cost an addition in L2 for every element.

The forward pass leaves mean and 1 / sqrt(variance + eps) of each row. Where it did not, the row is
in registers anyway: two more sums give both.

`tl.range` with `num_stages` copies the next rows to shared memory while one tile is computed.
Short rows are taken several at once, `tile` elements in all. The sums over rows hold two registers
for each element of the tile, so long rows need many warps.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "tile": [2048, 4096, 8192],
    "programs": [132, 264, 528],
    "num_warps": [4, 8, 16, 32],
    "stages": [1, 2, 3],
}

# Of this length a few registers spill, with 1024 threads; of twice the length most of them.
MAX_ROW = 16384


@triton.jit
def _rows_kernel(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, partial_ptr, M, N,
    ROWS: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK_N)[None, :]
    weight = tl.load(weight_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    dweight = tl.zeros((ROWS, BLOCK_N), dtype=tl.float32)
    dbias = tl.zeros((ROWS, BLOCK_N), dtype=tl.float32)
    step = tl.num_programs(0) * ROWS
    for first in tl.range(tl.program_id(0) * ROWS, M, step, num_stages=STAGES):
        row = first + tl.arange(0, ROWS)[:, None]
        mask = (row < M) & (cols < N)
        # Row times length is taken in int64: it passes 2**31 on tensors of a few GB.
        at = row.to(tl.int64) * N + cols
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + at, mask=mask, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + row, mask=row < M, other=0.0)
        rstd = tl.load(rstd_ptr + row, mask=row < M, other=0.0)
        normed = (x - mean) * rstd
        # Work fused into inputs goes above; past a row dy is 0, and so is all that it multiplies.
        d_normed = dy * weight
        along = tl.sum(d_normed * normed, axis=1, keep_dims=True)
        total = tl.sum(d_normed, axis=1, keep_dims=True)
        dx = (d_normed - (normed * along + total) / N) * rstd
        tl.store(dx_ptr + at, dx, mask=mask)
        dweight += dy * normed
        dbias += dy
    part = partial_ptr + tl.program_id(0) * 2 * N + cols
    tl.store(part, tl.sum(dweight, axis=0, keep_dims=True), mask=cols < N)
    tl.store(part + N, tl.sum(dbias, axis=0, keep_dims=True), mask=cols < N)


@triton.jit
def _sum_kernel(partial_ptr, out_ptr, parts, N2, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr):
    """The sums of `parts` rows of N2 elements."""
    cols = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    part = tl.arange(0, BLOCK_P)[:, None]
    mask = (part < parts) & (cols < N2)
    rows = tl.load(partial_ptr + part * N2 + cols, mask=mask, other=0.0)
    tl.store(out_ptr + cols, tl.sum(rows, axis=0, keep_dims=True), mask=cols < N2)


def kernel_function(
    dy: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    tile: int = 4096,
    programs: int = 264,
    num_warps: int = 16,
    stages: int = 2,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of LayerNorm of `x` [..., N] over its last dimension, times `weight` [N], plus a
    bias, where `dy` [..., N] is that of its output -> dx, dweight, dbias in the inputs' dtypes.

    `mean` and `rstd` [...] float32 are each row's mean and 1 / sqrt(variance + eps). N is at most
    `MAX_ROW`. Inputs that are not contiguous are copied. Sums are in float32, in an order that
    depends on the parameters alone.
    """
    length = x.shape[-1]
    if dy.shape != x.shape or weight.shape != (length,) or mean.shape != x.shape[:-1]:
        raise ValueError(f"dy {list(dy.shape)}, x {list(x.shape)}, weight and mean do not fit")
    if length > MAX_ROW:
        raise ValueError(f"rows of {length} do not fit in registers (at most {MAX_ROW})")
    dy, x, weight, mean, rstd = (each.contiguous() for each in (dy, x, weight, mean, rstd))
    dx, rows = torch.empty_like(x), mean.numel()
    sums = torch.zeros((2, length), dtype=weight.dtype, device=x.device)
    if not x.numel():
        return dx, sums[0], sums[1]
    block_n = triton.next_power_of_2(length)
    high = max(1, min(tile // block_n, triton.next_power_of_2(rows)))
    parts = min(programs, triton.cdiv(rows, high))
    partial = torch.empty((parts, 2, length), dtype=torch.float32, device=x.device)
    _rows_kernel[(parts,)](
        dy, x, weight, mean, rstd, dx, partial, rows, length,
        ROWS=high, BLOCK_N=block_n, num_warps=max(num_warps, block_n // 512),
        # Two stages of the longest float32 rows do not fit in shared memory.
        STAGES=stages if high * block_n * x.element_size() < 2**16 else 1,
    )  # fmt: skip
    # Narrow blocks, in many programs: this launch is all latency.
    _sum_kernel[(triton.cdiv(2 * length, 32),)](
        partial, sums, parts, 2 * length,
        BLOCK_P=triton.next_power_of_2(parts), BLOCK_N=32, num_warps=8,
    )  # fmt: skip
    return dx, sums[0], sums[1]


def reference(
    dy: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    wide = torch.promote_types(x.dtype, torch.float32)
    dy_wide = dy.to(wide)
    normed = (x.to(wide) - mean[..., None]) * rstd[..., None]
    d_normed = dy_wide * weight.to(wide)
    along = (d_normed * normed).mean(-1, keepdim=True)
    dx = (d_normed - normed * along - d_normed.mean(-1, keepdim=True)) * rstd[..., None]
    dweight, dbias = torch.stack((dy_wide * normed, dy_wide)).flatten(1, -2).sum(1)
    return dx.to(x.dtype), dweight.to(weight.dtype), dbias.to(weight.dtype)


def library(
    dy: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
) -> tuple[torch.Tensor, ...]:
    """PyTorch's own kernels for the gradients of LayerNorm."""
    return torch.ops.aten.native_layer_norm_backward(
        dy, x, weight.shape, mean[..., None], rstd[..., None], weight, torch.zeros_like(weight),
        [True, True, True],
    )  # fmt: skip


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [rows, row length]; of one or two elements, dx would be rounding alone."""
    if size[-1] in {1, 2}:
        raise ValueError("rows of one or two elements cannot be compared: all of dx is rounding")
    generator = torch.Generator(device=device).manual_seed(seed)
    dy, x = (torch.randn(size, dtype=dtype, device=device, generator=generator) for _ in range(2))
    x = x * 1.5 + 0.3
    weight = torch.rand(size[-1], dtype=dtype, device=device, generator=generator) + 0.5
    rows = x.to(torch.promote_types(dtype, torch.float32))
    rstd = torch.rsqrt(rows.var(-1, unbiased=False) + 1e-5)
    return [dy, x, weight, rows.mean(-1), rstd]
