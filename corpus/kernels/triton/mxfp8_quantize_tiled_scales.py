"""
---
slug: mxfp8-quantize-tiled-scales
title: MXFP8 quantization that writes its scales in the layout of the product
op: quantize-mxfp8
language: triton
techniques: [block-scaled-layouts, low-precision-storage, kernel-fusion]
architectures: [sm_89]
dtypes: [float32, float16, bfloat16]
derived_from: mxfp8-quantize-two-pass
sizes:
  check: [[130, 96], [33, 160], [1, 32]]
  bench: [16384, 8192]
check_params: {block_m: 16}
sources:
  - title: "OCP Microscaling Formats (MX) Specification 1.0"
    url: https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf
    licence: proprietary
  - title: "Triton tutorial: block scaled matrix multiplication"
    url: https://triton-lang.org/main/getting-started/tutorials/10-block-scaled-matmul.html
    licence: MIT
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
  baseline: mxfp8-quantize-two-pass
  baseline_ms: 0.1357
  measured_ms: 0.1274
  speedup: 1.065
  floor_fraction: 0.747
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16384x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 2.519
  measured_ms: 0.1274
  speedup: 19.77
  floor_fraction: 0.747
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
  measured_ms: 0.1274
  speedup: 1.893
  floor_fraction: 0.747
---

As mxfp8-quantize-two-pass, in one kernel. A program takes BLOCK_M rows by 128 elements, four
blocks: their four scales are four neighbouring bytes of the tiled layout, so they leave as one
32-bit store for each row, and nothing is reordered afterwards. Rows up to the next multiple of 128
are covered too, so that the padding of the scales is written (as 0) by the same kernel.

The scale of row m and block k stands at byte m % 32 * 16 + m % 128 // 32 * 4 + k % 4 of tile
(m // 128, k // 4); a tile is 512 contiguous bytes.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block_m": [8, 16, 32, 64], "num_warps": [2, 4, 8]}

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
def _quantize_kernel(
    x_ptr, q_ptr, scale_ptr, M, N, GROUP: tl.constexpr, BLOCK_M: tl.constexpr
):  # fmt: skip
    tiles_k = tl.cdiv(N, 4 * GROUP)
    rows = (tl.program_id(0) // tiles_k) * BLOCK_M + tl.arange(0, BLOCK_M)
    tile_k = tl.program_id(0) % tiles_k
    cols = tile_k * 4 * GROUP + tl.arange(0, 4 * GROUP)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    at = rows[:, None].to(tl.int64) * N + cols[None, :]
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    blocks = tl.reshape(x, (BLOCK_M, 4, GROUP))
    exponent = tl.max(tl.abs(blocks), axis=2).to(tl.int32, bitcast=True) >> 23
    code = tl.maximum(exponent - 8, 0)  # of zeros, absent rows and blocks: 0
    inverse = ((254 - code) << 23).to(tl.float32, bitcast=True)  # 2^(127 - code), exact
    q = tl.minimum(tl.maximum(blocks * inverse[:, :, None], -448.0), 448.0)
    q = tl.reshape(q, (BLOCK_M, 4 * GROUP))
    tl.store(q_ptr + at, _e4m3(q), mask=mask)

    # Four scales of a row are one 32-bit word of the tile.
    word = tl.sum(code << (8 * tl.arange(0, 4))[None, :], axis=1)
    tile = (rows // 128).to(tl.int64) * tiles_k + tile_k
    tl.store(scale_ptr + tile * 128 + (rows % 32) * 4 + rows // 32 % 4, word)


def kernel_function(
    x: torch.Tensor, block_m: int = 32, num_warps: int = 4
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
    scales = torch.empty((tiles_m, tiles_k, 32, 4, 4), dtype=torch.uint8, device=x.device)
    _quantize_kernel[(tiles_m * (128 // block_m) * tiles_k,)](
        x, q, scales.view(torch.int32), m, n, GROUP=GROUP, BLOCK_M=block_m, num_warps=num_warps
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
