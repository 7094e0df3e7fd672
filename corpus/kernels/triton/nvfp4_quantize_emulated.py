"""
---
slug: nvfp4-quantize-emulated
title: NVFP4 quantization in plain arithmetic, for GPUs without FP4 conversion
op: quantize
language: triton
techniques: [register-caching]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[4, 64], [3, 48], [130, 272], [1, 16]]
  bench: [16384, 8192]
check_params: {block: 128}
sources:
  - title: "NVIDIA: Introducing NVFP4 for Efficient and Accurate Low-Precision Inference"
    url: https://developer.nvidia.com/blog/introducing-nvfp4-for-efficient-and-accurate-low-precision-inference/
    licence: proprietary
  - title: "Open Compute Project: Microscaling Formats (MX) Specification 1.0, section 5.3 (E2M1)"
    url: https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf
    licence: proprietary
  - title: "PTX ISA: cvt"
    url: https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cvt
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
  baseline: eager
  baseline_ms: 7.847
  measured_ms: 0.2191
  speedup: 35.81
  floor_fraction: 0.3688
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-21
  shape: 16384x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.3951
  measured_ms: 0.2191
  speedup: 1.803
  floor_fraction: 0.3688
---

A row is cut into blocks of 16. With amax the largest magnitude of a block and g a scale for the
whole tensor: scale = E4M3(g * amax / 6), to nearest even, at most 448; code = E2M1(v * g / scale),
to nearest even, at most 6; a zero scale gives zero codes. Two codes share a byte, the even element
in the low nibble; scales stand in row-major order.

Each value is loaded once and stays in registers through the maximum, the division and the packing;
16 bits in, 4.5 bits out. The conversions are arithmetic on float32 bits, so the kernel runs on any
GPU and in the interpreter. Both divisions must round as IEEE does (`tl.div_rn`): bfloat16 inputs
hit ties often, and a quotient that is off by one unit falls on the wrong side. Where the hardware
converts (cvt.rn.satfinite.e2m1x2 on sm_100a), the comparisons below are a single instruction a
pair.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [32, 64, 128, 256, 512], "num_warps": [2, 4, 8]}

# Elements that share a scale.
GROUP = 16


@triton.jit
def _e4m3(value):
    """Nearest E4M3 to `value` in [0, 448], ties to even: its code, and what the code stands for."""
    bits = value.to(tl.int32, bitcast=True)
    # Round to 3 mantissa bits: half a unit less one, plus one where the kept part is odd.
    rounded = bits + 0x7FFFF + ((bits >> 20) & 1)
    normal_code = (rounded >> 20) - (120 << 3)  # exponent bias 127 becomes 7
    normal = ((rounded >> 20) << 20).to(tl.float32, bitcast=True)
    # Below 2^-6 the spacing is 2^-9. At 2^23 float32 holds integers only, so the addition rounds.
    shifted = value * 512.0 + 8388608.0
    small_code = shifted.to(tl.int32, bitcast=True) - 0x4B000000
    small = small_code.to(tl.float32) * 0.001953125
    is_small = value < 0.015625
    return tl.where(is_small, small_code, normal_code), tl.where(is_small, small, normal)


@triton.jit
def _e2m1_magnitude(value):
    """Code 0 to 7 of the nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6; ties go to the even code."""
    code = (value > 0.25).to(tl.int32)
    code += (value >= 0.75).to(tl.int32)
    code += (value > 1.25).to(tl.int32)
    code += (value >= 1.75).to(tl.int32)
    code += (value > 2.5).to(tl.int32)
    code += (value >= 3.5).to(tl.int32)
    code += (value > 5.0).to(tl.int32)
    return code


@triton.jit
def _nvfp4_kernel(
    x_ptr, global_ptr, code_ptr, scale_ptr, groups, GROUP: tl.constexpr, BLOCK: tl.constexpr
):
    group = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = group < groups
    offsets = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    x = tl.load(x_ptr + offsets, mask=mask[:, None], other=0.0).to(tl.float32)
    if global_ptr is not None:
        x *= tl.load(global_ptr)

    amax = tl.max(tl.abs(x), axis=1)
    six = tl.full((BLOCK,), 6.0, tl.float32)
    scale_code, scale = _e4m3(tl.minimum(tl.div_rn(amax, six), 448.0))
    tl.store(scale_ptr + group, scale_code.to(tl.uint8), mask=mask)

    usable = (scale > 0.0)[:, None]
    quotient = tl.div_rn(x, tl.broadcast_to(tl.where(usable, scale[:, None], 1.0), x.shape))
    sign = (quotient.to(tl.int32, bitcast=True) >> 28) & 8
    code = tl.where(usable, _e2m1_magnitude(tl.abs(quotient)) | sign, 0)

    low, high = tl.split(tl.reshape(code, (BLOCK, GROUP // 2, 2)))
    packed = (low | (high << 4)).to(tl.uint8)
    byte_offsets = group[:, None] * (GROUP // 2) + tl.arange(0, GROUP // 2)[None, :]
    tl.store(code_ptr + byte_offsets, packed, mask=mask[:, None])


def kernel_function(
    x: torch.Tensor,
    global_scale: torch.Tensor | None = None,
    block: int = 128,
    num_warps: int = 4,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize the rows of `x` [..., N] (made contiguous first) to NVFP4; N a multiple of 16.

    `global_scale` is one positive float32 on the same device (1 when None). Returns the codes,
    uint8 [..., N / 2], and the block scales, float8_e4m3fn [..., N / 16]. Values must not be NaN.
    """
    if x.ndim == 0 or x.shape[-1] % GROUP:
        raise ValueError(f"the rows of x {list(x.shape)} must be a multiple of {GROUP} long")
    x = x.contiguous()
    lead, length = x.shape[:-1], x.shape[-1]
    codes = torch.empty((*lead, length // 2), dtype=torch.uint8, device=x.device)
    scales = torch.empty((*lead, length // GROUP), dtype=torch.uint8, device=x.device)
    groups = x.numel() // GROUP
    _nvfp4_kernel[(triton.cdiv(groups, block),)](
        x, global_scale, codes, scales, groups, GROUP=GROUP, BLOCK=block, num_warps=num_warps
    )
    return codes, scales.view(torch.float8_e4m3fn)


def reference(
    x: torch.Tensor, global_scale: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    values = x.float() if global_scale is None else x.float() * global_scale
    groups = values.unflatten(-1, (-1, GROUP))
    # Divided by a tensor: on a GPU PyTorch turns division by a number into a multiplication.
    six = values.new_full((), 6.0)
    scales = (groups.abs().amax(dim=-1) / six).clamp(max=448.0).to(torch.float8_e4m3fn)
    divisor = scales.float().unsqueeze(-1)
    quotient = torch.where(divisor > 0, groups / divisor, 0.0)
    magnitude = quotient.abs()
    codes = torch.signbit(quotient).to(torch.uint8) * 8
    for threshold in (0.25, 1.25, 2.5, 5.0):  # half-way up to an odd code: the tie stays below
        codes += magnitude > threshold
    for threshold in (0.75, 1.75, 3.5):  # half-way up to an even code: the tie goes there
        codes += magnitude >= threshold
    codes = codes.flatten(-2)
    return codes[..., 0::2] | (codes[..., 1::2] << 4), scales


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [rows, row length]; the magnitude differs from row to row, as activations' do."""
    rows, length = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn((rows, length), device=device, generator=generator)
    x *= torch.logspace(-2, 2, rows, device=device).unsqueeze(-1)
    # The usual choice: the largest value of all gets the largest scale times the largest code.
    global_scale = (448.0 * 6.0 / x.abs().amax()).reshape(1)
    return [x.to(dtype), global_scale]
