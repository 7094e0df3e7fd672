"""
---
slug: rmsnorm-register-cached
title: RMSNorm that reads each row once, with warps and rows per program to tune
op: rmsnorm
language: triton
techniques: [register-caching, occupancy-tuning]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: rmsnorm-plain
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
  - title: "CUDA C++ Best Practices Guide"
    url: https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x8192
  dtype: bfloat16
  baseline: rmsnorm-plain
  baseline_ms: 0.1339
  measured_ms: 0.1306
  speedup: 1.025
  floor_fraction: 0.9658
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.2097
  measured_ms: 0.1306
  speedup: 1.606
  floor_fraction: 0.9658
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.127
  measured_ms: 0.1306
  speedup: 0.9724
  floor_fraction: 0.9658
---

y = x / sqrt(mean(x^2) + eps) * weight over the last dimension. The row is loaded once and stays in
registers from the sum of squares to the store: 2 * M * N elements of traffic, the least possible.

What remains is to keep enough bytes in flight while programs sit in their reduction, and that is a
question of occupancy. Three knobs: `num_warps` (few warps: each thread holds much of the row,
cheap reduction, few programs resident; many: the reverse), `rows_per_program` (two rows give the
scheduler two independent chains of loads) and `maxnreg`, a ceiling on registers a thread that
makes room for more programs and, set too low, spills. The best setting depends on the row length;
occupancy is a means, and the highest is seldom the fastest.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "rows_per_program": [1, 2, 4],
    "num_warps": [1, 2, 4, 8, 16],
    "maxnreg": [0, 32, 64, 128],
}

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
def _rmsnorm_kernel(
    x_ptr, weight_ptr, out_ptr,
    M, N, eps,
    stride_xm, stride_xn, stride_w, stride_om, stride_on,
    ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK_N)[None, :]
    rows64 = rows.to(tl.int64)
    cols64 = cols.to(tl.int64)
    mask = (rows < M) & (cols < N)
    # The weight does not depend on the row: its load overlaps with that of x.
    weight = tl.load(weight_ptr + cols64 * stride_w, mask=cols < N, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + rows64 * stride_xm + cols64 * stride_xn, mask=mask, other=0.0)
    x = x.to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=1, keep_dims=True) / N + eps)
    y = x * scale * weight
    out_ptrs = out_ptr + rows64 * stride_om + cols64 * stride_on
    tl.store(out_ptrs, y.to(out_ptr.dtype.element_ty), mask=mask)


def kernel_function(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float = EPS,
    rows_per_program: int = 1,
    num_warps: int = 8,
    maxnreg: int = 0,
) -> torch.Tensor:
    """Return RMSNorm of `x` [..., N] over its last dimension, times `weight` [N], contiguous.

    N is at most `MAX_ROW`. `num_warps` is raised where the rows need more registers; `maxnreg` 0
    leaves the number of registers to the compiler.
    """
    if weight.shape != x.shape[-1:]:
        raise ValueError(f"weight {list(weight.shape)} does not fit rows of {x.shape[-1]}")
    length = x.shape[-1]
    if length > MAX_ROW:
        raise ValueError(
            f"rows of {length} do not fit in registers (at most {MAX_ROW}): use rmsnorm-plain"
        )
    rows = x.reshape(x.shape[:-1].numel(), length)  # a view wherever the strides allow one
    out = torch.empty(rows.shape, dtype=x.dtype, device=x.device)
    block_n = triton.next_power_of_2(max(1, length))
    _rmsnorm_kernel[(triton.cdiv(rows.shape[0], rows_per_program),)](
        rows, weight, out,
        *rows.shape, eps,
        *rows.stride(), *weight.stride(), *out.stride(),
        ROWS=rows_per_program, BLOCK_N=block_n,
        num_warps=_warps(block_n * rows_per_program, num_warps), maxnreg=maxnreg or None,
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
