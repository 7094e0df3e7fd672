"""
---
slug: attention-mla-split
title: Multi-head latent attention decode, each latent tile loaded once, keys split over programs
op: attention-mla
language: triton
techniques: [split-k, flash-attention, tma-device-descriptor]
architectures: [sm_90]
dtypes: [float32, float16, bfloat16]
derived_from: attention-mla-plain
sizes:
  check: [[2, 20, 70, 64, 16], [1, 5, 33, 40, 24], [3, 16, 64, 32, 8]]
  bench: [16, 128, 4096, 512, 64]
check_params: {block_h: 16, block_n: 16, programs: 6}
sources:
  - title: "DeepSeek-AI: DeepSeek-V2, a strong, economical, and efficient mixture-of-experts model"
    url: https://arxiv.org/abs/2405.04434
    licence: proprietary
  - title: "PyTorch blog: Flash-Decoding for long-context inference"
    url: https://pytorch.org/blog/flash-decoding/
    licence: proprietary
  - title: "Triton: triton.language.make_tensor_descriptor"
    url: https://triton-lang.org/main/python-api/generated/triton.language.make_tensor_descriptor.html
    licence: MIT
---

DeepSeek's attention keeps one latent vector for each token, with a rotary part behind it, in place
of keys and values of every head. With the up-projections absorbed into the query and the output
projection, all heads share one key, the latent and rotary parts together, and one value, which is
the latent part. That is 2 * 128 heads * (576 + 512) operations for 1152 bytes: with 128 heads the
tensor cores and the memory take about as long.

A tile of latents is loaded once into shared memory. The scores multiply it transposed, the weighted
sum multiplies it as it lies; as separate keys and values it would be read twice. 64 heads are the
rows of the tile, the fewest that Hopper's warpgroup instructions take, and the most whose 512
columns of sums fit in registers. The second block of heads is the neighbouring program and finds
the latents in L2. Triton 3.9 lets both warpgroups of such a program compute all of its scores, and
shares only the columns of the sum out between them; blocks of 32 heads on 4 warps do not repeat
work, but read the latents from L2 four times.

Few sequences of many keys do not fill the GPU: the keys are cut into parts until about `programs`
programs run, one for each multiprocessor, since shared memory holds no second one. Parts are
combined by a second kernel in the order of the keys, so the result is deterministic.

Each program describes the rows of its own sequence to TMA. Rows past the length of a sequence then
read as zeros: what lies there, be it NaN, does not reach the sums, and no tile passes through
registers to be masked.

Where sequences times blocks of heads already fill the GPU, there is one part and no second kernel.
For prefill the absorbed form does several times the work of the usual one.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_h": [16, 32, 64],
    "block_n": [16, 32, 64],
    "programs": [132, 264, 528],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}

LOG2_E = 1.4426950408889634
# What tl.dot takes at least.
MIN_DOT = 16


@triton.jit
def _part_kernel(
    q_ptr, cache_ptr, lengths_ptr, sums_ptr, logs_ptr, out_ptr,
    HEADS, keys, parts, span, scale_log2,
    stride_qb, stride_qh, stride_qd, stride_cb, stride_cs,
    ALONE: tl.constexpr, HAS_LENGTHS: tl.constexpr, RANK: tl.constexpr, ROPE: tl.constexpr,
    BLOCK_R: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # Blocks of heads are neighbours: they read the same latents.
    blocks = tl.cdiv(HEADS, BLOCK_H)
    head = tl.program_id(0) % blocks * BLOCK_H + tl.arange(0, BLOCK_H)
    part = tl.program_id(0) // blocks % parts
    batch = (tl.program_id(0) // (blocks * parts)).to(tl.int64)
    length = keys
    if HAS_LENGTHS:
        length = tl.load(lengths_ptr + batch).to(tl.int32)
    first = part * span
    if not ALONE and first >= length:  # the second kernel does not look for this part
        return
    end = tl.minimum(first + span, length)
    rows = cache_ptr + batch * stride_cb
    # What lies past the length reads as zeros.
    there = tl.maximum(length, 1)
    latent_desc = tl.make_tensor_descriptor(
        rows, shape=[there, RANK], strides=[stride_cs, 1], block_shape=[BLOCK_N, BLOCK_R]
    )
    rope_desc = tl.make_tensor_descriptor(
        rows + RANK, shape=[there, ROPE], strides=[stride_cs, 1], block_shape=[BLOCK_N, BLOCK_P]
    )
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
    for start in tl.range(first, end, BLOCK_N):
        rope = rope_desc.load([start, 0])
        latent = latent_desc.load([start, 0])
        scores = tl.dot(q_rope, rope.trans(), input_precision="tf32x3")
        scores = tl.dot(q_latent, latent.trans(), scores, input_precision="tf32x3")
        seen = start + tl.arange(0, BLOCK_N) < end
        scores = tl.where(seen[None, :], scores * scale_log2, float("-inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        base = tl.where(new_largest == float("-inf"), 0.0, new_largest)
        p = tl.math.exp2(scores - base[:, None])
        alpha = tl.math.exp2(largest - base)
        total = total * alpha + tl.sum(p, axis=1)
        # The same tile, now as values.
        acc = tl.dot(p.to(latent.dtype), latent, acc * alpha[:, None], input_precision="tf32x3")
        largest = new_largest
    out_mask = head_ok[:, None] & (dims < RANK)[None, :]
    if ALONE:
        # A sequence without keys has the result 0.
        result = (acc / tl.where(length == 0, 1.0, total)[:, None]).to(out_ptr.dtype.element_ty)
        place = batch * HEADS + head
        tl.store(out_ptr + place[:, None] * RANK + dims[None, :], result, mask=out_mask)
    else:
        place = (batch * parts + part) * HEADS + head
        tl.store(sums_ptr + place[:, None] * RANK + dims[None, :], acc, mask=out_mask)
        tl.store(logs_ptr + place * 2, largest, mask=head_ok)
        tl.store(logs_ptr + place * 2 + 1, total, mask=head_ok)


@triton.jit
def _combine_kernel(
    sums_ptr, logs_ptr, out_ptr, lengths_ptr, HEADS, keys, parts, span,
    HAS_LENGTHS: tl.constexpr, RANK: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    batch = (tl.program_id(0) // HEADS).to(tl.int64)
    head = tl.program_id(0) % HEADS
    count = parts
    if HAS_LENGTHS:
        count = tl.cdiv(tl.load(lengths_ptr + batch).to(tl.int32), span)
    dims = tl.arange(0, BLOCK_R)
    largest = tl.full((), float("-inf"), dtype=tl.float32)
    total = tl.zeros((), dtype=tl.float32)
    acc = tl.zeros((BLOCK_R,), dtype=tl.float32)
    for start in tl.range(0, count, BLOCK_S):
        part = start + tl.arange(0, BLOCK_S)
        there = part < count
        place = (batch * parts + part) * HEADS + head
        tops = tl.load(logs_ptr + place * 2, mask=there, other=float("-inf"))
        totals = tl.load(logs_ptr + place * 2 + 1, mask=there, other=0.0)
        sums = tl.load(
            sums_ptr + place[:, None] * RANK + dims[None, :],
            mask=there[:, None] & (dims < RANK)[None, :], other=0.0,
        )  # fmt: skip
        new_largest = tl.maximum(largest, tl.max(tops, axis=0))
        base = tl.where(new_largest == float("-inf"), 0.0, new_largest)
        share = tl.math.exp2(tops - base)
        alpha = tl.math.exp2(largest - base)
        total = total * alpha + tl.sum(totals * share, axis=0)
        acc = acc * alpha + tl.sum(sums * share[:, None], axis=0)
        largest = new_largest
    result = acc / tl.where(count == 0, 1.0, total)
    out_at = tl.program_id(0).to(tl.int64) * RANK + dims
    tl.store(out_ptr + out_at, result.to(out_ptr.dtype.element_ty), mask=dims < RANK)


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


def _descriptor_workspace(size: int, alignment: int, stream: int | None) -> torch.Tensor:
    """Global memory in which the programs of a launch build their descriptors."""
    return torch.empty(size, dtype=torch.int8, device="cuda")


def kernel_function(
    q: torch.Tensor,
    cache: torch.Tensor,
    rank: int,
    scale: float,
    lengths: torch.Tensor | None = None,
    block_h: int = 64,
    block_n: int = 64,
    programs: int = 132,
    num_warps: int = 8,
    num_stages: int = 2,
) -> torch.Tensor:
    """Attention of `q` [B, H, R + P] to latents `cache` [B, S, R + P] of all heads -> [B, H, R].

    The first `rank` = R columns of `cache`, at most 512, are the latent part, which is the value as
    well; the other P, at most 128, are the rotary part. `q` is absorbed: its first R columns have
    been multiplied by the up-projection of the keys. `scale` is that of the heads before
    absorption: 1 / sqrt(128 + 64) in DeepSeek-V2 and V3, without the factor of extended contexts.
    `lengths` int32 [B] are the keys of each sequence, S if None; the result of a sequence of length
    0 is 0. `q` has any strides. The rows of `cache` lie on 16-byte boundaries, and so do their
    rotary parts. Sets Triton's allocator of the current context.
    """
    _check(q, cache, rank, lengths)
    b, h, width = q.shape
    keys = cache.shape[1]
    out = torch.empty((b, h, rank), dtype=q.dtype, device=q.device)
    if out.numel() == 0:
        return out
    if keys == 0:
        return out.zero_()
    size = cache.element_size()
    aligned = (cache.data_ptr(), *(step * size for step in (*cache.stride()[:2], rank)))
    if cache.stride(2) != 1 or any(at % 16 for at in aligned):
        raise ValueError(
            "TMA reads the cache: its last stride must be 1, and its address, other strides and"
            f" rank multiples of 16 bytes, not strides {cache.stride()} and rank {rank} of {size}"
            " bytes each; pad the rows"
        )
    block_h = min(block_h, max(MIN_DOT, triton.next_power_of_2(h)))
    if size == 4:
        block_h, block_n = 16, 16  # such tiles are twice as large
    if q.dtype == torch.bfloat16 and not q.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        q, cache = q.float(), cache.float()
    blocks = b * triton.cdiv(h, block_h)
    # Parts of two steps at least.
    parts = max(1, min(programs // blocks, keys // (2 * block_n)))
    span = triton.cdiv(triton.cdiv(keys, parts), block_n) * block_n
    parts = triton.cdiv(keys, span)
    # One part needs no second kernel.
    alone = parts == 1
    sums = out if alone else out.new_empty((b, parts, h, rank), dtype=torch.float32)
    logs = out if alone else out.new_empty((b, parts, h, 2), dtype=torch.float32)
    if lengths is not None:
        lengths = lengths.contiguous()
    block_r = max(MIN_DOT, triton.next_power_of_2(rank))
    triton.set_allocator(_descriptor_workspace)
    _part_kernel[(blocks * parts,)](
        q, cache, lengths, sums, logs, out,
        h, keys, parts, span, scale * LOG2_E,
        *q.stride(), *cache.stride()[:2],
        ALONE=alone, HAS_LENGTHS=lengths is not None, RANK=rank, ROPE=width - rank,
        BLOCK_R=block_r, BLOCK_P=max(MIN_DOT, triton.next_power_of_2(width - rank)),
        BLOCK_H=block_h, BLOCK_N=block_n, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    if not alone:
        _combine_kernel[(b * h,)](
            sums, logs, out, lengths, h, keys, parts, span,
            HAS_LENGTHS=lengths is not None, RANK=rank, BLOCK_R=block_r, BLOCK_S=4, num_warps=4,
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
