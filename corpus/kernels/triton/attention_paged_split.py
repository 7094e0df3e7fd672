"""
---
slug: attention-paged-split
title: Decode attention over a paged cache, long sequences split over programs on the device
op: attention-paged
language: triton
techniques: [split-k, load-balancing]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: attention-paged-plain
sizes:
  check: [[2, 4, 2, 32, 16, 1, 60], [3, 6, 2, 24, 8, 0, 50], [1, 2, 1, 80, 32, 61, 61]]
  bench: [32, 32, 8, 128, 16, 256, 8192]
check_params: {block_n: 16, programs: 8}
sources:
  - title: "Kwon et al.: Efficient memory management for LLM serving with PagedAttention"
    url: https://arxiv.org/abs/2309.06180
    licence: proprietary
  - title: "PyTorch blog: Flash-Decoding for long-context inference"
    url: https://pytorch.org/blog/flash-decoding/
    licence: proprietary
  - title: "Ye et al.: FlashInfer, an attention engine for LLM inference serving"
    url: https://arxiv.org/abs/2501.01005
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 32x32x8x128x16x256x8192
  dtype: bfloat16
  baseline: attention-paged-plain
  baseline_ms: 0.1996
  measured_ms: 0.1511
  speedup: 1.321
  floor_fraction: 0.8576
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 32x32x8x128x16x256x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.8237
  measured_ms: 0.1511
  speedup: 5.451
  floor_fraction: 0.8576
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 32x32x8x128x16x256x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.7436
  measured_ms: 0.1511
  speedup: 4.921
  floor_fraction: 0.8576
---

One new token of each sequence attends to the keys and values of that sequence, which lie in pages
of a common pool; a block table lists the pages. The work is to read those keys and values once, at
full bandwidth. With one program for each sequence and key head, the longest sequence decides the
time: the others have finished, and a few programs cannot fill the bandwidth of a GPU.

Here all sequences together are cut into parts of equal length, so many that about `programs`
programs run. The lengths stay on the GPU: each program derives the length of a part and its own
sequence from them, by a sum and a prefix sum over the batch. So the launch depends on shapes alone:
the host does not wait, a CUDA graph can replay it with other lengths, and a block table that is
much wider than the sequences need costs nothing. A sequence of one part is stored at once. The
parts of the others are combined by a second kernel, in the order of the keys. The result is
deterministic, but the cuts, and with them the last bits, depend on all lengths of the batch.

Query heads that share a key head are the rows of one tile, so each key is read once. Page numbers
are loaded a step ahead of the keys: looked up in the same step, they would leave room for one step
in flight only. The key heads of a part are neighbouring programs: they read the same pages. Keys
past the end of a sequence are never read, nor are their table entries.

It does not help where sequences times key heads fill the GPU many times over and the lengths are
alike: the plain kernel then needs no second launch.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_n": [32, 64, 128],
    "programs": [264, 528, 1056, 2112],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3, 4],
}

LOG2_E = 1.4426950408889634
# What tl.dot takes at least.
MIN_DOT = 16
# Elements of a tile of keys, by bytes of an element, that fit in shared memory and registers.
TILE_ELEMENTS = {2: 16384, 4: 4096}


@triton.jit
def _plan(lengths_ptr, sequences, budget, BLOCK_B: tl.constexpr, BLOCK_N: tl.constexpr):
    """How many steps of BLOCK_N keys a part has, and how many parts each sequence has.

    All sequences have at most `budget` + `sequences` parts.
    """
    lane = tl.arange(0, BLOCK_B)
    lengths = tl.load(lengths_ptr + lane, mask=lane < sequences, other=0).to(tl.int32)
    steps = tl.cdiv(lengths, BLOCK_N)
    # Shorter parts than two steps would be mostly start and end.
    span = tl.maximum(tl.cdiv(tl.sum(steps, axis=0), budget), 2)
    return lane, span, tl.cdiv(steps, span)


@triton.jit
def _part_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, sums_ptr, logs_ptr, out_ptr,
    GROUPS, SHARING, sequences, budget, scale_log2,
    stride_qb, stride_qh, stride_qd,
    stride_kp, stride_kt, stride_kg, stride_kd, stride_vp, stride_vt, stride_vg, stride_vd,
    stride_tb, stride_tp,
    D: tl.constexpr, DV: tl.constexpr, PAGE: tl.constexpr, BLOCK_B: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    blocks_m = tl.cdiv(SHARING, BLOCK_M)
    group = (tl.program_id(0) % GROUPS).to(tl.int64)
    block_m = tl.program_id(0) // GROUPS % blocks_m
    slot = tl.program_id(0) // (GROUPS * blocks_m)
    _, span, parts = _plan(lengths_ptr, sequences, budget, BLOCK_B, BLOCK_N)
    ends = tl.cumsum(parts, axis=0)
    if slot >= tl.max(ends, axis=0):
        return
    # Sequences that end before this slot, and where the last of them ends.
    batch = tl.sum((ends <= slot).to(tl.int32), axis=0).to(tl.int64)
    part = slot - tl.max(tl.where(ends <= slot, ends, 0), axis=0)
    length = tl.load(lengths_ptr + batch).to(tl.int32)
    first = part * span * BLOCK_N
    end = tl.minimum(first + span * BLOCK_N, length)

    row = block_m * BLOCK_M + tl.arange(0, BLOCK_M)
    row_ok = row < SHARING
    head = group * SHARING + row
    dims = tl.arange(0, BLOCK_D)
    dims_v = tl.arange(0, BLOCK_DV)
    q = tl.load(
        q_ptr + batch * stride_qb + head[:, None] * stride_qh + dims[None, :] * stride_qd,
        mask=row_ok[:, None] & (dims < D)[None, :], other=0.0,
    )  # fmt: skip
    table = table_ptr + batch * stride_tb
    k_head = k_ptr + group * stride_kg
    v_head = v_ptr + group * stride_vg
    largest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_DV), dtype=tl.float32)
    # Page numbers are loaded a step ahead of the keys that lie there, so that no key waits for one.
    cols = first + tl.arange(0, BLOCK_N)
    page = tl.load(table + cols // PAGE * stride_tp, mask=cols < end, other=0)
    for start in tl.range(first, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        in_n = cols < end
        # A page number times its stride is taken in int64: a pool has more than 2**31 elements.
        page64 = page.to(tl.int64)
        later = cols + BLOCK_N
        page = tl.load(table + later // PAGE * stride_tp, mask=later < end, other=0)
        within = cols % PAGE
        k_rows = page64 * stride_kp + within * stride_kt
        k_at = k_rows[None, :] + dims[:, None] * stride_kd
        k = tl.load(k_head + k_at, mask=in_n[None, :] & (dims < D)[:, None], other=0.0)
        scores = tl.dot(q, k, input_precision="tf32x3") * scale_log2
        scores = tl.where(in_n[None, :], scores, float("-inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        base = tl.where(new_largest == float("-inf"), 0.0, new_largest)
        p = tl.math.exp2(scores - base[:, None])
        alpha = tl.math.exp2(largest - base)
        total = total * alpha + tl.sum(p, axis=1)
        v_rows = page64 * stride_vp + within * stride_vt
        v_at = v_rows[:, None] + dims_v[None, :] * stride_vd
        v = tl.load(v_head + v_at, mask=in_n[:, None] & (dims_v < DV)[None, :], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="tf32x3")
        largest = new_largest
    out_mask = row_ok[:, None] & (dims_v < DV)[None, :]
    if length <= span * BLOCK_N:  # the only part
        result = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
        out_row = batch * GROUPS * SHARING + head
        tl.store(out_ptr + out_row[:, None] * DV + dims_v[None, :], result, mask=out_mask)
    else:
        place = slot.to(tl.int64) * GROUPS * SHARING + head
        tl.store(sums_ptr + place[:, None] * DV + dims_v[None, :], acc, mask=out_mask)
        tl.store(logs_ptr + place * 2, largest, mask=row_ok)
        tl.store(logs_ptr + place * 2 + 1, total, mask=row_ok)


@triton.jit
def _combine_kernel(
    sums_ptr, logs_ptr, out_ptr, lengths_ptr, HEADS, sequences, budget,
    DV: tl.constexpr, BLOCK_B: tl.constexpr, BLOCK_DV: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_P: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(0) // HEADS
    head = tl.program_id(0) % HEADS
    lane, _, parts = _plan(lengths_ptr, sequences, budget, BLOCK_B, BLOCK_N)
    count = tl.sum(tl.where(lane == batch, parts, 0), axis=0)
    if count == 1:  # stored already
        return
    first = tl.sum(tl.where(lane < batch, parts, 0), axis=0).to(tl.int64)
    dims = tl.arange(0, BLOCK_DV)
    largest = tl.full((), float("-inf"), dtype=tl.float32)
    total = tl.zeros((), dtype=tl.float32)
    acc = tl.zeros((BLOCK_DV,), dtype=tl.float32)
    for start in tl.range(0, count, BLOCK_P):
        part = start + tl.arange(0, BLOCK_P)
        in_p = part < count
        place = (first + part) * HEADS + head
        tops = tl.load(logs_ptr + place * 2, mask=in_p, other=float("-inf"))
        totals = tl.load(logs_ptr + place * 2 + 1, mask=in_p, other=0.0)
        sums = tl.load(
            sums_ptr + place[:, None] * DV + dims[None, :],
            mask=in_p[:, None] & (dims < DV)[None, :], other=0.0,
        )  # fmt: skip
        new_largest = tl.maximum(largest, tl.max(tops, axis=0))
        base = tl.where(new_largest == float("-inf"), 0.0, new_largest)
        share = tl.math.exp2(tops - base)
        alpha = tl.math.exp2(largest - base)
        total = total * alpha + tl.sum(totals * share, axis=0)
        acc = acc * alpha + tl.sum(sums * share[:, None], axis=0)
        largest = new_largest
    # A sequence without keys has no parts: its result is 0.
    result = acc / tl.where(count == 0, 1.0, total)
    out_at = tl.program_id(0).to(tl.int64) * DV + dims
    tl.store(out_ptr + out_at, result.to(out_ptr.dtype.element_ty), mask=dims < DV)


def _check(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
) -> None:
    """Raise a ValueError for inputs that do not belong together."""
    if q.ndim != 3 or k_cache.ndim != 4 or v_cache.ndim != 4:
        raise ValueError("give q as [B, H, D] and both caches as [pages, page size, G, D]")
    b, h, d = q.shape
    pages, page, g, d_k = k_cache.shape
    if d != d_k or g == 0 or page == 0 or h % g or v_cache.shape[:3] != (pages, page, g):
        raise ValueError(
            f"q {list(q.shape)}, keys {list(k_cache.shape)} and values {list(v_cache.shape)} do not"
            " fit: the caches need equal pages and key heads, and G must divide H"
        )
    if block_table.ndim != 2 or block_table.shape[0] != b or lengths.shape != (b,):
        raise ValueError(
            f"block_table {list(block_table.shape)} must be [{b}, pages of the longest sequence],"
            f" lengths {list(lengths.shape)} must be [{b}]"
        )
    if block_table.is_floating_point() or lengths.is_floating_point():
        raise ValueError("block_table and lengths must be integers: convert them to int32")
    if not q.dtype == k_cache.dtype == v_cache.dtype or q.element_size() not in TILE_ELEMENTS:
        raise ValueError(
            f"q is {q.dtype}, the caches {k_cache.dtype} and {v_cache.dtype}: give all three in one"
            " of float32, float16 and bfloat16"
        )
    if max(d, v_cache.shape[3]) > 256:
        raise ValueError(f"head sizes {d} and {v_cache.shape[3]}: at most 256")


def kernel_function(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    scale: float | None = None,
    block_n: int = 64,
    programs: int = 528,
    num_warps: int = 4,
    num_stages: int = 3,
) -> torch.Tensor:
    """Attention of one query for each sequence to that sequence's pages -> [B, H, E].

    `q` [B, H, D]; `k_cache` [pages, page size, G, D] and `v_cache` [pages, page size, G, E] of one
    dtype, where G divides H: neighbouring query heads share a key head. `block_table` int32
    [B, max pages]: key i of sequence b lies in page `block_table[b, i // page size]`, row
    `i % page size`. `lengths` int32 [B], at most max pages times page size; the result of a
    sequence of length 0 is 0. `scale` is 1 / sqrt(D) if None. Any strides, so a cache laid out as
    [pages, G, page size, D] is passed as `cache.transpose(1, 2)`; any page size; D and E are at
    most 256.
    """
    _check(q, k_cache, v_cache, block_table, lengths)
    b, h, d = q.shape
    _, page, g, e = v_cache.shape
    out = torch.empty((b, h, e), dtype=q.dtype, device=q.device)
    if out.numel() == 0:
        return out
    if block_table.shape[1] == 0 or k_cache.shape[0] == 0:
        return out.zero_()
    scale = d**-0.5 if scale is None else scale
    block_d, block_dv = (max(MIN_DOT, triton.next_power_of_2(size)) for size in (d, e))
    tile = TILE_ELEMENTS[q.element_size()] // max(block_d, block_dv)
    block_n = min(block_n, max(MIN_DOT, tile))
    if q.dtype == torch.bfloat16 and not q.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        q, k_cache, v_cache = q.float(), k_cache.float(), v_cache.float()
    lengths = lengths.contiguous()
    sharing = h // g
    block_m = min(64, max(MIN_DOT, triton.next_power_of_2(sharing)))
    across = g * triton.cdiv(sharing, block_m)
    # Parts of all sequences together, besides the last part of each.
    budget = max(1, programs // across)
    slots = min(budget, b * triton.cdiv(block_table.shape[1] * page, block_n)) + b
    sums = torch.empty((slots, h, e), dtype=torch.float32, device=q.device)
    logs = torch.empty((slots, h, 2), dtype=torch.float32, device=q.device)
    block_b = triton.next_power_of_2(b)
    _part_kernel[(slots * across,)](
        q, k_cache, v_cache, block_table, lengths, sums, logs, out,
        g, sharing, b, budget, scale * LOG2_E,
        *q.stride(), *k_cache.stride(), *v_cache.stride(), *block_table.stride(),
        D=d, DV=e, PAGE=page, BLOCK_B=block_b, BLOCK_D=block_d, BLOCK_DV=block_dv,
        BLOCK_M=block_m, BLOCK_N=block_n, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    _combine_kernel[(b * h,)](
        sums, logs, out, lengths, h, b, budget,
        DV=e, BLOCK_B=block_b, BLOCK_DV=block_dv, BLOCK_N=block_n, BLOCK_P=MIN_DOT, num_warps=4,
    )  # fmt: skip
    return out


def reference(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
) -> torch.Tensor:
    b, h, d = q.shape
    g = k_cache.shape[2]
    # [B, G, keys, D]: the pages are copied, padded to the longest sequence.
    k, v = (cache[block_table].flatten(1, 2).transpose(1, 2) for cache in (k_cache, v_cache))
    seen = torch.arange(k.shape[2], device=q.device) < lengths[:, None]
    # Heads that share a key head stand as its queries.
    rows = q.view(b, g, h // g, d)
    out = torch.nn.functional.scaled_dot_product_attention(
        rows, k, v, attn_mask=seen[:, None, None, :]
    )
    return out.reshape(b, h, -1).masked_fill((lengths == 0)[:, None, None], 0.0)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [B, query heads, key heads, head size, page size, shortest, longest sequence].

    The lengths are spread evenly and shuffled, so that all seeds need as many pages; the pages of
    a sequence lie anywhere in the pool.
    """
    b, h, g, d, page, shortest, longest = size
    generator = torch.Generator(device=device).manual_seed(seed)
    order = torch.randperm(b, device=device, generator=generator)
    lengths = torch.linspace(shortest, longest, b, device=device).round().to(torch.int32)[order]
    needed = (lengths + page - 1) // page
    slots = torch.arange(-(-longest // page), device=device)
    used = slots < needed[:, None]
    pages = int(needed.sum())
    block_table = torch.zeros(used.shape, dtype=torch.int32, device=device)
    block_table[used] = torch.randperm(pages, device=device, generator=generator).to(torch.int32)
    q, k_cache, v_cache = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((b, h, d), (pages, page, g, d), (pages, page, g, d))
    )
    return [q, k_cache, v_cache, block_table, lengths]
