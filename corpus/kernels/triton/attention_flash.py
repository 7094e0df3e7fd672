"""
---
slug: attention-flash
title: Tiled attention in one kernel, scores only on chip
op: attention
language: triton
techniques: [flash-attention, online-reduction, fast-math, kernel-fusion, tensor-cores]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: attention-plain
sizes:
  check: [[2, 64, 64, 32], [1, 70, 45, 24], [3, 1, 100, 64]]
  bench: [64, 4096, 4096, 128]
check_params: {block_m: 16, block_n: 32}
sources:
  - title: "Dao et al.: FlashAttention, fast and memory-efficient exact attention with IO-awareness"
    url: https://arxiv.org/abs/2205.14135
    licence: proprietary
  - title: "Dao: FlashAttention-2, faster attention with better parallelism and work partitioning"
    url: https://arxiv.org/abs/2307.08691
    licence: proprietary
  - title: "Milakov, Gimelshein: Online normalizer calculation for softmax"
    url: https://arxiv.org/abs/1805.02867
    licence: arXiv-nonexclusive
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x4096x4096x128
  dtype: bfloat16
  baseline: attention-plain
  baseline_ms: 2.974
  measured_ms: 1.122
  speedup: 2.651
  floor_fraction: 0.6204
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x4096x4096x128
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.8245
  measured_ms: 1.122
  speedup: 0.7348
  floor_fraction: 0.6204
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x4096x4096x128
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.8244
  measured_ms: 1.122
  speedup: 0.7348
  floor_fraction: 0.6204
---

softmax(Q K^T / sqrt(D)) V for each head. A program keeps BLOCK_M queries, walks over the keys and
values in blocks of BLOCK_N, and carries for each query the largest score so far, the sum of
exponentials and the weighted sum of values. When the largest score grows, what was summed is
scaled down by exp2 of the difference. The division comes once, at the end. Nothing of size N *
keys is written.

The scale holds the factor log2(e), so an exponential is one `exp2` instruction without a
multiplication of its own. Probabilities are converted to the dtype of V for the second product;
sums stay in float32.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [16, 32, 64, 128],
    "block_n": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3, 4],
}

LOG2_E = 1.4426950408889634
# Programs that a second dimension may have.
MAX_HEADS = 65535


@triton.jit
def _attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    N, keys, scale_log2,
    stride_qh, stride_qn, stride_qd, stride_kh, stride_kn, stride_kd,
    stride_vh, stride_vn, stride_vd, stride_oh, stride_on, stride_od,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    in_d = dims < D
    q_at = rows[:, None].to(tl.int64) * stride_qn + dims[None, :] * stride_qd
    q_mask = (rows[:, None] < N) & in_d[None, :]
    q = tl.load(q_ptr + head * stride_qh + q_at, mask=q_mask, other=0.0)

    cols = tl.arange(0, BLOCK_N)
    cols64 = cols.to(tl.int64)
    k_ptrs = k_ptr + head * stride_kh + cols64[None, :] * stride_kn + dims[:, None] * stride_kd
    v_ptrs = v_ptr + head * stride_vh + cols64[:, None] * stride_vn + dims[None, :] * stride_vd
    k_step = tl.full((), BLOCK_N, tl.int64) * stride_kn
    v_step = tl.full((), BLOCK_N, tl.int64) * stride_vn

    largest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    for start in tl.range(0, keys, BLOCK_N):
        in_keys = cols < keys - start
        k = tl.load(k_ptrs, mask=in_keys[None, :] & in_d[:, None], other=0.0)
        scores = tl.dot(q, k, input_precision="tf32x3") * scale_log2
        scores = tl.where(in_keys[None, :], scores, float("-inf"))
        # Every block has at least one key, so the new maximum is finite.
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        p = tl.math.exp2(scores - new_largest[:, None])
        alpha = tl.math.exp2(largest - new_largest)
        total = total * alpha + tl.sum(p, axis=1)
        v = tl.load(v_ptrs, mask=in_keys[:, None] & in_d[None, :], other=0.0)
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="tf32x3")
        largest = new_largest
        k_ptrs += k_step
        v_ptrs += v_step

    out_at = rows[:, None].to(tl.int64) * stride_on + dims[None, :] * stride_od
    result = acc / total[:, None]
    tl.store(out_ptr + head * stride_oh + out_at, result.to(out_ptr.dtype.element_ty), mask=q_mask)


def kernel_function(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_m: int = 128,
    block_n: int = 64,
    num_warps: int = 8,
    num_stages: int = 2,
) -> torch.Tensor:
    """Attention of `q` [heads, N, D] over `k`, `v` [heads, keys, D] -> [heads, N, D]; D <= 256."""
    heads, n, d = q.shape
    keys = k.shape[1]
    if k.shape != (heads, keys, d) or v.shape != k.shape or keys == 0 or not 0 < d <= 256:
        raise ValueError(f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)} do not fit")
    out = torch.empty((heads, n, d), dtype=q.dtype, device=q.device)
    if q.dtype == torch.float32:
        block_n = min(block_n, 32)  # float32 tiles are twice as large
    if q.dtype == torch.bfloat16 and not q.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        q, k, v = q.float(), k.float(), v.float()
    for parts in zip(*(each.split(MAX_HEADS) for each in (q, k, v, out)), strict=True):
        _attention_kernel[(triton.cdiv(n, block_m), parts[0].shape[0])](
            *parts,
            n, keys, d**-0.5 * LOG2_E,
            *q.stride(), *k.stride(), *v.stride(), *out.stride(),
            D=d, BLOCK_D=max(16, triton.next_power_of_2(d)), BLOCK_M=block_m, BLOCK_N=block_n,
            num_warps=num_warps, num_stages=num_stages,
        )  # fmt: skip
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
