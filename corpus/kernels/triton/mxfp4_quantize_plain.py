"""
---
slug: mxfp4-quantize-plain
title: MXFP4 quantization by comparison with every rounding threshold
op: quantize-mxfp4
language: triton
techniques: [low-precision-storage]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[4, 64], [3, 160], [1, 32]]
  bench: [16384, 8192]
check_params: {groups: 4}
sources:
  - title: "Open Compute Project: Microscaling formats (MX) specification"
    url: https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf
    licence: proprietary
  - title: "Rouhani et al.: Microscaling data formats for deep learning"
    url: https://arxiv.org/abs/2310.10537
    licence: CC-BY-4.0
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
  baseline_ms: 7.041
  measured_ms: 0.1616
  speedup: 43.57
  floor_fraction: 0.4922
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16384x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.3685
  measured_ms: 0.1616
  speedup: 2.28
  floor_fraction: 0.4922
---

32 neighbours of a row share a scale, a power of two stored as its biased exponent (E8M0): that of
their largest magnitude, less 2, the exponent of E2M1's largest power of two. Codes are E2M1 of x /
scale: sign and one of 0, 0.5, 1, 1.5, 2, 3, 4, 6, two to a byte, the earlier element in the low
half. The code of a magnitude is the number of thresholds below it: seven comparisons and additions
an element.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"groups": [32, 64, 128, 256], "num_warps": [2, 4, 8]}

# Elements that share a scale.
GROUP = 32


@triton.jit
def _code(a):
    """E2M1 code of a magnitude, rounded to the nearest, ties to even."""
    code = tl.where(a > 0.25, 1, 0) + tl.where(a >= 0.75, 1, 0) + tl.where(a > 1.25, 1, 0)
    code += tl.where(a >= 1.75, 1, 0) + tl.where(a > 2.5, 1, 0) + tl.where(a >= 3.5, 1, 0)
    return code + tl.where(a > 5.0, 1, 0)


@triton.jit
def _quantize_kernel(x_ptr, q_ptr, scale_ptr, total, GROUPS: tl.constexpr, GROUP: tl.constexpr):
    group = tl.program_id(0).to(tl.int64) * GROUPS + tl.arange(0, GROUPS)
    mask = group < total
    at = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    x = tl.load(x_ptr + at, mask=mask[:, None], other=0.0).to(tl.float32)
    exponent = tl.max(tl.abs(x), axis=1).to(tl.int32, bitcast=True) >> 23
    scale = tl.maximum(exponent - 2, 0)
    inverse = ((254 - scale) << 23).to(tl.float32, bitcast=True)  # 2^(127 - scale), exact
    y = x * inverse[:, None]
    code = _code(tl.abs(y)) | tl.where(y.to(tl.int32, bitcast=True) < 0, 8, 0)
    low, high = tl.split(tl.reshape(code, (GROUPS, GROUP // 2, 2)))
    place = group[:, None] * (GROUP // 2) + tl.arange(0, GROUP // 2)[None, :]
    tl.store(q_ptr + place, (low | (high << 4)).to(tl.uint8), mask=mask[:, None])
    tl.store(scale_ptr + group, scale.to(tl.uint8), mask=mask)


def kernel_function(
    x: torch.Tensor, groups: int = 64, num_warps: int = 4
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize `x` [..., N] to MXFP4; N a multiple of 32, values finite.

    Returns codes, uint8 [..., N / 2], two to a byte, and scales, uint8 [..., N / 32]. A
    program takes `groups` groups of 32.
    """
    n = x.shape[-1]
    if n % GROUP:
        raise ValueError(f"rows of {n} are no multiple of {GROUP}")
    x = x.contiguous()
    q = torch.empty((*x.shape[:-1], n // 2), dtype=torch.uint8, device=x.device)
    scale = torch.empty((*x.shape[:-1], n // GROUP), dtype=torch.uint8, device=x.device)
    if scale.numel():
        _quantize_kernel[(triton.cdiv(scale.numel(), groups),)](
            x, q, scale, scale.numel(), GROUPS=groups, GROUP=GROUP, num_warps=num_warps
        )
    return q, scale


def reference(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    blocks = x.float().unflatten(-1, (-1, GROUP))
    exponent = blocks.abs().amax(dim=-1).view(torch.int32) >> 23
    scale = (exponent - 2).clamp(min=0)
    y = torch.ldexp(blocks, (127 - scale).unsqueeze(-1))
    a = y.abs()
    code = torch.zeros_like(a, dtype=torch.uint8)
    for threshold in (0.25, 1.25, 2.5, 5.0):
        code += a > threshold
    for threshold in (0.75, 1.75, 3.5):
        code += a >= threshold
    code |= torch.signbit(y).to(torch.uint8) << 3
    code = code.flatten(-2)
    return code[..., ::2] | (code[..., 1::2] << 4), scale.to(torch.uint8)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator)]
