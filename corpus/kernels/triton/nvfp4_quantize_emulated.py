"""
---
slug: nvfp4-quantize-emulated
title: NVFP4 quantization in plain arithmetic, for GPUs without FP4 conversion
op: quantize
language: triton
techniques: [register-caching, vectorized-access]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[4, 64], [3, 48], [130, 272], [1, 16], [130, 80, 1]]
  bench: [16384, 8192]
check_params: {block: 64}
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
  - title: "Muller et al., Handbook of Floating-Point Arithmetic, 2nd ed., section 4.7"
    url: https://doi.org/10.1007/978-3-319-76526-6
    licence: proprietary
  - title: "cuBLAS: 1D block scaling factors layout"
    url: https://docs.nvidia.com/cuda/cublas/#d-block-scaling-factors-layout
    licence: proprietary
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
  baseline_ms: 7.761
  measured_ms: 0.1183
  speedup: 65.6
  floor_fraction: 0.6808
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16384x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.3976
  measured_ms: 0.1183
  speedup: 3.361
  floor_fraction: 0.6808
---

A row is cut into blocks of 16. With amax the largest magnitude of a block and g a scale for the
whole tensor: scale = E4M3(g * amax / 6), to nearest even, at most 448; code = E2M1(v * g / scale),
to nearest even, at most 6; a zero scale gives zero codes. Two codes share a byte, the even element
in the low nibble. Scales stand in row-major order, or in the tiles of 128 rows by 4 blocks that
block-scaled matrix products read.

A thread has a whole block, loaded as two vectors of 8 (that of 16-bit inputs fills one load), so
neither the maximum nor the packing needs another thread. The conversions are arithmetic on float32,
so the kernel runs on any GPU and in the interpreter. What they cost decides here, not memory:

- A quotient from the approximate reciprocal of the scale gets one correction by FMA. It is exact
  then: the scale has 4 significant bits, so the remainder is exact, and no quotient of 24 bits by
  4 comes closer than 2^-29 to the middle of two floats. IEEE division for each element costs more
  than all the rest, and an approximate one puts ties (bfloat16 inputs have many) on the wrong side.
- Adding 2^23 makes the adder round to nearest even at the wanted bit. E2M1 steps by 1/2 below 2, by
  1 up to 4 and by 2 up to 6, so its code is the least of three such roundings: no comparisons.
- Eight codes are shifted and added into one word.

Where the hardware converts (cvt.rn.satfinite.e2m1x2 on sm_100a) all of this is one instruction a
pair.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [32, 64, 128, 256, 512], "num_warps": [1, 2, 4, 8]}

# Elements that share a scale.
GROUP = 16
# A tile of swizzled scales.
TILE_ROWS, TILE_BLOCKS = 128, 4


@triton.jit
def _divided(a, divisor, inverse):
    """a / divisor as IEEE division rounds it, for a divisor of at most 4 significant bits and its
    reciprocal to within 2^-22."""
    quotient = a * inverse
    return tl.fma(tl.fma(-quotient, divisor, a), inverse, quotient)


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
def _packed(values, scale, inverse):
    """Eight E2M1 codes of each row of `values` [N, 8], the first in the lowest nibble."""
    a = _divided(tl.abs(values), scale[:, None], inverse[:, None])
    # An infinite value gives NaN in the division, and the minimum is the number then.
    a = tl.minimum(a, 6.0)
    # 2^23 and what the code is behind the steps of 1/2 and of 1.
    code = tl.minimum(tl.fma(a, 2.0, 8388608.0), a + 8388610.0)
    code = tl.minimum(code, tl.fma(a, 0.5, 8388612.0)).to(tl.int32, bitcast=True)
    shift = 4 * tl.arange(0, 8)[None, :]
    sign = (values.to(tl.int32, bitcast=True) >> (28 - shift)) & (8 << shift)
    # The bits of 2^23 are 0x4B000000; shifted by 4 they are 0xB0000000, by more they drop out.
    return tl.sum((code << shift) + sign, axis=1) + 0x05000000


@triton.jit
def _quantized(low, high):
    """Codes of blocks of 16, of which `low` and `high` [N, 8] are the halves, as two words [N, 2],
    and the codes of their scales [N]."""
    amax = tl.maximum(tl.max(tl.abs(low), axis=1), tl.max(tl.abs(high), axis=1))
    # 448 * 6 is exact, so taking the minimum before the division changes nothing.
    scale_code, scale = _e4m3(_divided(tl.minimum(amax, 2688.0), 6.0, 0.16666667))
    inverse = 1.0 / scale
    words = tl.join(_packed(low, scale, inverse), _packed(high, scale, inverse))
    return tl.where((scale > 0.0)[:, None], words, 0), scale_code


@triton.jit
def _scale_offsets(row, block, blocks, SWIZZLED: tl.constexpr):
    """Where the scale of a block of a row stands."""
    if SWIZZLED:
        tile = (row // 128) * tl.cdiv(blocks, 4) + block // 4
        return tile * 512 + (row % 32) * 16 + (row % 128) // 32 * 4 + block % 4
    return row * blocks + block


@triton.jit
def _nvfp4_kernel(
    x_ptr, global_ptr, code_ptr, scale_ptr, groups, blocks,
    SWIZZLED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    # A division in int64, which swizzled scales would need, costs as much as five conversions.
    group = (pid.to(tl.int64) if WIDE else pid) * BLOCK + tl.arange(0, BLOCK)
    mask = group < groups
    offsets = group.to(tl.int64)[:, None] * 16 + tl.arange(0, 8)[None, :]
    low = tl.load(x_ptr + offsets, mask=mask[:, None], other=0.0).to(tl.float32)
    high = tl.load(x_ptr + offsets + 8, mask=mask[:, None], other=0.0).to(tl.float32)
    if global_ptr is not None:
        factor = tl.load(global_ptr)
        low, high = low * factor, high * factor
    words, scale_code = _quantized(low, high)
    at = group
    if SWIZZLED:
        at = _scale_offsets(group // blocks, group % blocks, blocks, SWIZZLED)
    tl.store(scale_ptr + at, scale_code.to(tl.uint8), mask=mask)
    words_at = group.to(tl.int64)[:, None] * 2 + tl.arange(0, 2)[None, :]
    tl.store(code_ptr + words_at, words, mask=mask[:, None])


def _outputs(
    lead: torch.Size, length: int, swizzled: bool, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory for codes as words of eight, and for scales as bytes."""
    codes = torch.empty((*lead, length // 8), dtype=torch.int32, device=device)
    blocks = length // GROUP
    if not swizzled:
        return codes, torch.empty((*lead, blocks), dtype=torch.uint8, device=device)
    rows = lead.numel()
    shape = [rows + -rows % TILE_ROWS, blocks + -blocks % TILE_BLOCKS]
    # Zero where there is no block.
    make = torch.empty if shape == [rows, blocks] else torch.zeros
    return codes, make(shape, dtype=torch.uint8, device=device)


def kernel_function(
    x: torch.Tensor,
    global_scale: torch.Tensor | None = None,
    swizzled: bool = False,
    block: int = 128,
    num_warps: int = 4,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize the rows of `x` [..., N] (made contiguous first) to NVFP4; N a multiple of 16.

    `global_scale` is one positive float32 on the same device (1 when None). Returns the codes,
    uint8 [..., N / 2], and the block scales, float8_e4m3fn [..., N / 16]; `swizzled`: in tiles,
    [rows up to a multiple of 128, N / 16 up to one of 4], with zeros where there is no block.
    Values must not be NaN.
    """
    if x.ndim == 0 or x.shape[-1] % GROUP:
        raise ValueError(f"the rows of x {list(x.shape)} must be a multiple of {GROUP} long")
    x = x.contiguous()
    lead, length = x.shape[:-1], x.shape[-1]
    codes, scales = _outputs(lead, length, swizzled, x.device)
    groups = x.numel() // GROUP
    if groups:
        _nvfp4_kernel[(triton.cdiv(groups, block),)](
            x, global_scale, codes, scales, groups, length // GROUP,
            SWIZZLED=swizzled, WIDE=2 * groups + block >= 2**31, BLOCK=block, num_warps=num_warps,
        )  # fmt: skip
    return codes.view(torch.uint8), scales.view(torch.float8_e4m3fn)


def reference(
    x: torch.Tensor, global_scale: torch.Tensor | None = None, swizzled: bool = False
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
    packed = codes[..., 0::2] | (codes[..., 1::2] << 4)
    if not swizzled:
        return packed, scales
    table = scales.view(torch.uint8).flatten(0, -2)
    padding = (0, -table.shape[1] % TILE_BLOCKS, 0, -table.shape[0] % TILE_ROWS)
    padded = torch.nn.functional.pad(table, padding)
    tiles = padded.unflatten(0, (-1, 4, 32)).unflatten(-1, (-1, 4)).permute(0, 3, 2, 1, 4)
    return packed, tiles.reshape(padded.shape).contiguous().view(torch.float8_e4m3fn)


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | bool]:
    """`size` is [rows, row length], and 1 for swizzled scales; the magnitude differs from row to
    row, as activations' do."""
    rows, length, swizzled = (*size, 0)[:3]
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn((rows, length), device=device, generator=generator)
    x *= torch.logspace(-2, 2, rows, device=device).unsqueeze(-1)
    # The usual choice: the largest value of all gets the largest scale times the largest code.
    global_scale = (448.0 * 6.0 / x.abs().amax()).reshape(1)
    return [x.to(dtype), global_scale, bool(swizzled)]
