"""
---
slug: mxfp8-quantize-two-pass
title: MXFP8 quantization, its scales written in rows and reordered by a second kernel
op: quantize-mxfp8
language: triton
techniques: [low-precision-storage]
architectures: [sm_89]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[130, 96], [33, 160], [1, 32]]
  bench: [16384, 8192]
check_params: {block: 16}
sources:
  - title: "OCP Microscaling Formats (MX) Specification 1.0"
    url: https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf
    licence: proprietary
  - title: "Transformer Engine: swizzle.h, scaling factors in the layout of the GEMM"
    url: https://nvidia.github.io/TransformerEngine/api/c/swizzle.html
    licence: Apache-2.0
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
  baseline_ms: 2.518
  measured_ms: 0.1355
  speedup: 18.58
  floor_fraction: 0.7023
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16384x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.2412
  measured_ms: 0.1355
  speedup: 1.78
  floor_fraction: 0.7023
---

A row is cut into blocks of 32. The scale of a block is the power of two 2^(e - 8), with e the
exponent of its largest magnitude (8 is the exponent of E4M3's largest power of two); codes are
E4M3(x / scale), at most 448. Scales are stored as E8M0, the biased exponent.

Block-scaled products want the scales in tiles of 128 rows by 4, not in rows. Here they are first
written in rows and then reordered by a kernel that moves single bytes: a second launch, and every
scale crosses memory twice more.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [16, 32, 64, 128, 256], "num_warps": [2, 4, 8]}

# Elements that share a scale.
GROUP = 32


@triton.jit
def _e4m3(value):
    """`value`, within +-448, rounded to nearest even E4M3; the CPU interpreter's cast truncates."""
    bits = value.to(tl.int32, bitcast=True)
    normal = (bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20 << 20  # 3 bits of mantissa remain
    # Below 2^-6 the spacing is 2^-9. Near 1.5 * 2^23 float32 holds integers only: the sum rounds.
    small = (value * 512.0 + 12582912.0 - 12582912.0) * 0.001953125
    rounded = tl.where(tl.abs(value) < 0.015625, small, normal.to(tl.float32, bitcast=True))
    return rounded.to(tl.float8e4nv)


@triton.jit
def _quantize_kernel(x_ptr, q_ptr, scale_ptr, groups, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    group = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = group < groups
    at = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    x = tl.load(x_ptr + at, mask=mask[:, None], other=0.0).to(tl.float32)
    exponent = tl.max(tl.abs(x), axis=1).to(tl.int32, bitcast=True) >> 23
    code = tl.maximum(exponent - 8, 0)
    inverse = ((254 - code) << 23).to(tl.float32, bitcast=True)  # 2^(127 - code), exact
    q = tl.minimum(tl.maximum(x * inverse[:, None], -448.0), 448.0)
    tl.store(q_ptr + at, _e4m3(q), mask=mask[:, None])
    tl.store(scale_ptr + group, code.to(tl.uint8), mask=mask)


@triton.jit
def _reorder_kernel(scale_ptr, out_ptr, rows, columns, tiles_k, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row = at // (tiles_k * 4)
    column = at % (tiles_k * 4)
    inside = (row < rows) & (column < columns)
    scale = tl.load(scale_ptr + row * columns + column, mask=inside, other=0)
    tile = (row // 128) * tiles_k + column // 4
    place = tile * 512 + (row % 32) * 16 + (row // 32) % 4 * 4 + column % 4
    tl.store(out_ptr + place, scale)


def kernel_function(
    x: torch.Tensor, block: int = 64, num_warps: int = 4
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize `x` [M, N] to MXFP8; N a multiple of 32.

    Returns the codes, float8_e4m3fn [M, N], and the scales, uint8
    [ceil(M / 128), ceil(N / 128), 32, 4, 4]: the scale of row m and block k stands at
    [m // 128, k // 4, m % 32, m % 128 // 32, k % 4]; scales of absent rows and blocks are 0.
    """
    m, n = x.shape
    if n % GROUP:
        raise ValueError(f"rows of {n} are no multiple of {GROUP}")
    x = x.contiguous()
    tiles_m, tiles_k = triton.cdiv(m, 128), triton.cdiv(n // GROUP, 4)
    q = torch.empty((m, n), dtype=torch.float8_e4m3fn, device=x.device)
    flat = torch.empty((m, n // GROUP), dtype=torch.uint8, device=x.device)
    scales = torch.empty((tiles_m, tiles_k, 32, 4, 4), dtype=torch.uint8, device=x.device)
    _quantize_kernel[(triton.cdiv(flat.numel(), block),)](
        x, q, flat, flat.numel(), GROUP=GROUP, BLOCK=block, num_warps=num_warps
    )
    _reorder_kernel[(scales.numel() // 512,)](
        flat, scales, m, n // GROUP, tiles_k, BLOCK=512, num_warps=4
    )
    return q, scales


def reference(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    m, n = x.shape
    blocks = x.float().view(m, -1, GROUP)
    exponent = blocks.abs().amax(dim=-1).view(torch.int32) >> 23
    code = (exponent - 8).clamp(min=0)
    q = torch.ldexp(blocks, (127 - code).unsqueeze(-1)).clamp(-448.0, 448.0)
    tiles_m, tiles_k = -(-m // 128), -(-n // GROUP // 4)
    padded = torch.zeros((tiles_m * 128, tiles_k * 4), dtype=torch.uint8, device=x.device)
    padded[:m, : n // GROUP] = code.to(torch.uint8)
    tiled = padded.view(tiles_m, 4, 32, tiles_k, 4).permute(0, 3, 2, 1, 4)
    return q.view(m, n).to(torch.float8_e4m3fn), tiled.contiguous()


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [rows, row length]; the magnitude differs from row to row, as activations' do."""
    rows, length = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn((rows, length), device=device, generator=generator)
    x *= torch.logspace(-2, 2, rows, device=device).unsqueeze(-1)
    return [x.to(dtype)]
