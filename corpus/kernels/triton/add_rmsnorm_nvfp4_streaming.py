"""
---
slug: add-rmsnorm-nvfp4-streaming
title: Residual addition, RMSNorm and NVFP4 quantization for rows of any length
op: add-rmsnorm-quantize
language: triton
techniques: [kernel-fusion, cache-eviction-hints, vectorized-access]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: add-rmsnorm-nvfp4-emulated
sizes:
  check: [[4, 64], [3, 48], [5, 1104], [1, 16]]
  bench: [8192, 32768]
check_params: {block: 32, num_warps: 1}
sources:
  - title: "NVIDIA: Introducing NVFP4 for Efficient and Accurate Low-Precision Inference"
    url: https://developer.nvidia.com/blog/introducing-nvfp4-for-efficient-and-accurate-low-precision-inference/
    licence: proprietary
  - title: "Open Compute Project: Microscaling Formats (MX) Specification 1.0, section 5.3 (E2M1)"
    url: https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf
    licence: proprietary
  - title: "Zhang, Sennrich: Root Mean Square Layer Normalization"
    url: https://arxiv.org/abs/1910.07467
    licence: CC-BY-4.0
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x32768
  dtype: bfloat16
  baseline: add-rmsnorm-nvfp4-emulated
  baseline_ms: 0.4258
  measured_ms: 0.4724
  speedup: 0.9014
  floor_fraction: 0.6097
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x32768
  dtype: bfloat16
  baseline: eager
  baseline_ms: 17.89
  measured_ms: 0.4724
  speedup: 37.87
  floor_fraction: 0.6097
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x32768
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.454
  measured_ms: 0.4724
  speedup: 3.078
  floor_fraction: 0.6097
---

The sum of a layer's output and the residual, its norm y = s / sqrt(mean(s^2) + eps) * weight, and
the quantization of y, in float32, for rows of any length. add-rmsnorm-nvfp4-emulated holds a row in
registers; here a program goes through its row twice, tile by tile: once for the sum of squares and
once to quantize. The second reading comes from L2, which holds the rows that are under way (132
rows of 65536 values from two tensors in 16 bits are 35 MB): the first asks for its lines to be
kept, the second lets them go. What a program keeps in registers does not grow with the row, so
several programs share a multiprocessor and one loads while another computes.

A block of 16 is quantized as nvfp4-quantize-emulated does it: with the largest magnitude as amax
and g a scale for the whole tensor, scale = E4M3(g * amax / 6), code = E2M1(v * g / scale), both to
nearest even. With `keep_sum` the sum is written as well, rounded to x's dtype: the residual of the
next layer. The norm takes it unrounded.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [64, 128, 256, 512], "num_warps": [2, 4, 8, 16]}

# Elements that share a scale.
GROUP = 16
# A tile of swizzled scales.
TILE_ROWS, TILE_BLOCKS = 128, 4
# Added to the mean square, as in most language models.
EPS = 1e-6


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
def _sums(x_ptr, residual_ptr, at, ok, KEEP: tl.constexpr):
    """Eight sums of each block, and the policy for the lines that they come from."""
    policy: tl.constexpr = "evict_last" if KEEP else "evict_first"
    x = tl.load(x_ptr + at, mask=ok, other=0.0, eviction_policy=policy).to(tl.float32)
    y = tl.load(residual_ptr + at, mask=ok, other=0.0, eviction_policy=policy)
    return x + y.to(tl.float32)


@triton.jit
def _add_rmsnorm_nvfp4_kernel(
    x_ptr, residual_ptr, weight_ptr, global_ptr, code_ptr, scale_ptr, sum_ptr, blocks, eps,
    SWIZZLED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, 8)[None, :]
    squares = tl.zeros((BLOCK, 8), tl.float32)
    for first in range(0, blocks, BLOCK):
        block = first + tl.arange(0, BLOCK)
        ok = (block < blocks)[:, None]
        at = row * blocks * 16 + block[:, None] * 16 + lanes
        low = _sums(x_ptr, residual_ptr, at, ok, True)
        high = _sums(x_ptr, residual_ptr, at + 8, ok, True)
        squares = tl.fma(low, low, tl.fma(high, high, squares))
    factor = tl.rsqrt(tl.sum(tl.sum(squares, axis=1), axis=0) / (blocks * 16) + eps)
    tensor_factor = 1.0 if global_ptr is None else tl.load(global_ptr)
    for first in range(0, blocks, BLOCK):
        block = first + tl.arange(0, BLOCK)
        mask = block < blocks
        ok = mask[:, None]
        lane = block[:, None] * 16 + lanes
        at = row * blocks * 16 + lane
        low = _sums(x_ptr, residual_ptr, at, ok, False)
        high = _sums(x_ptr, residual_ptr, at + 8, ok, False)
        if sum_ptr is not None:
            tl.store(sum_ptr + at, low.to(sum_ptr.dtype.element_ty), mask=ok)
            tl.store(sum_ptr + at + 8, high.to(sum_ptr.dtype.element_ty), mask=ok)
        weight_low = tl.load(weight_ptr + lane, mask=ok, other=0.0).to(tl.float32)
        weight_high = tl.load(weight_ptr + lane + 8, mask=ok, other=0.0).to(tl.float32)
        low, high = low * factor * weight_low, high * factor * weight_high
        if global_ptr is not None:
            low, high = low * tensor_factor, high * tensor_factor
        words, scale_code = _quantized(low, high)
        scale_at = _scale_offsets(row, block, blocks, SWIZZLED)
        tl.store(scale_ptr + scale_at, scale_code.to(tl.uint8), mask=mask)
        words_at = (row * blocks + block)[:, None] * 2 + tl.arange(0, 2)[None, :]
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
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float = EPS,
    global_scale: torch.Tensor | None = None,
    swizzled: bool = False,
    keep_sum: bool = False,
    block: int = 256,
    num_warps: int = 8,
) -> tuple[torch.Tensor, ...]:
    """Quantize RMSNorm(`x` + `residual`) * `weight` to NVFP4; `x` and `residual` [..., N] (made
    contiguous first), `weight` [N], N a multiple of 16.

    `global_scale` is one positive float32 on the same device (1 when None). Returns the codes,
    uint8 [..., N / 2], and the block scales, float8_e4m3fn [..., N / 16]; `swizzled`: in tiles of
    128 rows by 4, [rows up to a multiple of 128, N / 16 up to one of 4]; with `keep_sum` also the
    sum, in x's dtype. Values must not be NaN.
    """
    if x.ndim == 0 or x.shape[-1] % GROUP or residual.shape != x.shape:
        raise ValueError(
            f"x {list(x.shape)} and residual {list(residual.shape)} must be of one shape, with "
            f"rows a multiple of {GROUP} long"
        )
    lead, length = x.shape[:-1], x.shape[-1]
    if weight.shape != (length,):
        raise ValueError(f"weight {list(weight.shape)} does not fit rows of {length}")
    blocks = length // GROUP
    x, residual, weight = x.contiguous(), residual.contiguous(), weight.contiguous()
    codes, scales = _outputs(lead, length, swizzled, x.device)
    total = torch.empty_like(x) if keep_sum else None
    if x.numel():
        _add_rmsnorm_nvfp4_kernel[(lead.numel(),)](
            x, residual, weight, global_scale, codes, scales, total, blocks, eps,
            SWIZZLED=swizzled, BLOCK=min(block, triton.next_power_of_2(blocks)),
            num_warps=num_warps,
        )  # fmt: skip
    quantized = (codes.view(torch.uint8), scales.view(torch.float8_e4m3fn))
    return quantized if total is None else (*quantized, total)


def reference(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float = EPS,
    global_scale: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x.float() + residual.float()
    values = torch.nn.functional.rms_norm(total, total.shape[-1:], weight.float(), eps)
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


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | float]:
    """`size` is [rows, N]."""
    rows, length = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x, residual = (
        torch.randn((rows, length), device=device, generator=generator).to(dtype) for _ in range(2)
    )
    weight = torch.rand(length, device=device, generator=generator) + 0.5
    return [x, residual, weight.to(dtype), EPS, torch.full((1,), 64.0, device=device)]
