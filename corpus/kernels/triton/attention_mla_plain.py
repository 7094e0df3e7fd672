"""
---
slug: attention-mla-plain
title: Multi-head latent attention decode, one program for each sequence and block of heads
op: attention-mla
language: triton
techniques: [tensor-cores]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 20, 60, 64, 16], [1, 5, 33, 40, 24], [3, 16, 64, 32, 8]]
  bench: [16, 128, 4096, 512, 64]
check_params: {block_h: 16, block_n: 16}
sources:
  - title: "DeepSeek-AI: DeepSeek-V2, a strong, economical, and efficient mixture-of-experts model"
    url: https://arxiv.org/abs/2405.04434
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
  date: 2026-11-28
  shape: 16x128x4096x512x64
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1339
  measured_ms: 0.1374
  speedup: 0.9745
  floor_fraction: 0.1673
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 16x128x4096x512x64
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.0689
  measured_ms: 0.1374
  speedup: 0.5015
  floor_fraction: 0.1673
---

DeepSeek's attention with the up-projections absorbed: all heads share one latent vector for each
token, whose latent and rotary parts are the key, and whose latent part is the value. A program
takes a block of heads and walks over all keys of the sequence; a tile of latents is loaded once
for the scores and the weighted sum. The GPU is full only if there are many sequences, or if the
blocks of heads are small; and each block reads all latents of its sequence again, from L2.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_h": [16, 32, 64],
    "block_n": [16, 32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}

LOG2_E = 1.4426950408889634
# What tl.dot takes at least.
MIN_DOT = 16


@triton.jit
def _mla_kernel(
    q_ptr, cache_ptr, lengths_ptr, out_ptr,
    HEADS, keys, scale_log2,
    stride_qb, stride_qh, stride_qd, stride_cb, stride_cs, stride_cd,
    HAS_LENGTHS: tl.constexpr, RANK: tl.constexpr, ROPE: tl.constexpr,
    BLOCK_R: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # Blocks of heads are neighbours: they read the same latents.
    blocks = tl.cdiv(HEADS, BLOCK_H)
    head = tl.program_id(0) % blocks * BLOCK_H + tl.arange(0, BLOCK_H)
    batch = (tl.program_id(0) // blocks).to(tl.int64)
    length = keys
    if HAS_LENGTHS:
        length = tl.load(lengths_ptr + batch).to(tl.int32)
    rows = cache_ptr + batch * stride_cb
    head_ok = head < HEADS
    dims = tl.arange(0, BLOCK_R)
    dims_rope = tl.arange(0, BLOCK_P)
    q_rows = q_ptr + batch * stride_qb + head[:, None].to(tl.int64) * stride_qh
    q_latent = tl.load(
        q_rows + dims[None, :] * stride_qd,
        mask=head_ok[:, None] & (dims < RANK)[None, :], other=0.0,
    )  # fmt: skip
    q_rope = tl.load(
        q_rows + (RANK + dims_rope)[None, :] * stride_qd,
        mask=head_ok[:, None] & (dims_rope < ROPE)[None, :], other=0.0,
    )  # fmt: skip
    largest = tl.full((BLOCK_H,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_H,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_H, BLOCK_R), dtype=tl.float32)
    for start in tl.range(0, length, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        seen = cols < length
        at = rows + cols[:, None].to(tl.int64) * stride_cs
        latent = tl.load(
            at + dims[None, :] * stride_cd, mask=seen[:, None] & (dims < RANK)[None, :], other=0.0
        )
        rope = tl.load(
            at + (RANK + dims_rope)[None, :] * stride_cd,
            mask=seen[:, None] & (dims_rope < ROPE)[None, :], other=0.0,
        )  # fmt: skip
        scores = tl.dot(q_rope, rope.trans(), input_precision="tf32x3")
        scores = tl.dot(q_latent, latent.trans(), scores, input_precision="tf32x3")
        scores = tl.where(seen[None, :], scores * scale_log2, float("-inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        base = tl.where(new_largest == float("-inf"), 0.0, new_largest)
        p = tl.math.exp2(scores - base[:, None])
        alpha = tl.math.exp2(largest - base)
        total = total * alpha + tl.sum(p, axis=1)
        # The same tile, now as values.
        acc = tl.dot(p.to(latent.dtype), latent, acc * alpha[:, None], input_precision="tf32x3")
        largest = new_largest
    # A sequence without keys has the result 0.
    result = (acc / tl.where(length == 0, 1.0, total)[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(
        out_ptr + (batch * HEADS + head)[:, None] * RANK + dims[None, :], result,
        mask=head_ok[:, None] & (dims < RANK)[None, :],
    )  # fmt: skip


def _check(q: torch.Tensor, cache: torch.Tensor, rank: int, lengths: torch.Tensor | None) -> None:
    """Raise a ValueError for inputs that do not belong together."""
    if q.ndim != 3 or cache.ndim != 3 or q.shape[::2] != cache.shape[::2] or q.dtype != cache.dtype:
        raise ValueError(
            f"q {q.dtype} {list(q.shape)} and cache {cache.dtype} {list(cache.shape)} do not fit:"
            " give [B, H, rank + rope] and [B, S, rank + rope] of one dtype"
        )
    if not 0 < rank < q.shape[2] or rank > 512 or q.shape[2] - rank > 128:
        raise ValueError(
            f"rank {rank} of {q.shape[2]} columns: give at most 512, and 1 to 128 more for rope"
        )
    if lengths is not None and (lengths.shape != q.shape[:1] or lengths.is_floating_point()):
        raise ValueError(
            f"lengths {lengths.dtype} {list(lengths.shape)} must be int32 [{q.shape[0]}]"
        )


def kernel_function(
    q: torch.Tensor,
    cache: torch.Tensor,
    rank: int,
    scale: float,
    lengths: torch.Tensor | None = None,
    block_h: int = 16,
    block_n: int = 32,
    num_warps: int = 4,
    num_stages: int = 3,
) -> torch.Tensor:
    """Attention of `q` [B, H, R + P] to latents `cache` [B, S, R + P] of all heads -> [B, H, R].

    The first `rank` = R columns of `cache`, at most 512, are the latent part, which is the value as
    well; the other P, at most 128, are the rotary part. `q` is absorbed: its first R columns have
    been multiplied by the up-projection of the keys. `scale` is that of the heads before
    absorption: 1 / sqrt(128 + 64) in DeepSeek-V2 and V3, without the factor of extended contexts.
    `lengths` int32 [B] are the keys of each sequence, S if None; the result of a sequence of length
    0 is 0. Any strides.
    """
    _check(q, cache, rank, lengths)
    b, h, width = q.shape
    keys = cache.shape[1]
    out = torch.empty((b, h, rank), dtype=q.dtype, device=q.device)
    if out.numel() == 0:
        return out
    if keys == 0:
        return out.zero_()
    block_h = min(block_h, max(MIN_DOT, triton.next_power_of_2(h)))
    if q.element_size() == 4:
        block_h, block_n = 16, 16  # such tiles are twice as large
    if q.dtype == torch.bfloat16 and not q.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        q, cache = q.float(), cache.float()
    if lengths is not None:
        lengths = lengths.contiguous()
    _mla_kernel[(b * triton.cdiv(h, block_h),)](
        q, cache, lengths, out,
        h, keys, scale * LOG2_E,
        *q.stride(), *cache.stride(),
        HAS_LENGTHS=lengths is not None, RANK=rank, ROPE=width - rank,
        BLOCK_R=max(MIN_DOT, triton.next_power_of_2(rank)),
        BLOCK_P=max(MIN_DOT, triton.next_power_of_2(width - rank)),
        BLOCK_H=block_h, BLOCK_N=block_n, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out


def reference(
    q: torch.Tensor,
    cache: torch.Tensor,
    rank: int,
    scale: float,
    lengths: torch.Tensor | None = None,
) -> torch.Tensor:
    scores = (q @ cache.mT).float() * scale
    if lengths is not None:
        past = torch.arange(cache.shape[1], device=q.device) >= lengths[:, None]
        scores = scores.masked_fill(past[:, None, :], float("-inf"))
    return scores.softmax(dim=-1).to(q.dtype) @ cache[..., :rank]


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | int | float]:
    """`size` is [B, heads, keys, latent size, rotary size]."""
    b, h, keys, rank, rope = size
    generator = torch.Generator(device=device).manual_seed(seed)
    q, cache = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((b, h, rank + rope), (b, keys, rank + rope))
    )
    return [q, cache, rank, (128 + 64) ** -0.5]
