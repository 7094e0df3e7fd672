"""
---
slug: attention-paged-plain
title: Decode attention over a paged cache, one program for each sequence and key head
op: attention-paged
language: triton
techniques: [tensor-cores]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 4, 2, 32, 16, 1, 60], [3, 6, 2, 24, 8, 0, 50], [1, 2, 1, 80, 32, 61, 61]]
  bench: [32, 32, 8, 128, 16, 256, 8192]
check_params: {block_n: 16}
sources:
  - title: "Kwon et al.: Efficient memory management for LLM serving with PagedAttention"
    url: https://arxiv.org/abs/2309.06180
    licence: proprietary
  - title: "Ainslie et al.: GQA, training generalized multi-query transformer models"
    url: https://arxiv.org/abs/2305.13245
    licence: CC-BY-4.0
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 32x32x8x128x16x256x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.8233
  measured_ms: 0.199
  speedup: 4.137
  floor_fraction: 0.6512
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 32x32x8x128x16x256x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.7449
  measured_ms: 0.199
  speedup: 3.743
  floor_fraction: 0.6512
---

One new token of each sequence attends to the keys and values of that sequence, which lie in pages
of a common pool; a block table lists the pages. A program takes the query heads that share a key
head as the rows of one tile and walks over all keys of the sequence: it looks up the pages of a
block of keys, gathers their rows and updates the softmax. One launch, no sums in memory; but the
program of the longest sequence runs long after the others have finished, and a small batch leaves
most of the GPU idle.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_n": [32, 64, 128],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3, 4],
}

LOG2_E = 1.4426950408889634
# What tl.dot takes at least.
MIN_DOT = 16
# Elements of a tile of keys, by bytes of an element, that fit in shared memory and registers.
TILE_ELEMENTS = {2: 16384, 4: 4096}


@triton.jit
def _paged_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, out_ptr,
    GROUPS, SHARING, scale_log2,
    stride_qb, stride_qh, stride_qd,
    stride_kp, stride_kt, stride_kg, stride_kd, stride_vp, stride_vt, stride_vg, stride_vd,
    stride_tb, stride_tp,
    D: tl.constexpr, DV: tl.constexpr, PAGE: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    blocks_m = tl.cdiv(SHARING, BLOCK_M)
    group = (tl.program_id(0) % GROUPS).to(tl.int64)
    block_m = tl.program_id(0) // GROUPS % blocks_m
    batch = (tl.program_id(0) // (GROUPS * blocks_m)).to(tl.int64)
    length = tl.load(lengths_ptr + batch).to(tl.int32)

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
    cols = 0 + tl.arange(0, BLOCK_N)
    page = tl.load(table + cols // PAGE * stride_tp, mask=cols < length, other=0)
    for start in tl.range(0, length, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        in_n = cols < length
        # A page number times its stride is taken in int64: a pool has more than 2**31 elements.
        page64 = page.to(tl.int64)
        later = cols + BLOCK_N
        page = tl.load(table + later // PAGE * stride_tp, mask=later < length, other=0)
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
    # A sequence without keys has the result 0.
    result = (acc / tl.where(length == 0, 1.0, total)[:, None]).to(out_ptr.dtype.element_ty)
    out_row = batch * GROUPS * SHARING + head
    tl.store(out_ptr + out_row[:, None] * DV + dims_v[None, :], result, mask=out_mask)


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
    _paged_kernel[(b * across,)](
        q, k_cache, v_cache, block_table, lengths, out,
        g, sharing, scale * LOG2_E,
        *q.stride(), *k_cache.stride(), *v_cache.stride(), *block_table.stride(),
        D=d, DV=e, PAGE=page, BLOCK_D=block_d, BLOCK_DV=block_dv,
        BLOCK_M=block_m, BLOCK_N=block_n, num_warps=num_warps, num_stages=num_stages,
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
