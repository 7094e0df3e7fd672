"""
---
slug: fp8-quantize-tensor
title: FP8 quantization with one scale for a tensor, the second pass against the order of the first
op: quantize-fp8-tensor
language: triton
techniques: [low-precision-storage, cache-eviction-hints, kernel-fusion]
architectures: [sm_89]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[4, 64], [3, 100], [1, 33]]
  bench: [16384, 8192]
check_params: {block: 128}
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
  baseline_ms: 1.558
  measured_ms: 0.1635
  speedup: 9.529
  floor_fraction: 0.5766
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16384x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.2892
  measured_ms: 0.1635
  speedup: 1.769
  floor_fraction: 0.5766
---

One scale for the whole tensor needs two passes: nothing can be coded before the last element was
seen. The first pass writes one maximum a program, without atomics; each program of the second pass
reads all of them, a few KB that lie in L2, so that no third launch is needed and the scale never
leaves the GPU. The second pass takes the tensor from its end: what the first one read last is
still in L2, and each block is read with a hint that it will not be needed again.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [2048, 4096, 8192], "num_warps": [4, 8]}

# Programs of the first pass: their maxima are what every program of the second one reads.
PARTS = 1024

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
def _largest_kernel(x_ptr, parts_ptr, total, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    largest = tl.zeros((BLOCK,), tl.float32)
    blocks = tl.cdiv(total, BLOCK)
    # In turns, so that all programs read neighbouring blocks and end at the end of the tensor.
    for block in tl.range(tl.program_id(0), blocks, PARTS):
        # Counted in int64: tensors of a few GB have more than 2**31 elements.
        at = tl.cast(block, tl.int64) * BLOCK + lane
        x = tl.load(x_ptr + at, mask=at < total, other=0.0)
        largest = tl.maximum(largest, tl.abs(x.to(tl.float32)))
    tl.store(parts_ptr + tl.program_id(0), tl.max(largest, axis=0))


@triton.jit
def _code_kernel(
    x_ptr, parts_ptr, q_ptr, scale_ptr, total,
    PARTS: tl.constexpr, HARDWARE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    largest = tl.max(tl.load(parts_ptr + tl.arange(0, PARTS)), axis=0)
    scale = tl.maximum(largest, 1e-12) / 448.0
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    at = tl.cast(block, tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < total, other=0.0, eviction_policy="evict_first")
    tl.store(q_ptr + at, _quantized(x.to(tl.float32), scale, HARDWARE), mask=at < total)
    if block == 0:
        tl.store(scale_ptr, scale)


def _hardware(x: torch.Tensor) -> bool:
    """Whether the GPU converts to E4M3 in hardware."""
    return x.is_cuda and torch.cuda.get_device_capability(x.device) >= (8, 9)


def kernel_function(
    x: torch.Tensor, block: int = 4096, num_warps: int = 4
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize `x` of any shape -> codes float8_e4m3fn of its shape, scale float32 []: x is about
    code * scale. Where `x` is not contiguous it is copied."""
    x = x.contiguous()
    q = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
    scale = torch.empty((), dtype=torch.float32, device=x.device)
    total = x.numel()
    if total == 0:
        return q, scale.fill_(LEAST / LARGEST)
    parts = torch.empty((PARTS,), dtype=torch.float32, device=x.device)
    block = min(block, triton.next_power_of_2(total))
    # Few blocks: the maxima of programs that do not run are 0.
    programs = min(PARTS, triton.cdiv(total, block))
    if programs < PARTS:
        parts.zero_()
    _largest_kernel[(programs,)](x, parts, total, PARTS=programs, BLOCK=block, num_warps=num_warps)
    _code_kernel[(triton.cdiv(total, block),)](
        x, parts, q, scale, total,
        PARTS=PARTS, HARDWARE=_hardware(x), BLOCK=block, num_warps=num_warps,
    )  # fmt: skip
    return q, scale


def reference(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    wide = x.float()
    scale = wide.abs().amax().clamp(min=LEAST) / LARGEST
    return (wide / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn), scale


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is the tensor's shape."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator)]
