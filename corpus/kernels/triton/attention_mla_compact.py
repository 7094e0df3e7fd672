"""
---
slug: attention-mla-compact
title: Short multi-head latent attention decode, keys split over programs
op: attention-mla
language: triton
techniques: [flash-attention, split-k]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 20, 300, 64, 16], [1, 5, 33, 32, 32], [3, 16, 64, 32, 16]]
  bench: [64, 16, 4096, 512, 64]
check_params: {block_h: 16, block_n: 64}
sources:
  - title: "DeepSeek-AI: DeepSeek-V2, a strong, economical, and efficient mixture-of-experts model"
    url: https://arxiv.org/abs/2405.04434
    licence: proprietary
  - title: "PyTorch blog: Flash-Decoding for long-context inference"
    url: https://pytorch.org/blog/flash-decoding/
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 64x16x4096x512x64
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.2212
  measured_ms: 0.09133
  speedup: 2.422
  floor_fraction: 0.7787
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 64x16x4096x512x64
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1567
  measured_ms: 0.09133
  speedup: 1.716
  floor_fraction: 0.7787
---

DeepSeek's attention caches one latent vector and one rotary part for each token, which all heads
share. With the up-projections absorbed into the query and the output projection, latent and rotary
part together are the key, and the latent is the value. So a tile of latents is loaded once and used
in two products: transposed for the scores, as it lies for the weighted sum. The heads are the rows
of both, and the tensor cores want at least 16 of these.

One query for each sequence gives few programs. The keys are therefore cut into parts, until about
256 programs run. Each writes the mean of its values, weighted by the softmax over its own keys, and
the logarithm of the sum of exponentials. A second kernel merges the parts of a head: weights are
the exponentials of these logarithms. The order is fixed, so the result is deterministic. A part
past the end of its sequence has the logarithm -inf, and so no weight.

It is made for few heads, 16 to 32 as tensor parallelism leaves on a GPU: memory limits it there.
With all 128 heads products do, and `attention-mla-split` makes more of Hopper's tensor cores.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_h": [16, 32],
    "block_n": [32, 64],
    "num_warps": [4, 8],
}


@triton.jit
def _part_kernel(
    q_ptr, cache_ptr, lengths_ptr, means_ptr, logs_ptr, HEADS, keys, span, scale,
    RANK: tl.constexpr, WIDTH: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = (tl.program_id(0) * BLOCK_H + tl.arange(0, BLOCK_H))[:, None]
    there = head < HEADS
    # Rows times their length are taken in int64: they pass 2**31 on caches of a few GB.
    batch = tl.program_id(2).to(tl.int64)
    r = tl.arange(0, RANK)[None, :]
    p = tl.arange(RANK, WIDTH)[None, :]
    row = batch * HEADS + head
    q_latent = tl.load(q_ptr + row * WIDTH + r, mask=there)
    q_rope = tl.load(q_ptr + row * WIDTH + p, mask=there)
    largest = tl.full((BLOCK_H, 1), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_H, 1), tl.float32)
    acc = tl.zeros((BLOCK_H, RANK), tl.float32)
    first = tl.program_id(1) * span
    end = tl.minimum(first + span, tl.load(lengths_ptr + batch))
    for start in tl.range(first, end, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)[:, None]
        at = cache_ptr + (batch * keys + key) * WIDTH
        # Past the end, scores do not count whatever is loaded; the values' weight of 0 needs zeros.
        latent = tl.load(at + r, mask=key < end, other=0.0)
        rope = tl.load(at + p, mask=key < end)
        scores = tl.dot(q_rope, rope.trans(), input_precision="tf32x3")
        scores = tl.dot(q_latent, latent.trans(), scores, input_precision="tf32x3")
        scores = tl.where(key.trans() < end, scores * scale, float("-inf"))
        top = tl.maximum(largest, tl.max(scores, axis=1, keep_dims=True))
        weight = tl.exp(scores - top)
        alpha = tl.exp(largest - top)
        total = total * alpha + tl.sum(weight, axis=1, keep_dims=True)
        # The same tile, now as values.
        acc = tl.dot(weight.to(latent.dtype), latent, acc * alpha, input_precision="tf32x3")
        largest = top
    # Where there were keys, the total is 1 or more.
    part = row * tl.num_programs(1) + tl.program_id(1)
    tl.store(means_ptr + part * RANK + r, acc / tl.maximum(total, 1.0), mask=there)
    tl.store(logs_ptr + part, largest + tl.log(total), mask=there)


@triton.jit
def _merge_kernel(means_ptr, logs_ptr, out_ptr, RANK: tl.constexpr, PARTS: tl.constexpr):
    row = tl.program_id(0)
    r = tl.arange(0, RANK)[None, :]
    part = row * PARTS + tl.arange(0, PARTS)[:, None]
    log = tl.load(logs_ptr + part)
    # A sequence without keys has the result 0.
    weight = tl.exp(log - tl.maximum(tl.max(log), -1e30))
    result = tl.sum(weight * tl.load(means_ptr + part * RANK + r), axis=0, keep_dims=True)
    tl.store(out_ptr + row * RANK + r, result / tl.maximum(tl.sum(weight), 1.0))


def kernel_function(
    q: torch.Tensor,
    cache: torch.Tensor,
    rank: int,
    scale: float,
    lengths: torch.Tensor,
    block_h: int = 16,
    block_n: int = 64,
    num_warps: int = 8,
) -> torch.Tensor:
    """Attention of `q` [B, H, R + P] to `cache` [B, S, R + P] -> [B, H, R].

    The first `rank` = R columns of `cache` are the latent part, which is the value as well; the
    other P are the rotary part. Both are powers of two from 16, R at most 512 and P at most 128.
    `q` is absorbed: its first R columns have been multiplied by the up-projection of the keys.
    `scale` is that of the heads before absorption. `lengths` [B] are the keys of each sequence;
    the result of a sequence of length 0 is 0. Inputs that are not contiguous are copied: where
    the cache is part of a longer one, pass its strides to the kernel instead.
    """
    b, h, width = q.shape
    keys = cache.shape[1]
    if cache.shape[::2] != q.shape[::2] or cache.dtype != q.dtype or lengths.shape != (b,):
        raise ValueError(f"q {list(q.shape)}, cache {list(cache.shape)} and lengths do not fit")
    if rank not in (16, 32, 64, 128, 256, 512) or width - rank not in (16, 32, 64, 128):
        raise ValueError(f"rank {rank} of {width} columns: it and the rest must be powers of two")
    out = q.new_empty((b, h, rank))
    if q.dtype == torch.bfloat16 and not q.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        q, cache = q.float(), cache.float()
    q, cache, lengths = q.contiguous(), cache.contiguous(), lengths.contiguous()
    block_n = block_n if q.element_size() == 2 else 16
    blocks = triton.cdiv(h, block_h)
    parts = min(256 // max(1, b * blocks), keys // 128, 64)
    parts = triton.next_power_of_2(max(1, parts))
    span = triton.cdiv(keys, parts * block_n) * block_n
    means = q.new_empty((b, h, parts, rank), dtype=torch.float32)
    logs = means.new_empty((b, h, parts))
    # Two stages, so that two programs share the shared memory of a multiprocessor.
    _part_kernel[(blocks, parts, b)](
        q, cache, lengths, means, logs, h, keys, span, scale, RANK=rank, WIDTH=width,
        BLOCK_H=block_h, BLOCK_N=block_n, num_warps=num_warps, num_stages=2,
    )  # fmt: skip
    _merge_kernel[(b * h,)](means, logs, out, RANK=rank, PARTS=parts)
    return out


def reference(
    q: torch.Tensor, cache: torch.Tensor, rank: int, scale: float, lengths: torch.Tensor
) -> torch.Tensor:
    scores = (q @ cache.mT).float() * scale
    past = torch.arange(cache.shape[1], device=q.device) >= lengths[:, None]
    scores = scores.masked_fill(past[:, None, :], float("-inf"))
    return scores.softmax(dim=-1).to(q.dtype) @ cache[..., :rank]


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | int | float]:
    """`size` is [B, heads, keys, latent size, rotary size]; sequences have from 3/4 of the keys."""
    b, h, keys, rank, rope = size
    generator = torch.Generator(device=device).manual_seed(seed)
    q, cache = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((b, h, rank + rope), (b, keys, rank + rope))
    )
    least = max(1, 3 * keys // 4)
    lengths = torch.arange(b, dtype=torch.int32, device=device) * 7 % (keys - least + 1) + least
    return [q, cache, rank, (128 + 64) ** -0.5, lengths]
