"""
---
slug: matmul-mxfp4-fused
title: Matrix product with MXFP4 weights decoded in registers
op: matmul-mxfp4
language: triton
techniques: [dequant-fusion, low-precision-storage, split-k, tensor-cores]
architectures: [sm_80]
dtypes: [float16, bfloat16]
derived_from: matmul-mxfp4-decoded
sizes:
  check: [[16, 64, 128], [3, 45, 96], [33, 70, 64]]
  bench: [16, 14336, 14336]
check_params: {block_n: 32, block_k: 64, programs: 8}
sources:
  - title: "Open Compute Project: Microscaling formats (MX) specification"
    url: https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf
    licence: proprietary
  - title: "Rouhani et al.: Microscaling data formats for deep learning"
    url: https://arxiv.org/abs/2310.10537
    licence: CC-BY-4.0
  - title: "Triton: triton.language.dot"
    url: https://triton-lang.org/main/python-api/generated/triton.language.dot.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: matmul-mxfp4-decoded
  baseline_ms: 0.2498
  measured_ms: 0.1104
  speedup: 2.263
  floor_fraction: 0.2324
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: eager
  baseline_ms: 5.054
  measured_ms: 0.1104
  speedup: 45.78
  floor_fraction: 0.2324
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.5739
  measured_ms: 0.1104
  speedup: 5.198
  floor_fraction: 0.2324
---

C = A @ W^T for few rows of A and weights in MXFP4: 4-bit codes, two to a byte along K, and one
power of two for 32 of them. The weights stay packed until they are in registers, so DRAM carries
4.25 bits a weight and nothing but C is written.

A code is sign, two bits of exponent and one of mantissa: put at the same places of a float32, with
the exponent's low bits, it is the value times 2^-126, subnormals included, so one multiplication
by a power of two decodes it, and the scale of its group is a factor of that power. The even and
the odd elements of a byte go to two products: A's columns are split to match, which costs little
as A has few rows. Where tiles are fewer than the GPU's multiprocessors, K is split over programs
and the parts are added up by a second kernel, in a fixed order.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_n": [32, 64, 128],
    "block_k": [64, 128, 256],
    "programs": [264, 528, 1056],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}

# Elements that share a scale; what tl.dot takes at least.
GROUP, MIN_DOT = 32, 16
# Elements of C that one program of the second pass adds up.
REDUCE_BLOCK = 1024


@triton.jit
def _decoded(code, factor):
    """E2M1 codes (0 to 15) as float32, times `factor` / 2^126."""
    bits = ((code & 7) << 22) | ((code & 8) << 28)
    return bits.to(tl.float32, bitcast=True) * 8.507059173023462e37 * factor


@triton.jit
def _matmul_kernel(
    a_ptr, w_ptr, scale_ptr, part_ptr,
    M, N, K, parts, span,
    stride_am, stride_ak, stride_wn, stride_sn,
    GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    HALF: tl.constexpr = BLOCK_K // 2
    part = tl.program_id(0) % parts
    tile = tl.program_id(0) // parts
    tiles_n = tl.cdiv(N, BLOCK_N)
    # Index times stride is taken in int64: it passes 2**31 on matrices of a few GB.
    rows = ((tile // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    cols = ((tile % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    first = part * span
    end = tl.minimum(first + span, K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in tl.range(first, end, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(
            a_ptr + rows[:, None] * stride_am + k.to(tl.int64)[None, :] * stride_ak,
            mask=(rows < M)[:, None] & (k < end)[None, :], other=0.0,
        )  # fmt: skip
        byte = start // 2 + tl.arange(0, HALF)
        codes = tl.load(
            w_ptr + cols[:, None] * stride_wn + byte[None, :],
            mask=(cols < N)[:, None] & (byte < end // 2)[None, :], other=0,
        ).to(tl.int32)  # fmt: skip
        group = start // GROUP + tl.arange(0, BLOCK_K // GROUP)
        exponent = tl.load(
            scale_ptr + cols[:, None] * stride_sn + group[None, :],
            mask=(cols < N)[:, None] & (group < end // GROUP)[None, :], other=0,
        ).to(tl.int32)  # fmt: skip
        # 2^(exponent - 127); 2^-127 is a subnormal number.
        scale = tl.where(exponent == 0, 0x400000, exponent << 23).to(tl.float32, bitcast=True)
        scale = tl.broadcast_to(scale[:, :, None], (BLOCK_N, BLOCK_K // GROUP, GROUP // 2))
        scale = tl.reshape(scale, (BLOCK_N, HALF))
        even, odd = tl.split(tl.reshape(a, (BLOCK_M, HALF, 2)))
        low = _decoded(codes & 15, scale).to(a.dtype)
        high = _decoded(codes >> 4, scale).to(a.dtype)
        acc = tl.dot(even, tl.trans(low), acc)
        acc = tl.dot(odd, tl.trans(high), acc)
    place = part.to(tl.int64) * M * N + rows[:, None] * N + cols[None, :]
    mask = (rows < M)[:, None] & (cols < N)[None, :]
    tl.store(part_ptr + place, acc.to(part_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _add_kernel(part_ptr, c_ptr, total, parts, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in tl.range(0, parts):
        acc += tl.load(part_ptr + tl.cast(part, tl.int64) * total + at, mask=at < total, other=0.0)
    tl.store(c_ptr + at, acc.to(c_ptr.dtype.element_ty), mask=at < total)


def kernel_function(
    a: torch.Tensor,
    packed: torch.Tensor,
    scales: torch.Tensor,
    block_n: int = 64,
    block_k: int = 256,
    programs: int = 1056,
    num_warps: int = 4,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return A @ W^T [M, N] in the dtype of `a` [M, K], which may have any strides.

    `packed` is uint8 [N, K / 2], two E2M1 codes to a byte, the earlier one in the low half;
    `scales` uint8 [N, K / 32], biased exponents. Rows of both are contiguous.
    """
    (m, k), n = a.shape, packed.shape[0]
    if k % GROUP or packed.shape != (n, k // 2) or scales.shape != (n, k // GROUP):
        raise ValueError(
            f"a {list(a.shape)}, packed {list(packed.shape)} and scales {list(scales.shape)} "
            "do not fit together"
        )
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    if c.numel() == 0 or k == 0:
        return c.zero_()
    if packed.stride(1) != 1:
        packed = packed.contiguous()
    if scales.stride(1) != 1:
        scales = scales.contiguous()
    if a.dtype == torch.bfloat16 and not a.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        a = a.float()
    block_m = min(64, max(MIN_DOT, triton.next_power_of_2(m)))
    tiles = triton.cdiv(m, block_m) * triton.cdiv(n, block_n)
    # Parts of two steps at least.
    parts = max(1, min(programs // tiles, k // (2 * block_k)))
    span = triton.cdiv(triton.cdiv(k, parts), block_k) * block_k
    parts = triton.cdiv(k, span)
    part = c if parts == 1 else c.new_empty((parts, m, n), dtype=torch.float32)
    _matmul_kernel[(tiles * parts,)](
        a, packed, scales, part,
        m, n, k, parts, span,
        *a.stride(), packed.stride(0), scales.stride(0),
        GROUP=GROUP, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    if parts > 1:
        _add_kernel[(triton.cdiv(m * n, REDUCE_BLOCK),)](
            part, c, m * n, parts, BLOCK=REDUCE_BLOCK, num_warps=4
        )
    return c


def reference(a: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    codes = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2)
    values = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], device=a.device)
    signs = 1.0 - 2.0 * (codes >> 3).float()
    weights = values[(codes & 7).long()] * signs
    weights = torch.ldexp(weights.unflatten(-1, (-1, GROUP)), scales.int().unsqueeze(-1) - 127)
    return a @ weights.flatten(-2).to(a.dtype).T


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N, K]; scales lie between 2^-8 and 2^-3."""
    m, n, k = size
    generator = torch.Generator(device=device).manual_seed(seed)
    a = torch.randn((m, k), dtype=dtype, device=device, generator=generator)
    packed, scales = (
        torch.randint(low, high, shape, dtype=torch.uint8, device=device, generator=generator)
        for low, high, shape in ((0, 256, (n, k // 2)), (119, 125, (n, k // GROUP)))
    )
    return [a, packed, scales]
