"""
---
slug: matmul-int4-plain
title: Product with INT4 weights, dequantized to memory by a kernel of its own
op: matmul-int4
language: triton
techniques: [tensor-cores]
architectures: [sm_80]
dtypes: [float16, bfloat16]
sizes:
  check: [[32, 64, 128], [5, 45, 192], [1, 33, 64]]
  bench: [16, 14336, 14336]
check_params: {block_m: 16, block_n: 32, block_k: 16}
sources:
  - title: "Triton tutorial: matrix multiplication"
    url: https://triton-lang.org/main/getting-started/tutorials/03-matrix-multiplication.html
    licence: MIT
  - title: "Marlin: mixed auto-regressive linear kernel"
    url: https://github.com/IST-DASLab/marlin
    licence: Apache-2.0
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: eager
  baseline_ms: 2.169
  measured_ms: 0.2677
  speedup: 8.102
  floor_fraction: 0.0934
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.2592
  measured_ms: 0.2677
  speedup: 0.9682
  floor_fraction: 0.0934
---

C = A @ W with W quantized to 4 bits in groups along K, in two kernels: the first writes W in A's
dtype, the second is an ordinary product. The 4-bit weights save no traffic: for every 0.5 byte
that is read, 2 bytes are written and 2 read again. With few rows in A this is the whole cost.

Format of the weights: K is cut into groups of G; scales [K / G, N] have A's dtype; a code c stands
for (c - 8) * scale. Byte j of a group's G / 2 rows holds rows j (low nibble) and j + G / 2 (high).
"""

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
def _dequantize_kernel(
    packed_ptr, scale_ptr, w_ptr, N, HALF: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    byte_row = tl.program_id(0)
    group = byte_row // HALF
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = cols < N
    codes = tl.load(packed_ptr + byte_row.to(tl.int64) * N + cols, mask=inside, other=0)
    scale = tl.load(scale_ptr + group.to(tl.int64) * N + cols, mask=inside, other=0.0)
    low = ((codes & 15).to(tl.float32) - 8.0) * scale.to(tl.float32)
    high = ((codes >> 4).to(tl.float32) - 8.0) * scale.to(tl.float32)
    row = (byte_row + group * HALF).to(tl.int64)
    tl.store(w_ptr + row * N + cols, low.to(w_ptr.dtype.element_ty), mask=inside)
    tl.store(w_ptr + (row + HALF) * N + cols, high.to(w_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _matmul_kernel(
    a_ptr, w_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = (tl.program_id(0) // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tl.program_id(0) % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    a_rows = a_ptr + rows[:, None].to(tl.int64) * stride_am
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K):
        depth = (k + tl.arange(0, BLOCK_K)).to(tl.int64)
        in_k = depth < K
        a = tl.load(
            a_rows + depth[None, :] * stride_ak,
            mask=(rows[:, None] < M) & in_k[None, :],
            other=0.0,
        )
        w = tl.load(
            w_ptr + depth[:, None] * N + cols[None, :],
            mask=in_k[:, None] & (cols[None, :] < N),
            other=0.0,
        )
        acc = tl.dot(a, w, acc, input_precision="tf32x3")
    tl.store(
        c_ptr + rows[:, None].to(tl.int64) * N + cols[None, :],
        acc.to(c_ptr.dtype.element_ty),
        mask=(rows[:, None] < M) & (cols[None, :] < N),
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
    of G, G of 2.
    """
    (m, k), n = a.shape, packed.shape[1]
    half = k // scales.shape[0] // 2
    if packed.shape[0] * 2 != k or scales.shape[1] != n or half * 2 * scales.shape[0] != k:
        raise ValueError(
            f"a {list(a.shape)}, packed {list(packed.shape)} and scales {list(scales.shape)} "
            "do not fit together"
        )
    packed, scales = packed.contiguous(), scales.contiguous()
    dtype = a.dtype
    if dtype == torch.bfloat16 and not a.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        a, scales = a.float(), scales.float()
    w = torch.empty((k, n), dtype=a.dtype, device=a.device)
    c = torch.empty((m, n), dtype=dtype, device=a.device)
    _dequantize_kernel[(k // 2, triton.cdiv(n, 1024))](
        packed, scales, w, n, HALF=half, BLOCK_N=1024, num_warps=4
    )
    _matmul_kernel[(triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)](
        a, w, c,
        m, n, k,
        *a.stride(),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c


def reference(a: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    groups, n = scales.shape
    codes = packed.view(groups, -1, n)
    codes = torch.cat((codes & 15, codes >> 4), dim=1).float() - 8.0
    return a @ (codes * scales.float().unsqueeze(1)).to(a.dtype).view(-1, n)


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
