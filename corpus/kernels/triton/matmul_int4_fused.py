"""
---
slug: matmul-int4-fused
title: Product with INT4 weights, dequantized between load and tensor core
op: matmul-int4
language: triton
techniques: [dequant-fusion, low-precision-storage, tensor-cores]
architectures: [sm_80]
dtypes: [float16, bfloat16]
derived_from: matmul-int4-plain
sizes:
  check: [[32, 64, 128], [5, 45, 192], [1, 33, 64]]
  bench: [16, 14336, 14336]
check_params: {block_m: 16, block_n: 32, block_k: 16}
sources:
  - title: "Marlin: mixed auto-regressive linear kernel"
    url: https://github.com/IST-DASLab/marlin
    licence: Apache-2.0
  - title: "torchao pull request 153: fused HQQ quantization GEMM"
    url: https://github.com/pytorch/ao/pull/153
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: matmul-int4-plain
  baseline_ms: 0.3329
  measured_ms: 0.1015
  speedup: 3.28
  floor_fraction: 0.3482
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: eager
  baseline_ms: 2.665
  measured_ms: 0.1015
  speedup: 26.26
  floor_fraction: 0.3482
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.3297
  measured_ms: 0.1015
  speedup: 3.248
  floor_fraction: 0.3482
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: vendor library
  baseline_ms: 0.2389
  measured_ms: 0.1015
  speedup: 2.354
  floor_fraction: 0.3482
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: matmul-int4-plain
  baseline_ms: 0.2496
  measured_ms: 0.105
  speedup: 2.377
  floor_fraction: 0.2403
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: eager
  baseline_ms: 2.195
  measured_ms: 0.105
  speedup: 20.9
  floor_fraction: 0.2403
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.2603
  measured_ms: 0.105
  speedup: 2.479
  floor_fraction: 0.2403
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: vendor library
  baseline_ms: 0.2372
  measured_ms: 0.105
  speedup: 2.259
  floor_fraction: 0.2403
---

C = A @ W with W quantized to 4 bits in groups along K. The weights stay packed until they are in
registers: a step loads BLOCK_K byte rows, splits each byte into two codes, scales them and feeds
two products. DRAM carries half a byte a weight and nothing is written but C.

Format of the weights: K is cut into groups of G; scales [K / G, N] have A's dtype; a code c stands
for (c - 8) * scale. Byte j of a group's G / 2 rows holds rows j (low nibble) and j + G / 2 (high).
So each nibble plane meets a contiguous run of A's columns, and no shuffle has to interleave two
neighbours. Steps do not cross a group: one row of scales serves both planes of a step.

The scale is applied to the weights before the product, rounded to A's dtype as the dequantized
matrix would be. With one step per scale it could go on the accumulator instead.
"""

import functools

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [16, 32, 64],
    "block_n": [32, 64, 128],
    "block_k": [16, 32, 64],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def _dequant_matmul_kernel(
    a_ptr, packed_ptr, scale_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    HALF: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = (tl.program_id(0) // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tl.program_id(0) % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    in_m = rows[:, None] < M
    in_n = cols[None, :] < N
    a_rows = a_ptr + rows[:, None].to(tl.int64) * stride_am
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in tl.range(0, K // 2, BLOCK_K):
        group = start // HALF
        byte_rows = (start + tl.arange(0, BLOCK_K)).to(tl.int64)
        depth = byte_rows + group * HALF  # of the low nibbles; the high ones lie HALF further
        codes = tl.load(packed_ptr + byte_rows[:, None] * N + cols[None, :], mask=in_n, other=0)
        scale = tl.load(scale_ptr + group.to(tl.int64) * N + cols[None, :], mask=in_n, other=0.0)
        a_low = tl.load(a_rows + depth[None, :] * stride_ak, mask=in_m, other=0.0)
        a_high = tl.load(a_rows + (depth + HALF)[None, :] * stride_ak, mask=in_m, other=0.0)
        # float32 in between costs an instruction a weight; a 16-bit product would round twice.
        scale = scale.to(tl.float32)
        low = ((codes & 15).to(tl.float32) - 8.0) * scale
        high = ((codes >> 4).to(tl.float32) - 8.0) * scale
        acc = tl.dot(a_low, low.to(a_low.dtype), acc, input_precision="tf32x3")
        acc = tl.dot(a_high, high.to(a_high.dtype), acc, input_precision="tf32x3")
    tl.store(
        c_ptr + rows[:, None].to(tl.int64) * N + cols[None, :],
        acc.to(c_ptr.dtype.element_ty),
        mask=in_m & in_n,
    )


def kernel_function(
    a: torch.Tensor,
    packed: torch.Tensor,
    scales: torch.Tensor,
    block_m: int = 16,
    block_n: int = 64,
    block_k: int = 64,
    num_warps: int = 4,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return A @ W [M, N] in the dtype of `a` [M, K], which may have any strides.

    `packed` is uint8 [K / 2, N], `scales` [K / G, N] of `a`'s dtype; K a multiple
    of G, G of 32. `block_k` counts byte rows and is cut to what divides G / 2.
    """
    (m, k), n = a.shape, packed.shape[1]
    half = k // scales.shape[0] // 2
    if packed.shape[0] * 2 != k or scales.shape[1] != n or half * 2 * scales.shape[0] != k:
        raise ValueError(
            f"a {list(a.shape)}, packed {list(packed.shape)} and scales {list(scales.shape)} "
            "do not fit together"
        )
    block_k = min(block_k, half & -half)
    if block_k < 16:
        raise ValueError(f"groups of {2 * half} are no multiple of 32")
    packed, scales = packed.contiguous(), scales.contiguous()
    dtype = a.dtype
    if dtype == torch.bfloat16 and not a.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        a, scales = a.float(), scales.float()
    c = torch.empty((m, n), dtype=dtype, device=a.device)
    _dequant_matmul_kernel[(triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)](
        a, packed, scales, c,
        m, n, k,
        *a.stride(),
        HALF=half,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c


def reference(a: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    groups, n = scales.shape
    codes = packed.view(groups, -1, n)
    codes = torch.cat((codes & 15, codes >> 4), dim=1).float() - 8.0
    return a @ (codes * scales.float().unsqueeze(1)).to(a.dtype).view(-1, n)


def library(a: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    # PyTorch's own INT4 product, for bfloat16: it multiplies (c - 8) * scale + zero.
    group = a.shape[1] // scales.shape[0]
    return torch._weight_int4pack_mm(a, *_repacked(packed, scales, group))


@functools.lru_cache(maxsize=8)  # by identity: weights are repacked once, when they are loaded
def _repacked(
    packed: torch.Tensor, scales: torch.Tensor, group: int
) -> tuple[torch.Tensor, int, torch.Tensor]:
    groups, n = scales.shape
    codes = packed.view(groups, -1, n)
    codes = torch.cat((codes & 15, codes >> 4), dim=1).view(-1, n).T
    pairs = (codes[:, ::2] << 4 | codes[:, 1::2]).contiguous()
    zeros = torch.zeros_like(scales)
    both = torch.stack((scales, zeros), dim=-1).contiguous()
    return torch._convert_weight_to_int4pack(pairs, 8), group, both


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N, K]; groups of 128 along K, or the largest power of two that divides K."""
    m, n, k = size
    group = min(128, k & -k)
    generator = torch.Generator(device=device).manual_seed(seed)
    a = torch.randn((m, k), dtype=dtype, device=device, generator=generator)
    packed = torch.randint(
        0, 256, (k // 2, n), dtype=torch.uint8, device=device, generator=generator
    )
    scales = torch.rand((k // group, n), device=device, generator=generator) * 0.02 + 0.005
    return [a, packed, scales.to(dtype)]
