"""
---
slug: fp8-quantize-blocks
title: FP8 quantization with a scale for each block of rows and columns
op: quantize-fp8-blocks
language: triton
techniques: [low-precision-storage, register-caching, vectorized-access]
architectures: [sm_89]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[4, 256, 1, 128], [3, 100, 1, 32], [70, 45, 32, 32], [1, 33, 1, 16]]
  bench: [16384, 8192, 1, 128]
check_params: {tile: 512}
sources:
  - title: "Micikevicius et al.: FP8 Formats for Deep Learning"
    url: https://arxiv.org/abs/2209.05433
    licence: proprietary
  - title: "PyTorch: torch.finfo and torch.float8_e4m3fn"
    url: https://docs.pytorch.org/docs/stable/tensor_attributes.html
    licence: BSD-3-Clause
  - title: "DeepSeek-AI: DeepSeek-V3 technical report"
    url: https://arxiv.org/abs/2412.19437
    licence: CC-BY-4.0
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16384x8192x1x128
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.999
  measured_ms: 0.09731
  speedup: 20.54
  floor_fraction: 0.9789
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16384x8192x1x128
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1988
  measured_ms: 0.09731
  speedup: 2.043
  floor_fraction: 0.9789
---

Activations are quantized with one scale for 1 x 128 values, weights with one for 128 x 128: an
outlier spoils its own block alone. A program loads a tile of several blocks with wide loads, takes
the largest magnitude of each block in registers, and writes codes and scales; nothing is read
twice and no block is shared between programs. Blocks at the edge are as large as what is left.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"tile": [2048, 4096, 8192, 16384], "num_warps": [4, 8]}

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
def _blocks_kernel(
    x_ptr, q_ptr, scale_ptr, M, N, scales_n, stride_m, stride_n,
    HARDWARE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    BLOCKS_M: tl.constexpr, BLOCKS_N: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, COLS * BLOCKS_N)
    first_m = tl.program_id(0) // tiles_n * BLOCKS_M
    first_n = tl.program_id(0) % tiles_n * BLOCKS_N
    # Index times stride is taken in int64: it passes 2**31 on matrices of a few GB.
    row = (first_m * ROWS + tl.arange(0, BLOCKS_M * ROWS)).to(tl.int64)[:, None]
    col = (first_n * COLS + tl.arange(0, BLOCKS_N * COLS)).to(tl.int64)[None, :]
    mask = (row < M) & (col < N)
    x = tl.load(x_ptr + row * stride_m + col * stride_n, mask=mask, other=0.0).to(tl.float32)
    blocks = tl.reshape(x, (BLOCKS_M, ROWS, BLOCKS_N, COLS))
    largest = tl.max(tl.max(tl.abs(blocks), axis=3), axis=1)
    scale = tl.maximum(largest, 1e-12) / 448.0
    q = _quantized(blocks, scale[:, None, :, None], HARDWARE)
    q = tl.reshape(q, (BLOCKS_M * ROWS, BLOCKS_N * COLS))
    tl.store(q_ptr + row * N + col, q, mask=mask)
    block_m = (first_m + tl.arange(0, BLOCKS_M))[:, None]
    block_n = (first_n + tl.arange(0, BLOCKS_N))[None, :]
    tl.store(
        scale_ptr + block_m.to(tl.int64) * scales_n + block_n, scale,
        mask=(block_m * ROWS < M) & (block_n < scales_n),
    )  # fmt: skip


def _hardware(x: torch.Tensor) -> bool:
    """Whether the GPU converts to E4M3 in hardware."""
    return x.is_cuda and torch.cuda.get_device_capability(x.device) >= (8, 9)


def kernel_function(
    x: torch.Tensor, rows: int, columns: int, tile: int = 4096, num_warps: int = 4
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize `x` [M, N], any strides, in blocks of `rows` by `columns`, powers of two with a
    product of at most 16384.

    Returns the codes, float8_e4m3fn [M, N], and the scales, float32 [ceil(M / rows),
    ceil(N / columns)]: x is about code * scale. A program takes about `tile` elements.
    """
    (m, n), size = x.shape, rows * columns
    if size & (size - 1) or rows & (rows - 1) or not 1 <= size <= 16384:
        raise ValueError(f"blocks of {rows} x {columns} are no powers of two up to 16384 elements")
    q = torch.empty((m, n), dtype=torch.float8_e4m3fn, device=x.device)
    scales_n = triton.cdiv(n, columns)
    scale = torch.empty((triton.cdiv(m, rows), scales_n), dtype=torch.float32, device=x.device)
    if m * n == 0:
        return q, scale.fill_(LEAST / LARGEST)
    blocks_n = max(1, min(tile // size, triton.next_power_of_2(scales_n)))
    blocks_m = max(1, min(tile // (size * blocks_n), triton.next_power_of_2(scale.shape[0])))
    grid = (triton.cdiv(m, rows * blocks_m) * triton.cdiv(n, columns * blocks_n),)
    _blocks_kernel[grid](
        x, q, scale, m, n, scales_n, *x.stride(),
        HARDWARE=_hardware(x), ROWS=rows, COLS=columns, BLOCKS_M=blocks_m, BLOCKS_N=blocks_n,
        num_warps=num_warps,
    )  # fmt: skip
    return q, scale


def reference(x: torch.Tensor, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    m, n = x.shape
    wide = torch.nn.functional.pad(x.float(), (0, -n % columns, 0, -m % rows))
    blocks = wide.unflatten(1, (-1, columns)).unflatten(0, (-1, rows))
    scale = blocks.abs().amax(dim=(1, 3)).clamp(min=LEAST) / LARGEST
    q = (blocks / scale[:, None, :, None]).clamp(-LARGEST, LARGEST)
    return q.flatten(2, 3).flatten(0, 1)[:m, :n].to(torch.float8_e4m3fn), scale


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | int]:
    """`size` is [M, N, rows of a block, columns of a block]."""
    m, n, rows, columns = size
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn((m, n), dtype=dtype, device=device, generator=generator), rows, columns]
