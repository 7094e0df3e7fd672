"""
---
slug: attention-decode-plain
title: Attention of one query at a time, one program for each query head
op: attention-decode
language: triton
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 4, 2, 1, 64, 32], [1, 6, 2, 3, 100, 24], [1, 2, 2, 1, 33, 64], [1, 3, 1, 7, 70, 80]]
  bench: [32, 32, 8, 1, 4096, 128]
check_params: {block_n: 32}
sources:
  - title: "PyTorch: torch.nn.functional.scaled_dot_product_attention"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    licence: BSD-3-Clause
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
  shape: 32x32x8x1x4096x128
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1245
  measured_ms: 0.3859
  speedup: 0.3226
  floor_fraction: 0.3275
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 32x32x8x1x4096x128
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1245
  measured_ms: 0.3859
  speedup: 0.3226
  floor_fraction: 0.3275
---

A program walks over all keys for one query of one head: scores by multiplication and sum on the
CUDA cores, softmax online, the weighted sum of the values in registers. As many programs run as
there are query heads in the batch, each of them alone with its keys, and heads that share a key
head read it once each.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block_n": [16, 32, 64, 128], "num_warps": [2, 4, 8]}


@triton.jit
def _decode_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    HEADS, SHARING, N, keys, scale,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    query = (tl.program_id(0) % N).to(tl.int64)
    head = (tl.program_id(0) // N % HEADS).to(tl.int64)
    batch = (tl.program_id(0) // (N * HEADS)).to(tl.int64)
    dims = tl.arange(0, BLOCK_D)
    in_d = dims < D
    q_at = batch * stride_qb + head * stride_qh + query * stride_qn
    q = tl.load(q_ptr + q_at + dims * stride_qd, mask=in_d, other=0.0).to(tl.float32)
    k_head = k_ptr + batch * stride_kb + head // SHARING * stride_kh
    v_head = v_ptr + batch * stride_vb + head // SHARING * stride_vh
    largest = tl.full((), float("-inf"), dtype=tl.float32)
    total = tl.zeros((), dtype=tl.float32)
    acc = tl.zeros((BLOCK_D,), dtype=tl.float32)
    for start in tl.range(0, keys, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        mask = (cols < keys)[:, None] & in_d[None, :]
        k_at = cols[:, None] * stride_kn + dims[None, :] * stride_kd
        k = tl.load(k_head + k_at, mask=mask, other=0.0).to(tl.float32)
        scores = tl.sum(k * q[None, :], axis=1) * scale
        scores = tl.where(cols < keys, scores, float("-inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=0))
        p = tl.exp(scores - new_largest)
        alpha = tl.exp(largest - new_largest)
        v_at = cols[:, None] * stride_vn + dims[None, :] * stride_vd
        v = tl.load(v_head + v_at, mask=mask, other=0.0).to(tl.float32)
        total = total * alpha + tl.sum(p, axis=0)
        acc = acc * alpha + tl.sum(p[:, None] * v, axis=0)
        largest = new_largest
    out_at = ((batch * HEADS + head) * N + query) * D
    tl.store(out_ptr + out_at + dims, (acc / total).to(out_ptr.dtype.element_ty), mask=in_d)


def kernel_function(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_n: int = 64, num_warps: int = 4
) -> torch.Tensor:
    """Attention of `q` [B, H, N, D] to `k` and `v` [B, G, S, D] -> [B, H, N, D]; H a multiple of G,
    any strides, scaled by 1 / sqrt(D)."""
    b, h, n, d = q.shape
    _, g, keys, _ = k.shape
    if k.shape != (b, g, keys, d) or v.shape != k.shape or g * keys == 0 or h % g:
        raise ValueError(f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)} do not fit")
    out = torch.empty((b, h, n, d), dtype=q.dtype, device=q.device)
    if out.numel() == 0:
        return out
    _decode_kernel[(b * h * n,)](
        q, k, v, out, h, h // g, n, keys, d**-0.5, *q.stride(), *k.stride(), *v.stride(),
        D=d, BLOCK_D=triton.next_power_of_2(d), BLOCK_N=block_n, num_warps=num_warps,
    )  # fmt: skip
    return out


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(q, k, v, enable_gqa=True)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [B, query heads, key heads, queries, keys, head size]."""
    b, h, g, n, keys, d = size
    generator = torch.Generator(device=device).manual_seed(seed)
    return [
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((b, h, n, d), (b, g, keys, d), (b, g, keys, d))
    ]
