"""
---
slug: attention-masked
title: Tiled attention that computes and masks every block, also those it could skip
op: attention
language: triton
techniques: [flash-attention, online-reduction, tensor-cores]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check:
    - [1, 2, 1, 64, 64, 32, 1]
    - [2, 3, 3, 45, 70, 20, 0]
    - [1, 4, 2, 100, 40, 16, 1]
    - [1, 1, 1, 1, 33, 80, 0]
  bench: [4, 32, 8, 4096, 4096, 128, 1]
check_params: {block_m: 32, block_n: 32}
sources:
  - title: "Dao: FlashAttention-2, faster attention with better parallelism and work partitioning"
    url: https://arxiv.org/abs/2307.08691
    licence: proprietary
  - title: "PyTorch: torch.nn.functional.scaled_dot_product_attention"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    licence: BSD-3-Clause
  - title: "Ainslie et al.: GQA, training generalized multi-query transformer models"
    url: https://arxiv.org/abs/2305.13245
    licence: CC-BY-4.0
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 4x32x8x4096x4096x128x1
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.9241
  measured_ms: 2.628
  speedup: 0.3516
  floor_fraction: 0.2649
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 4x32x8x4096x4096x128x1
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.9239
  measured_ms: 2.628
  speedup: 0.3516
  floor_fraction: 0.2649
---

softmax(Q K^T / sqrt(D)) V for each head in one kernel, with the causal mask as a comparison. Every
block of scores is computed and compared, also those that lie wholly after the queries and come out
as zeros: half of the work of a square causal problem is for nothing.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [64, 128],
    "block_n": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}

LOG2_E = 1.4426950408889634


@triton.jit
def _attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    HEADS, SHARING, N, keys, scale_log2,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(N, BLOCK_M)
    block = tl.program_id(0) % blocks
    head = (tl.program_id(0) // blocks % HEADS).to(tl.int64)
    batch = (tl.program_id(0) // (blocks * HEADS)).to(tl.int64)
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    in_d = dims < D
    q_at = rows[:, None].to(tl.int64) * stride_qn + dims[None, :] * stride_qd
    q_mask = (rows < N)[:, None] & in_d[None, :]
    q = tl.load(q_ptr + batch * stride_qb + head * stride_qh + q_at, mask=q_mask, other=0.0)
    k_head = k_ptr + batch * stride_kb + head // SHARING * stride_kh
    v_head = v_ptr + batch * stride_vb + head // SHARING * stride_vh
    largest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    for start in tl.range(0, keys, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        cols64 = cols.to(tl.int64)
        k_at = cols64[None, :] * stride_kn + dims[:, None] * stride_kd
        k = tl.load(k_head + k_at, mask=(cols < keys)[None, :] & in_d[:, None], other=0.0)
        scores = tl.dot(q, k, input_precision="tf32x3") * scale_log2
        seen = (cols < keys)[None, :]
        if CAUSAL:
            seen = seen & (cols[None, :] <= rows[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        # The first block holds key 0, which every query sees: the maximum is finite.
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        p = tl.math.exp2(scores - new_largest[:, None])
        alpha = tl.math.exp2(largest - new_largest)
        total = total * alpha + tl.sum(p, axis=1)
        v_at = cols64[:, None] * stride_vn + dims[None, :] * stride_vd
        v = tl.load(v_head + v_at, mask=(cols < keys)[:, None] & in_d[None, :], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="tf32x3")
        largest = new_largest
    out_at = ((batch * HEADS + head) * N + rows[:, None]) * D + dims[None, :]
    tl.store(out_ptr + out_at, (acc / total[:, None]).to(out_ptr.dtype.element_ty), mask=q_mask)


def kernel_function(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    block_m: int = 64,
    block_n: int = 64,
    num_warps: int = 4,
    num_stages: int = 3,
) -> torch.Tensor:
    """Attention of `q` [B, H, N, D] to `k` and `v` [B, G, S, D] -> [B, H, N, D], scaled by
    1 / sqrt(D); H a multiple of G, D at most 256, any strides. With `causal` query i sees keys 0
    to i."""
    b, h, n, d = q.shape
    _, g, keys, _ = k.shape
    if k.shape != (b, g, keys, d) or v.shape != k.shape or g * keys == 0 or h % g or d > 256:
        raise ValueError(f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)} do not fit")
    out = torch.empty((b, h, n, d), dtype=q.dtype, device=q.device)
    if out.numel() == 0:
        return out
    if q.dtype == torch.float32 or d > 128:
        block_m, block_n = min(block_m, 64), min(block_n, 32)  # such tiles are twice as large
    if q.dtype == torch.bfloat16 and not q.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        q, k, v = q.float(), k.float(), v.float()
    _attention_kernel[(triton.cdiv(n, block_m) * h * b,)](
        q, k, v, out,
        h, h // g, n, keys, d**-0.5 * LOG2_E,
        *q.stride(), *k.stride(), *v.stride(),
        CAUSAL=causal, D=d, BLOCK_D=max(16, triton.next_power_of_2(d)),
        BLOCK_M=block_m, BLOCK_N=block_n, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out


def reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(q, k, v, is_causal=causal, enable_gqa=True)


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | bool]:
    """`size` is [B, query heads, key heads, queries, keys, head size, 1 for causal]."""
    b, h, g, n, keys, d, causal = size
    generator = torch.Generator(device=device).manual_seed(seed)
    q, k, v = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((b, h, n, d), (b, g, keys, d), (b, g, keys, d))
    )
    return [q, k, v, bool(causal)]
