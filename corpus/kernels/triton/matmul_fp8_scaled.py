"""
---
slug: matmul-fp8-scaled
title: FP8 matrix product with block scales, promoted to float32 every 128 products
op: matmul-scaled
language: triton
techniques: [mixed-precision-math, tensor-cores]
architectures: [sm_89]
dtypes: [float8_e4m3]
sizes:
  check: [[64, 64, 256], [33, 45, 200], [1, 70, 128]]
  bench: [8192, 8192, 8192]
check_params: {block_m: 32, block_n: 32}
sources:
  - title: "DeepGEMM issue 50: two-level accumulation"
    url: https://github.com/deepseek-ai/DeepGEMM/issues/50
    licence: MIT
  - title: "Triton: triton.language.dot"
    url: https://triton-lang.org/main/python-api/generated/triton.language.dot.html
    licence: MIT
verified:
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 8192x8192x8192
  dtype: float8_e4m3
  baseline: eager
  baseline_ms: 22.87
  measured_ms: 3.249
  speedup: 7.039
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 8192x8192x8192
  dtype: float8_e4m3
  baseline: torch.compile
  baseline_ms: 21.83
  measured_ms: 3.249
  speedup: 6.719
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 8192x8192x8192
  dtype: float8_e4m3
  baseline: vendor library
  baseline_ms: 1.06
  measured_ms: 3.249
  speedup: 0.3263
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x8192x8192
  dtype: float8_e4m3
  baseline: eager
  baseline_ms: 22.81
  measured_ms: 2.091
  speedup: 10.91
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x8192x8192
  dtype: float8_e4m3
  baseline: torch.compile
  baseline_ms: 21.88
  measured_ms: 2.091
  speedup: 10.46
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x8192x8192
  dtype: float8_e4m3
  baseline: vendor library
  baseline_ms: 1.058
  measured_ms: 2.091
  speedup: 0.506
---

C = (A * scale_a) @ (B * scale_b)^T for A [M, K] and B [N, K] in E4M3 with one float32 scale for
every 128 values along K, as a quantizer of activations and weights gives them; C is bfloat16.

FP8 doubles the rate of the tensor cores over bfloat16. On Hopper they add FP8 products with about
14 bits, so a long sum loses accuracy. Here a block of 128 products is summed in the tensor core,
then scaled by its two scales and added to the accumulator in float32; the scales must be applied
there in any case. Both operands lie K-contiguous, which FP8 products of sm_90 require.
"""

import torch
import triton
import triton.language as tl

# Values of K that share a scale, and that are summed before the promotion.
SCALE_BLOCK = 128

TUNABLES = {
    "block_m": [64, 128],
    "block_n": [64, 128, 256],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def _matmul_fp8_kernel(
    a_ptr, b_ptr, sa_ptr, sb_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak, stride_bn, stride_bk, stride_sam, stride_sak, stride_sbn, stride_sbk,
    stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, UNPACK: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = (tile // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tile % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    row_ok = rows < M
    col_ok = cols < N
    # Index times stride is taken in int64: it passes 2**31 on matrices of a few GB.
    rows64 = rows.to(tl.int64)
    cols64 = cols.to(tl.int64)
    depth64 = depth.to(tl.int64)
    a_ptrs = a_ptr + rows64[:, None] * stride_am + depth64[None, :] * stride_ak
    b_ptrs = b_ptr + cols64[None, :] * stride_bn + depth64[:, None] * stride_bk
    sa_ptrs = sa_ptr + rows64 * stride_sam
    sb_ptrs = sb_ptr + cols64 * stride_sbn
    a_step = tl.full((), BLOCK_K, tl.int64) * stride_ak
    b_step = tl.full((), BLOCK_K, tl.int64) * stride_bk
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K):
        in_k = depth < K - k
        a = tl.load(a_ptrs, mask=row_ok[:, None] & in_k[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=in_k[:, None] & col_ok[None, :], other=0.0)
        sa = tl.load(sa_ptrs, mask=row_ok, other=0.0)
        sb = tl.load(sb_ptrs, mask=col_ok, other=0.0)
        if UNPACK:  # GPUs without FP8 products, and the interpreter
            a = a.to(tl.float16)
            b = b.to(tl.float16)
        acc += tl.dot(a, b) * sa[:, None] * sb[None, :]
        a_ptrs += a_step
        b_ptrs += b_step
        sa_ptrs += stride_sak
        sb_ptrs += stride_sbk
    c_ptrs = c_ptr + rows64[:, None] * stride_cm + cols64[None, :] * stride_cn
    mask = row_ok[:, None] & col_ok[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=mask)


def kernel_function(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    block_m: int = 128,
    block_n: int = 128,
    num_warps: int = 8,
    num_stages: int = 3,
) -> torch.Tensor:
    """`a` [M, K], `b` [N, K] in E4M3; float32 scales [M, S], [N, S], S = ceil(K/128) -> bfloat16.

    The result is [M, N]. Any strides; on sm_90 fast where K is contiguous in both.
    """
    (m, k), n = a.shape, b.shape[0]
    blocks = triton.cdiv(k, SCALE_BLOCK)
    if b.shape[1] != k or scale_a.shape != (m, blocks) or scale_b.shape != (n, blocks):
        shapes = [list(each.shape) for each in (a, b, scale_a, scale_b)]
        raise ValueError(f"operands and scales do not fit: {shapes}")
    c = torch.empty((m, n), dtype=torch.bfloat16, device=a.device)
    _matmul_fp8_kernel[(triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)](
        a, b, scale_a, scale_b, c,
        m, n, k,
        *a.stride(), *b.stride(), *scale_a.stride(), *scale_b.stride(), *c.stride(),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=SCALE_BLOCK,
        UNPACK=not a.is_cuda or torch.cuda.get_device_capability(a.device) < (8, 9),
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c


def reference(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor
) -> torch.Tensor:
    k = a.shape[1]
    wide_a = a.float() * scale_a.repeat_interleave(SCALE_BLOCK, dim=1)[:, :k]
    wide_b = b.float() * scale_b.repeat_interleave(SCALE_BLOCK, dim=1)[:, :k]
    return (wide_a @ wide_b.T).to(torch.bfloat16)


def library(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor
) -> torch.Tensor:
    # cuBLAS on sm_90: scales of 1x128 blocks, which lie one column after another.
    scale_a, scale_b = scale_a.T.contiguous().T, scale_b.T.contiguous().T
    return torch._scaled_mm(a, b.T, scale_a, scale_b.T, out_dtype=torch.bfloat16)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N, K]."""
    m, n, k = size
    blocks = triton.cdiv(k, SCALE_BLOCK)
    generator = torch.Generator(device=device).manual_seed(seed)
    values = [
        torch.randn((rows, k), device=device, generator=generator).to(dtype) for rows in (m, n)
    ]
    scales = [
        torch.rand(shape, device=device, generator=generator) + 0.5
        for shape in ((m, blocks), (n, blocks))
    ]
    return [*values, *scales]
