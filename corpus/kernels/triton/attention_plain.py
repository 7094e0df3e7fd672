"""
---
slug: attention-plain
title: Attention in two kernels, with the probabilities in memory between them
op: attention
language: triton
techniques: [tensor-cores]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 64, 64, 32], [1, 70, 45, 24], [3, 1, 100, 64]]
  bench: [64, 4096, 4096, 128]
check_params: {block_m: 16, block_n: 32}
sources:
  - title: "Vaswani et al.: Attention is all you need"
    url: https://arxiv.org/abs/1706.03762
    licence: proprietary
  - title: "PyTorch: scaled_dot_product_attention"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x4096x4096x128
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.8248
  measured_ms: 2.973
  speedup: 0.2774
  floor_fraction: 0.2341
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x4096x4096x128
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.825
  measured_ms: 2.973
  speedup: 0.2775
  floor_fraction: 0.2341
---

softmax(Q K^T / sqrt(D)) V for each head, as the formula is written. The first kernel walks over
the keys three times for a block of queries: for the maximum, for the sum of exponentials, and to
write the probabilities [heads, N, keys]. The second multiplies them with V. The probabilities
cross the memory bus twice, N * keys values for each head, and Q K^T is computed three times.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [16, 32, 64, 128],
    "block_n": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}

# Programs that a second dimension may have.
MAX_HEADS = 65535


@triton.jit
def _scores(
    q, k_head, start, keys, scale, stride_kn, stride_kd,
    BLOCK_N: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    cols = start + tl.arange(0, BLOCK_N)
    dims = tl.arange(0, BLOCK_D)
    at = cols[None, :].to(tl.int64) * stride_kn + dims[:, None] * stride_kd
    mask = (cols[None, :] < keys) & (dims[:, None] < D)
    k = tl.load(k_head + at, mask=mask, other=0.0)
    scores = tl.dot(q, k, input_precision="tf32x3") * scale
    return tl.where(cols[None, :] < keys, scores, float("-inf"))


@triton.jit
def _probabilities_kernel(
    q_ptr, k_ptr, p_ptr,
    N, keys, scale,
    stride_qh, stride_qn, stride_qd, stride_kh, stride_kn, stride_kd,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    q_at = rows[:, None].to(tl.int64) * stride_qn + dims[None, :] * stride_qd
    q_mask = (rows[:, None] < N) & (dims[None, :] < D)
    q = tl.load(q_ptr + head * stride_qh + q_at, mask=q_mask, other=0.0)
    k_head = k_ptr + head * stride_kh
    largest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    for start in tl.range(0, keys, BLOCK_N):
        scores = _scores(q, k_head, start, keys, scale, stride_kn, stride_kd, BLOCK_N, D, BLOCK_D)
        largest = tl.maximum(largest, tl.max(scores, axis=1))
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for start in tl.range(0, keys, BLOCK_N):
        scores = _scores(q, k_head, start, keys, scale, stride_kn, stride_kd, BLOCK_N, D, BLOCK_D)
        total += tl.sum(tl.exp(scores - largest[:, None]), axis=1)
    p_rows = p_ptr + (head * N + rows[:, None]) * keys
    for start in tl.range(0, keys, BLOCK_N):
        scores = _scores(q, k_head, start, keys, scale, stride_kn, stride_kd, BLOCK_N, D, BLOCK_D)
        p = tl.exp(scores - largest[:, None]) / total[:, None]
        cols = start + tl.arange(0, BLOCK_N)
        mask = (rows[:, None] < N) & (cols[None, :] < keys)
        tl.store(p_rows + cols[None, :], p.to(p_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _weighted_sum_kernel(
    p_ptr, v_ptr, out_ptr,
    N, keys,
    stride_vh, stride_vn, stride_vd, stride_oh, stride_on, stride_od,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    p_rows = p_ptr + (head * N + rows[:, None]) * keys
    acc = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    for start in tl.range(0, keys, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        p_mask = (rows[:, None] < N) & (cols[None, :] < keys)
        p = tl.load(p_rows + cols[None, :], mask=p_mask, other=0.0)
        at = cols[:, None].to(tl.int64) * stride_vn + dims[None, :] * stride_vd
        v_mask = (cols[:, None] < keys) & (dims[None, :] < D)
        v = tl.load(v_ptr + head * stride_vh + at, mask=v_mask, other=0.0)
        acc = tl.dot(p, v, acc, input_precision="tf32x3")
    at = rows[:, None].to(tl.int64) * stride_on + dims[None, :] * stride_od
    mask = (rows[:, None] < N) & (dims[None, :] < D)
    tl.store(out_ptr + head * stride_oh + at, acc.to(out_ptr.dtype.element_ty), mask=mask)


def kernel_function(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_m: int = 64,
    block_n: int = 64,
    num_warps: int = 4,
    num_stages: int = 2,
) -> torch.Tensor:
    """Attention of `q` [heads, N, D] over `k`, `v` [heads, keys, D] -> [heads, N, D]; D <= 256."""
    heads, n, d = q.shape
    keys = k.shape[1]
    if k.shape != (heads, keys, d) or v.shape != k.shape or keys == 0 or not 0 < d <= 256:
        raise ValueError(f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)} do not fit")
    out = torch.empty((heads, n, d), dtype=q.dtype, device=q.device)
    dtype = q.dtype
    if dtype == torch.bfloat16 and not q.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        q, k, v = q.float(), k.float(), v.float()
    if dtype == torch.float32:
        block_n = min(block_n, 32)  # float32 tiles are twice as large
    p = torch.empty((heads, n, keys), dtype=q.dtype, device=q.device)
    blocks = {
        "D": d, "BLOCK_D": max(16, triton.next_power_of_2(d)), "BLOCK_M": block_m,
        "BLOCK_N": block_n, "num_warps": num_warps, "num_stages": num_stages,
    }  # fmt: skip
    strides = (*v.stride(), *out.stride())
    for q_part, k_part, v_part, p_part, part in zip(
        *(each.split(MAX_HEADS) for each in (q, k, v, p, out)), strict=True
    ):
        grid = (triton.cdiv(n, block_m), part.shape[0])
        _probabilities_kernel[grid](
            q_part, k_part, p_part, n, keys, d**-0.5, *q.stride(), *k.stride(), **blocks
        )
        _weighted_sum_kernel[grid](p_part, v_part, part, n, keys, *strides, **blocks)
    return out


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    # With three dimensions PyTorch takes no fused kernel.
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(q[None], k[None], v[None])[0]


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [heads, queries, keys, head size]."""
    heads, n, keys, d = size
    generator = torch.Generator(device=device).manual_seed(seed)
    return [
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((heads, n, d), (heads, keys, d), (heads, keys, d))
    ]
