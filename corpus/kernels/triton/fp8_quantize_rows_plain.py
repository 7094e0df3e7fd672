"""
---
slug: fp8-quantize-rows-plain
title: FP8 quantization with a scale for each row, magnitudes and codes in two kernels
op: quantize-fp8-rows
language: triton
techniques: [low-precision-storage]
architectures: [sm_89]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[4, 64], [3, 100], [1, 33]]
  bench: [16384, 8192]
check_params: {block: 64}
sources:
  - title: "Micikevicius et al.: FP8 Formats for Deep Learning"
    url: https://arxiv.org/abs/2209.05433
    licence: proprietary
  - title: "PyTorch: torch.finfo and torch.float8_e4m3fn"
    url: https://docs.pytorch.org/docs/stable/tensor_attributes.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16384x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.607
  measured_ms: 0.1618
  speedup: 9.932
  floor_fraction: 0.5827
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16384x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1367
  measured_ms: 0.1618
  speedup: 0.8449
  floor_fraction: 0.5827
---

Each row of an activation gets one float32 scale, its largest magnitude divided by 448, and is
stored as E4M3 codes x / scale. One kernel finds the largest magnitudes; a second one reads the
matrix once more from DRAM and writes the codes.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [512, 1024, 2048, 4096], "num_warps": [4, 8]}

# The largest E4M3 number, and the least scale: a block of zeros must not divide by zero.
LARGEST, LEAST = 448.0, 1e-12


@triton.jit
def _e4m3(value, HARDWARE: tl.constexpr):
    """`value`, within +-448, as E4M3, rounded to nearest even."""
    if HARDWARE:
        return value.to(tl.float8e4nv)
    # The CPU interpreter's cast truncates: round before it.
    bits = value.to(tl.int32, bitcast=True)
    normal = (bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20 << 20  # 3 bits of mantissa remain
    # Below 2^-6 the spacing is 2^-9. Near 1.5 * 2^23 float32 holds integers only: the sum rounds.
    small = (value * 512.0 + 12582912.0 - 12582912.0) * 0.001953125
    rounded = tl.where(tl.abs(value) < 0.015625, small, normal.to(tl.float32, bitcast=True))
    return rounded.to(tl.float8e4nv)


@triton.jit
def _quantized(x, scale, HARDWARE: tl.constexpr):
    """E4M3 of `x / scale`; the division may round past the largest number."""
    y = x / scale
    return _e4m3(tl.minimum(tl.maximum(y, -448.0), 448.0), HARDWARE)


@triton.jit
def _scale_kernel(x_ptr, scale_ptr, N, stride_m, stride_n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    largest = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK).to(tl.int64)
        x = tl.load(x_ptr + row * stride_m + at * stride_n, mask=at < N, other=0.0)
        largest = tl.maximum(largest, tl.abs(x.to(tl.float32)))
    tl.store(scale_ptr + row, tl.maximum(tl.max(largest, axis=0), 1e-12) / 448.0)


@triton.jit
def _code_kernel(
    x_ptr, scale_ptr, q_ptr, N, blocks, stride_m, stride_n,
    HARDWARE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) // blocks).to(tl.int64)
    at = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    x = tl.load(x_ptr + row * stride_m + at * stride_n, mask=at < N, other=0.0).to(tl.float32)
    q = _quantized(x, tl.load(scale_ptr + row), HARDWARE)
    tl.store(q_ptr + row * N + at, q, mask=at < N)


def _hardware(x: torch.Tensor) -> bool:
    """Whether the GPU converts to E4M3 in hardware."""
    return x.is_cuda and torch.cuda.get_device_capability(x.device) >= (8, 9)


def kernel_function(
    x: torch.Tensor, block: int = 2048, num_warps: int = 4
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize `x` [M, N], any strides -> codes float8_e4m3fn [M, N], scales float32 [M]:
    x is about code * scale."""
    m, n = x.shape
    q = torch.empty((m, n), dtype=torch.float8_e4m3fn, device=x.device)
    scale = torch.empty((m,), dtype=torch.float32, device=x.device)
    if m * n == 0:
        return q, scale.fill_(LEAST / LARGEST)
    block = min(block, triton.next_power_of_2(n))
    blocks = triton.cdiv(n, block)
    _scale_kernel[(m,)](x, scale, n, *x.stride(), BLOCK=block, num_warps=num_warps)
    _code_kernel[(m * blocks,)](
        x, scale, q, n, blocks, *x.stride(),
        HARDWARE=_hardware(x), BLOCK=block, num_warps=num_warps,
    )  # fmt: skip
    return q, scale


def reference(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    wide = x.float()
    scale = wide.abs().amax(dim=-1).clamp(min=LEAST) / LARGEST
    q = (wide / scale[:, None]).clamp(-LARGEST, LARGEST)
    return q.to(torch.float8_e4m3fn), scale


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator)]
