"""
---
slug: silu-mul-nvfp4-emulated
title: SiLU of a gate times its partner, quantized to NVFP4 in the same pass
op: silu-mul-quantize
language: triton
techniques: [kernel-fusion, vectorized-access, register-caching]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[4, 64], [3, 48], [33, 272], [1, 16]]
  bench: [2048, 14336]
check_params: {block: 32}
sources:
  - title: "NVIDIA: Introducing NVFP4 for Efficient and Accurate Low-Precision Inference"
    url: https://developer.nvidia.com/blog/introducing-nvfp4-for-efficient-and-accurate-low-precision-inference/
    licence: proprietary
  - title: "Open Compute Project: Microscaling Formats (MX) Specification 1.0, section 5.3 (E2M1)"
    url: https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf
    licence: proprietary
  - title: "Shazeer: GLU Variants Improve Transformer"
    url: https://arxiv.org/abs/2002.05202
    licence: CC-BY-4.0
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 2048x14336
  dtype: bfloat16
  baseline: eager
  baseline_ms: 2.062
  measured_ms: 0.04262
  speedup: 48.38
  floor_fraction: 0.7359
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 2048x14336
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1619
  measured_ms: 0.04262
  speedup: 3.799
  floor_fraction: 0.7359
---

The step between the two products of a gated feed-forward layer whose second product reads NVFP4.
A row of x is a gate and an up part of N each; silu(gate) * up is computed in float32 and quantized
without being rounded or written in between: 2 * N values of 16 bits in, 4.5 bits of each of N out.
Apart, the two steps write and read another 2 * N bytes a row, and round once more.

A thread computes a whole block of 16, from four vectors of 8 values, and quantizes it as
nvfp4-quantize-emulated does: with the largest magnitude as amax and g a scale for the whole
tensor, scale = E4M3(g * amax / 6), code = E2M1(v * g / scale), both to nearest even. Arithmetic
decides how fast it is where the conversion is emulated, so the sigmoid is two approximate
instructions: 2^x, and the square of the reciprocal root of 1 + 2^x, each within 2^-22 of its value.
A division has eight.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [32, 64, 128, 256], "num_warps": [1, 2, 4, 8]}

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
def _silu_mul(gate, up):
    """silu(gate) * up in float32; -log2(e) turns the exponential into a power of two."""
    root = tl.rsqrt(1.0 + tl.exp2(gate * -1.4426950408889634))
    return gate * (root * root) * up


@triton.jit
def _silu_mul_nvfp4_kernel(
    x_ptr, global_ptr, code_ptr, scale_ptr, groups, blocks,
    SWIZZLED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    # A division in int64 costs as much as five conversions.
    group = (pid.to(tl.int64) if WIDE else pid) * BLOCK + tl.arange(0, BLOCK)
    mask = group < groups
    row, block = group // blocks, group % blocks
    # Of 2 * blocks blocks a row, the gate's come first: group, and as many as there are before it.
    first = (group + row * blocks).to(tl.int64) * 16
    gates = x_ptr + first[:, None] + tl.arange(0, 8)[None, :]
    ups = gates + blocks * 16
    ok = mask[:, None]
    gate_low = tl.load(gates, mask=ok, other=0.0).to(tl.float32)
    gate_high = tl.load(gates + 8, mask=ok, other=0.0).to(tl.float32)
    low = _silu_mul(gate_low, tl.load(ups, mask=ok, other=0.0).to(tl.float32))
    high = _silu_mul(gate_high, tl.load(ups + 8, mask=ok, other=0.0).to(tl.float32))
    if global_ptr is not None:
        factor = tl.load(global_ptr)
        low, high = low * factor, high * factor
    words, scale_code = _quantized(low, high)
    at = _scale_offsets(row, block, blocks, SWIZZLED)
    tl.store(scale_ptr + at, scale_code.to(tl.uint8), mask=mask)
    words_at = group.to(tl.int64)[:, None] * 2 + tl.arange(0, 2)[None, :]
    tl.store(code_ptr + words_at, words, mask=ok)


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
    block: int = 64,
    num_warps: int = 2,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize silu(gate) * up to NVFP4; `x` [..., 2 * N] (made contiguous first) holds the gate
    and then the up part of each row, N a multiple of 16.

    `global_scale` is one positive float32 on the same device (1 when None). Returns the codes,
    uint8 [..., N / 2], and the block scales, float8_e4m3fn [..., N / 16]; `swizzled`: in tiles of
    128 rows by 4, [rows up to a multiple of 128, N / 16 up to one of 4]. Values must not be NaN.
    """
    if x.ndim == 0 or x.shape[-1] % (2 * GROUP):
        raise ValueError(f"the halves of a row of x {list(x.shape)} must be multiples of {GROUP}")
    x = x.contiguous()
    lead, length = x.shape[:-1], x.shape[-1] // 2
    codes, scales = _outputs(lead, length, swizzled, x.device)
    groups = lead.numel() * length // GROUP
    if groups:
        _silu_mul_nvfp4_kernel[(triton.cdiv(groups, block),)](
            x, global_scale, codes, scales, groups, length // GROUP,
            SWIZZLED=swizzled, WIDE=2 * groups + block >= 2**31, BLOCK=block, num_warps=num_warps,
        )  # fmt: skip
    return codes.view(torch.uint8), scales.view(torch.float8_e4m3fn)


def reference(
    x: torch.Tensor, global_scale: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    gate, up = x.float().chunk(2, dim=-1)
    values = torch.nn.functional.silu(gate) * up
    values = values if global_scale is None else values * global_scale
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


def agrees(actual: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> str | None:
    """What is wrong with codes and scales, or None. The values are computed in another order than
    the reference's, so one within some units of float32 of a midpoint may fall on its other side:
    a scale or a code is then one step off, in few places. The sign of a zero does not count."""
    bits = [(each[0], each[1].view(torch.uint8).int()) for each in (actual, expected)]
    steps = (bits[0][1] - bits[1][1]).abs()
    codes = [torch.stack([each & 15, each >> 4], -1).flatten(-2).int() for each, _ in bits]
    signed = [torch.where(each > 7, 8 - each, each) for each in codes]
    off = (signed[0] - signed[1]).abs()
    few = max(4, off.numel() // 10_000)
    if int(steps.max()) > 1 or int((steps > 0).sum()) > few:
        return f"{int((steps > 0).sum())} of {steps.numel()} scales differ, by up to {steps.max()}"
    # Under another scale all codes of a block may move.
    if int(off.max()) > 1 or int((off > 0).sum()) > few + GROUP * int((steps > 0).sum()):
        return f"{int((off > 0).sum())} of {off.numel()} codes differ, by up to {off.max()} steps"
    return None


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [rows, N]; the magnitude differs from row to row, as activations' do."""
    rows, length = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn((rows, 2 * length), device=device, generator=generator)
    x *= torch.logspace(-1, 1, rows, device=device).unsqueeze(-1)
    return [x.to(dtype), torch.full((1,), 8.0, device=device)]
