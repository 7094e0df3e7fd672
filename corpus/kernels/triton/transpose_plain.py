"""
---
slug: transpose-plain
title: Matrix transpose that reads along rows and writes down columns
op: transpose
language: triton
techniques: []
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[24, 128], [17, 45], [1, 33]]
  bench: [16384, 16384]
check_params: {block_n: 128}
sources:
  - title: "NVIDIA technical blog: An Efficient Matrix Transpose in CUDA C/C++"
    url: https://developer.nvidia.com/blog/efficient-matrix-transpose-cuda-cc/
    licence: proprietary
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
  shape: 16384x16384
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.697
  measured_ms: 3.784
  speedup: 0.4485
  floor_fraction: 0.06666
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x16384
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.3138
  measured_ms: 3.784
  speedup: 0.08293
  floor_fraction: 0.06666
---

out = x^T, written the direct way: a program takes BLOCK_N neighbours of one row and stores each
where it belongs. The reads are coalesced. The stores are not: neighbouring threads write M
elements apart, so a warp's 32 values touch 32 different 32-byte sectors, and of each sector only
one element is meant. DRAM and L2 move up to 16 times what a 16-bit result holds (8 times for 32
bits), less what the caches merge. Storing coalesced and reading strided only moves the problem to
the other side.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block_n": [128, 256, 512, 1024], "num_warps": [1, 2, 4, 8]}


@triton.jit
def _transpose_kernel(
    x_ptr, out_ptr,
    N,
    stride_xm, stride_xn, stride_om, stride_on,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    chunks = tl.cdiv(N, BLOCK_N)
    row = (tl.program_id(0) // chunks).to(tl.int64)
    cols = (tl.program_id(0) % chunks) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = cols < N
    cols64 = cols.to(tl.int64)
    values = tl.load(x_ptr + row * stride_xm + cols64 * stride_xn, mask=mask)
    # stride_om is the height of x: neighbours in `values` end up far apart.
    tl.store(out_ptr + cols64 * stride_om + row * stride_on, values, mask=mask)


def kernel_function(x: torch.Tensor, block_n: int = 256, num_warps: int = 4) -> torch.Tensor:
    """Return the transpose of `x` [M, N], any strides, as a contiguous [N, M]."""
    m, n = x.shape
    out = torch.empty((n, m), dtype=x.dtype, device=x.device)
    _transpose_kernel[(m * triton.cdiv(n, block_n),)](
        x, out, n, *x.stride(), *out.stride(), BLOCK_N=block_n, num_warps=num_warps
    )
    return out


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous()


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator)]
