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
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 16x128x4096x512x64
  dtype: bfloat16
  baseline: attention-mla-plain
  baseline_ms: 0.1359
  measured_ms: 0.05779
  speedup: 2.352
  floor_fraction: 0.3971
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 16x128x4096x512x64
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1337
  measured_ms: 0.05779
  speedup: 2.314
  floor_fraction: 0.3971
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 16x128x4096x512x64
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.06864
  measured_ms: 0.05779
  speedup: 1.188
  floor_fraction: 0.3971
---

DeepSeek's attention keeps one latent vector for each token, with a rotary part behind it, in place
of keys and values of every head. With the up-projections absorbed into the query and the output
projection, all heads share one key, the latent and rotary parts together, and one value, which is
the latent part. That is 2 * 128 heads * (576 + 512) operations for 1152 bytes: with 128 heads the
tensor cores and the memory take about as long.

A tile of 64 latents is loaded once into shared memory. The scores multiply it transposed, the
weighted sum multiplies it as it lies; as separate keys and values it would be read twice. 64 heads
are the rows of the tile, the fewest that Hopper's warpgroup instructions take, and the most whose
512 columns of sums fit in registers. The second block of heads is the neighbouring program and
finds the latents in L2.

Triton's own pipeline does this badly, in two ways. It sees that one product feeds the other, puts
all warps on the rows, and so lets both warpgroups compute all of the scores. And with the two tiles
that fit in shared memory it starts the next copy at the end of a step and waits for it at the start
of the next. So the kernel for 16-bit types is written in Gluon, Triton's lower level, which names
layouts and barriers: the warpgroups share out the keys of the scores and the columns of the sums,
and the copy of the next tile starts at the beginning of a step, as soon as the sum has used up the
tile before. float32, and the interpreter, take the Triton kernel.

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
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

TUNABLES = {
    "block_h": [64],
    "block_n": [64],
    "programs": [132, 264],
    "p_shared": [True, False],
}

LOG2_E = 1.4426950408889634
# What tl.dot takes at least.
MIN_DOT = 16
# Columns of which two tiles of 64 keys and one of 64 heads fit in shared memory.
WIDEST = 512 + 64


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


# Triton 3.6 has the copy under its old name.
_copy = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared


@gluon.jit
def _issue(latent_desc, rope_desc, latents, ropes, ready, start, which, on, SIZE: gl.constexpr):
    """Start the copy of the tile of keys from `start` into buffer `which`."""
    mbarrier.expect(ready.index(which), SIZE, pred=on)
    _copy(rope_desc, [start, 0], ready.index(which), ropes.index(which), pred=on)
    _copy(latent_desc, [start, 0], ready.index(which), latents.index(which), pred=on)


@gluon.jit
def _part_kernel_hopper(
    q_ptr, cache_ptr, lengths_ptr, sums_ptr, logs_ptr, out_ptr,
    HEADS, keys, parts, span, scale_log2,
    stride_qb, stride_qh, stride_qd, stride_cb, stride_cs,
    ALONE: gl.constexpr, HAS_LENGTHS: gl.constexpr, RANK: gl.constexpr, ROPE: gl.constexpr,
    BLOCK_R: gl.constexpr, BLOCK_P: gl.constexpr, BLOCK_H: gl.constexpr, BLOCK_N: gl.constexpr,
    P_SHARED: gl.constexpr,
):  # fmt: skip
    # The two warpgroups share out the keys of the scores and the columns of the sums.
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 2], [16, BLOCK_N // 2, 16])
    O: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 2], [16, BLOCK_R // 2, 16])
    LOAD: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [8, 1], [1, 0])
    ROWS: gl.constexpr = gl.SliceLayout(1, S)
    TILE: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    dtype: gl.constexpr = cache_ptr.dtype.element_ty
    SIZE: gl.constexpr = BLOCK_N * (BLOCK_R + BLOCK_P) * 2

    blocks = gl.cdiv(HEADS, BLOCK_H)
    head0 = gl.program_id(0) % blocks * BLOCK_H
    part = gl.program_id(0) // blocks % parts
    batch = (gl.program_id(0) // (blocks * parts)).to(gl.int64)
    length = keys
    if HAS_LENGTHS:
        length = gl.load(lengths_ptr + batch).to(gl.int32)
    first = part * span
    end = gl.minimum(first + span, length)
    tiles = gl.cdiv(gl.maximum(end - first, 0), BLOCK_N)

    rows = cache_ptr + batch * stride_cb
    there = gl.maximum(length, 1)
    latent_desc = tma.make_tensor_descriptor(
        rows,
        shape=[there, RANK],
        strides=[stride_cs, 1],
        block_shape=[BLOCK_N, BLOCK_R],
        layout=TILE,
    )
    rope_desc = tma.make_tensor_descriptor(
        rows + RANK,
        shape=[there, ROPE],
        strides=[stride_cs, 1],
        block_shape=[BLOCK_N, BLOCK_P],
        layout=TILE,
    )
    latents = gl.allocate_shared_memory(dtype, [2, BLOCK_N, BLOCK_R], TILE)
    ropes = gl.allocate_shared_memory(dtype, [2, BLOCK_N, BLOCK_P], TILE)
    ready = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    mbarrier.init(ready.index(0), count=1)
    mbarrier.init(ready.index(1), count=1)
    fence_async_shared()
    _issue(latent_desc, rope_desc, latents, ropes, ready, first, 0, tiles > 0, SIZE)

    heads = head0 + gl.arange(0, BLOCK_H, layout=gl.SliceLayout(1, LOAD))
    dims = gl.arange(0, BLOCK_R, layout=gl.SliceLayout(0, LOAD))
    dims_rope = gl.arange(0, BLOCK_P, layout=gl.SliceLayout(0, LOAD))
    q_rows = q_ptr + batch * stride_qb + heads.to(gl.int64)[:, None] * stride_qh
    q_latent = gl.load(
        q_rows + dims[None, :] * stride_qd,
        mask=(heads < HEADS)[:, None] & (dims < RANK)[None, :],
        other=0.0,
    )
    q_rope = gl.load(
        q_rows + (RANK + dims_rope)[None, :] * stride_qd,
        mask=(heads < HEADS)[:, None] & (dims_rope < ROPE)[None, :],
        other=0.0,
    )
    q_latent_s = gl.allocate_shared_memory(dtype, [BLOCK_H, BLOCK_R], TILE, q_latent)
    q_rope_s = gl.allocate_shared_memory(dtype, [BLOCK_H, BLOCK_P], TILE, q_rope)
    if P_SHARED:
        p_s = gl.allocate_shared_memory(dtype, [BLOCK_H, BLOCK_N], TILE)
    fence_async_shared()

    largest = gl.full([BLOCK_H], float("-inf"), gl.float32, ROWS)
    totals = gl.full([BLOCK_H, BLOCK_N], 0.0, gl.float32, S)
    acc = gl.full([BLOCK_H, BLOCK_R], 0.0, gl.float32, O)
    none = gl.full([BLOCK_H, BLOCK_N], 0.0, gl.float32, S)
    columns = gl.arange(0, BLOCK_N, layout=gl.SliceLayout(0, S))
    for tile in range(tiles):
        which = tile % 2
        start = first + tile * BLOCK_N
        # The tile before is used up: its buffer takes the tile after.
        _issue(
            latent_desc,
            rope_desc,
            latents,
            ropes,
            ready,
            start + BLOCK_N,
            1 - which,
            tile + 1 < tiles,
            SIZE,
        )
        mbarrier.wait(ready.index(which), (tile // 2) & 1)
        latent = latents.index(which)
        scores = warpgroup_mma(
            q_rope_s, ropes.index(which).permute((1, 0)), none, use_acc=False, is_async=True
        )
        scores = warpgroup_mma(q_latent_s, latent.permute((1, 0)), scores, is_async=True)
        scores = warpgroup_mma_wait(0, deps=(scores,))
        scores = gl.where((start + columns < end)[None, :], scores * scale_log2, float("-inf"))
        new_largest = gl.maximum(largest, gl.max(scores, axis=1))
        base = gl.where(new_largest == float("-inf"), 0.0, new_largest)
        p = gl.exp2(scores - base[:, None])
        alpha = gl.exp2(largest - base)
        # Added up over the columns after the loop, so that the warpgroups need not meet here.
        totals = totals * alpha[:, None] + p
        largest = new_largest
        acc = acc * gl.convert_layout(alpha, gl.SliceLayout(1, O))[:, None]
        if P_SHARED:
            p_s.store(p.to(dtype))
            fence_async_shared()
            pending = warpgroup_mma(p_s, latent, acc, is_async=True)
        else:
            weights = gl.convert_layout(p.to(dtype), gl.DotOperandLayout(0, O, 2))
            pending = warpgroup_mma(weights, latent, acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=(pending,))
    total = gl.sum(totals, axis=1)
    mbarrier.invalidate(ready.index(0))
    mbarrier.invalidate(ready.index(1))

    head_o = head0 + gl.arange(0, BLOCK_H, layout=gl.SliceLayout(1, O))
    dims_o = gl.arange(0, BLOCK_R, layout=gl.SliceLayout(0, O))
    head_s = head0 + gl.arange(0, BLOCK_H, layout=ROWS)
    out_mask = (head_o < HEADS)[:, None] & (dims_o < RANK)[None, :]
    if ALONE:
        total = gl.convert_layout(gl.where(length == 0, 1.0, total), gl.SliceLayout(1, O))
        place = batch * HEADS + head_o
        gl.store(
            out_ptr + place[:, None] * RANK + dims_o[None, :],
            (acc / total[:, None]).to(out_ptr.dtype.element_ty),
            mask=out_mask,
        )
    else:
        if first < length:
            place = (batch * parts + part) * HEADS
            gl.store(
                sums_ptr + (place + head_o)[:, None] * RANK + dims_o[None, :],
                acc.to(sums_ptr.dtype.element_ty),
                mask=out_mask,
            )
            gl.store(logs_ptr + (place + head_s) * 2, largest, mask=head_s < HEADS)
            gl.store(logs_ptr + (place + head_s) * 2 + 1, total, mask=head_s < HEADS)


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


def _takes_tma(cache: torch.Tensor, rank: int) -> bool:
    steps = (step * cache.element_size() for step in (*cache.stride()[:2], rank))
    return cache.stride(2) == 1 and not any(at % 16 for at in (cache.data_ptr(), *steps))


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


def _takes_gluon(q: torch.Tensor) -> bool:
    """Whether the kernel for 16-bit types on Hopper runs; a CPU tensor is one to compile for."""
    hopper = not q.is_cuda or torch.cuda.get_device_capability(q.device)[0] == 9
    return q.element_size() == 2 and hopper and not triton.knobs.runtime.interpret


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
    p_shared: bool = True,
) -> torch.Tensor:
    """Attention of `q` [B, H, R + P] to latents `cache` [B, S, R + P] of all heads -> [B, H, R].

    The first `rank` = R columns of `cache`, at most 512, are the latent part, which is the value as
    well; the other P, at most 128, are the rotary part. `q` is absorbed: its first R columns have
    been multiplied by the up-projection of the keys. `scale` is that of the heads before
    absorption: 1 / sqrt(128 + 64) in DeepSeek-V2 and V3, without the factor of extended contexts.
    `lengths` int32 [B] are the keys of each sequence, S if None; the result of a sequence of length
    0 is 0. `q` has any strides. 16-bit types on Hopper take tiles of 64 heads and 64 keys, whatever
    `block_h` and `block_n` are; `p_shared` leaves the weights in shared memory for the tensor cores
    there, instead of loading them into registers; `num_warps` and `num_stages` are for the others.
    The rows of `cache` lie on 16-byte boundaries, and so do their rotary parts; a cache laid out
    otherwise is copied. Sets Triton's allocator of the current context.
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
    if not _takes_tma(cache, rank):
        cache = cache.clone(memory_format=torch.contiguous_format)
    if not _takes_tma(cache, rank):
        raise ValueError(
            f"TMA reads the cache: its {width} columns and rank {rank}, of {size} bytes each, must"
            " be multiples of 16 bytes; pad the rows"
        )
    block_h = min(block_h, max(MIN_DOT, triton.next_power_of_2(h)))
    if size == 4:
        block_h, block_n = 16, 16  # such tiles are twice as large
    if q.dtype == torch.bfloat16 and not q.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        q, cache = q.float(), cache.float()
    block_r = max(MIN_DOT, triton.next_power_of_2(rank))
    block_p = max(MIN_DOT, triton.next_power_of_2(width - rank))
    by_hand = _takes_gluon(q)
    if by_hand:
        # A row of a tile fills the 128 bytes of the swizzle.
        block_h, block_n, block_r, block_p = 64, 64, max(64, block_r), max(64, block_p)
        by_hand = block_r + block_p <= WIDEST
    if not by_hand and block_r + block_p > WIDEST:
        block_h, block_n = min(block_h, 32), min(block_n, 32)
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
    triton.set_allocator(_descriptor_workspace)
    if by_hand:
        _part_kernel_hopper[(blocks * parts,)](
            q, cache, lengths, sums, logs, out,
            h, keys, parts, span, scale * LOG2_E,
            *q.stride(), *cache.stride()[:2],
            ALONE=alone, HAS_LENGTHS=lengths is not None, RANK=rank, ROPE=width - rank,
            BLOCK_R=block_r, BLOCK_P=block_p,
            BLOCK_H=block_h, BLOCK_N=block_n, P_SHARED=p_shared, num_warps=8,
        )  # fmt: skip
    else:
        _part_kernel[(blocks * parts,)](
            q, cache, lengths, sums, logs, out,
            h, keys, parts, span, scale * LOG2_E,
            *q.stride(), *cache.stride()[:2],
            ALONE=alone, HAS_LENGTHS=lengths is not None, RANK=rank, ROPE=width - rank,
            BLOCK_R=block_r, BLOCK_P=block_p,
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
