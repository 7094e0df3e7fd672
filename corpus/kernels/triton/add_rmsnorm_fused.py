"""
---
slug: add-rmsnorm-fused
title: Residual addition and RMSNorm in one kernel
op: add-rmsnorm
language: triton
techniques: [kernel-fusion, register-caching]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[16, 128], [7, 100], [5, 3]]
  bench: [16384, 8192]
check_params: {rows_per_program: 2}
sources:
  - title: "Zhang, Sennrich: Root Mean Square Layer Normalization"
    url: https://arxiv.org/abs/1910.07467
    licence: CC-BY-4.0
  - title: "PyTorch: torch.nn.RMSNorm"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.RMSNorm.html
    licence: BSD-3-Clause
  - title: "Triton tutorial: fused softmax"
    url: https://triton-lang.org/main/getting-started/tutorials/02-fused-softmax.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16384x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.3908
  measured_ms: 0.2642
  speedup: 1.479
  floor_fraction: 0.9557
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16384x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.2679
  measured_ms: 0.2642
  speedup: 1.014
  floor_fraction: 0.9557
---

residual' = x + residual; y = RMSNorm(residual') * weight: the step between two blocks of a
transformer, in one kernel. Separately, the addition writes residual' to DRAM and the norm reads it
back: with two reads and one write for the addition, one read and one write for the norm, five
times M * N elements. Fused, the sum stays in registers for the norm and goes out once: two reads
and two writes, and one launch fewer.

The sum is rounded to the input's dtype before it is normalized, so that the result is the same as
that of the two separate operations.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"rows_per_program": [1, 2, 4], "num_warps": [1, 2, 4, 8, 16]}

# Added to the mean square, as in most language models.
EPS = 1e-6

# Elements of a row that one thread can keep in float32 without spilling: half of its registers at
# the largest block of 1024 threads.
MAX_PER_THREAD = 32
# With 1024 threads of 64 registers, a float32 row of half this length spills a few values at most,
# one of this length a part, a longer one most of them.
MAX_ROW = 65536


def _warps(block: int, asked: int) -> int:
    """`asked` warps, or as many as it takes to hold `block` elements in registers, at most 32."""
    return max(asked, min(32, block // (32 * MAX_PER_THREAD)))


@triton.jit
def _add_rmsnorm_kernel(
    x_ptr, residual_ptr, weight_ptr, out_ptr, sum_ptr,
    M, N, eps,
    stride_xm, stride_xn, stride_rm, stride_rn, stride_w, stride_om, stride_on,
    ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK_N)[None, :]
    rows64 = rows.to(tl.int64)
    cols64 = cols.to(tl.int64)
    mask = (rows < M) & (cols < N)
    x = tl.load(x_ptr + rows64 * stride_xm + cols64 * stride_xn, mask=mask, other=0.0)
    residual = tl.load(residual_ptr + rows64 * stride_rm + cols64 * stride_rn, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + cols64 * stride_w, mask=cols < N, other=0.0).to(tl.float32)

    total = (x.to(tl.float32) + residual.to(tl.float32)).to(sum_ptr.dtype.element_ty)
    offsets = rows64 * stride_om + cols64 * stride_on
    tl.store(sum_ptr + offsets, total, mask=mask)

    total = total.to(tl.float32)
    scale = tl.rsqrt(tl.sum(total * total, axis=1, keep_dims=True) / N + eps)
    y = total * scale * weight
    tl.store(out_ptr + offsets, y.to(out_ptr.dtype.element_ty), mask=mask)


def kernel_function(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float = EPS,
    rows_per_program: int = 1,
    num_warps: int = 8,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (RMSNorm(`x + residual`) * `weight`, `x + residual`), both contiguous [..., N].

    `x` and `residual` [..., N] have one shape and dtype, `weight` is [N], N at most `MAX_ROW`.
    """
    if weight.shape != x.shape[-1:]:
        raise ValueError(f"weight {list(weight.shape)} does not fit rows of {x.shape[-1]}")
    if x.shape != residual.shape or x.dtype != residual.dtype:
        raise ValueError(f"x {list(x.shape)} and residual {list(residual.shape)} must be alike")
    length = x.shape[-1]
    if length > MAX_ROW:
        raise ValueError(
            f"rows of {length} do not fit in registers (at most {MAX_ROW}): "
            "add first, then use rmsnorm-plain"
        )
    count = x.shape[:-1].numel()
    rows, residual_rows = x.reshape(count, length), residual.reshape(count, length)
    out, total = (torch.empty(rows.shape, dtype=x.dtype, device=x.device) for _ in range(2))
    block_n = triton.next_power_of_2(max(1, length))
    _add_rmsnorm_kernel[(triton.cdiv(rows.shape[0], rows_per_program),)](
        rows, residual_rows, weight, out, total,
        *rows.shape, eps,
        *rows.stride(), *residual_rows.stride(), *weight.stride(), *out.stride(),
        ROWS=rows_per_program, BLOCK_N=block_n,
        num_warps=_warps(block_n * rows_per_program, num_warps),
    )  # fmt: skip
    return out.view(x.shape), total.view(x.shape)


def reference(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = EPS
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + residual
    return torch.nn.functional.rms_norm(total, weight.shape, weight, eps), total


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [rows, row length]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    x, residual = (
        torch.randn(size, dtype=dtype, device=device, generator=generator) for _ in range(2)
    )
    weight = torch.rand(size[-1], dtype=dtype, device=device, generator=generator) + 0.5
    return [x, residual, weight]
