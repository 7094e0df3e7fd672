"""
---
slug: attention-decode-split
title: Attention of few queries to many keys, the keys split over programs
op: attention-decode
language: triton
techniques: [split-k, flash-attention, online-reduction]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: attention-decode-plain
sizes:
  check: [[2, 4, 2, 1, 64, 32], [1, 6, 2, 3, 100, 24], [1, 2, 2, 1, 33, 64], [1, 3, 1, 7, 70, 80]]
  bench: [32, 32, 8, 1, 4096, 128]
check_params: {block_n: 16, programs: 12}
sources:
  - title: "PyTorch blog: Flash-Decoding for long-context inference"
    url: https://pytorch.org/blog/flash-decoding/
    licence: proprietary
  - title: "Ainslie et al.: GQA, training generalized multi-query transformer models"
    url: https://arxiv.org/abs/2305.13245
    licence: CC-BY-4.0
  - title: "PyTorch: torch.nn.functional.scaled_dot_product_attention"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 32x32x8x1x4096x128
  dtype: bfloat16
  baseline: attention-decode-plain
  baseline_ms: 0.3863
  measured_ms: 0.1249
  speedup: 3.093
  floor_fraction: 1.012
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 32x32x8x1x4096x128
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1254
  measured_ms: 0.1249
  speedup: 1.004
  floor_fraction: 1.012
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 32x32x8x1x4096x128
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1254
  measured_ms: 0.1249
  speedup: 1.004
  floor_fraction: 1.012
---

With one query a head there is one row of scores: the work is to read the keys and values once, at
full bandwidth. Two things stand in the way. Query heads that share a key head would each read it;
here all of them, and all queries, are the rows of one tile, so that every key is read once and the
16 rows that a tensor core takes are not mostly empty. And batch times key heads is often fewer
than the multiprocessors; so the keys are cut into parts until about `programs` programs run. Each
writes its weighted sum, largest score and sum of exponentials in float32, and a second kernel
combines the parts in a fixed order.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_n": [32, 64, 128],
    "programs": [264, 528, 1056],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3, 4],
}

LOG2_E = 1.4426950408889634
# What tl.dot takes at least.
MIN_DOT = 16


@triton.jit
def _part_kernel(
    q_ptr, k_ptr, v_ptr, bias_ptr, sums_ptr, logs_ptr, out_ptr,
    GROUPS, SHARING, N, keys, parts, span, scale_log2,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_bb, stride_bh, stride_bm, stride_bn,
    ALONE: tl.constexpr, HAS_BIAS: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0) % parts
    pid = tl.program_id(0) // parts
    rows_all = SHARING * N
    blocks_m = tl.cdiv(rows_all, BLOCK_M)
    row = pid % blocks_m * BLOCK_M + tl.arange(0, BLOCK_M)
    pid = pid // blocks_m
    group = (pid % GROUPS).to(tl.int64)
    batch = (pid // GROUPS).to(tl.int64)
    # Row r is query r % N of the group's head r // N.
    head = group * SHARING + row // N
    query = (row % N).to(tl.int64)
    row_ok = row < rows_all
    dims = tl.arange(0, BLOCK_D)
    dims_v = tl.arange(0, BLOCK_DV)
    q_rows = q_ptr + batch * stride_qb + head * stride_qh + query * stride_qn
    q = tl.load(
        q_rows[:, None] + dims[None, :] * stride_qd,
        mask=row_ok[:, None] & (dims < D)[None, :], other=0.0,
    )  # fmt: skip
    bias_rows = bias_ptr + batch * stride_bb + head * stride_bh + query * stride_bm
    k_head = k_ptr + batch * stride_kb + group * stride_kh
    v_head = v_ptr + batch * stride_vb + group * stride_vh
    first = part * span
    end = tl.minimum(first + span, keys)

    largest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_DV), dtype=tl.float32)
    for start in tl.range(first, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        cols64 = cols.to(tl.int64)
        in_n = cols < end
        k_at = cols64[None, :] * stride_kn + dims[:, None] * stride_kd
        k = tl.load(k_head + k_at, mask=in_n[None, :] & (dims < D)[:, None], other=0.0)
        scores = tl.dot(q, k, input_precision="tf32x3") * scale_log2
        if HAS_BIAS:
            bias_at = bias_rows[:, None] + cols64[None, :] * stride_bn
            bias = tl.load(bias_at, mask=row_ok[:, None] & in_n[None, :], other=0.0)
            scores += bias.to(tl.float32) * 1.4426950408889634
        scores = tl.where(in_n[None, :], scores, float("-inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        base = tl.where(new_largest == float("-inf"), 0.0, new_largest)
        p = tl.math.exp2(scores - base[:, None])
        alpha = tl.math.exp2(largest - base)
        total = total * alpha + tl.sum(p, axis=1)
        v_at = cols64[:, None] * stride_vn + dims_v[None, :] * stride_vd
        v = tl.load(v_head + v_at, mask=in_n[:, None] & (dims_v < DV)[None, :], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="tf32x3")
        largest = new_largest
    out_mask = row_ok[:, None] & (dims_v < DV)[None, :]
    if ALONE:
        result = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
        place = (batch * GROUPS + group) * rows_all + row
        tl.store(out_ptr + place[:, None] * DV + dims_v[None, :], result, mask=out_mask)
        return
    # [batch, head, query] and in that the parts.
    place = (((batch * GROUPS + group) * rows_all) + row) * parts + part
    tl.store(sums_ptr + place[:, None] * DV + dims_v[None, :], acc, mask=out_mask)
    tl.store(logs_ptr + place * 2, largest, mask=row_ok)
    tl.store(logs_ptr + place * 2 + 1, total, mask=row_ok)


@triton.jit
def _combine_kernel(
    sums_ptr, logs_ptr, out_ptr, parts,
    DV: tl.constexpr, BLOCK_DV: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, BLOCK_P)
    in_p = part < parts
    logs = logs_ptr + (row * parts + part) * 2
    largest = tl.load(logs, mask=in_p, other=float("-inf"))
    total = tl.load(logs + 1, mask=in_p, other=0.0)
    top = tl.max(largest, axis=0)
    share = tl.math.exp2(largest - tl.where(top == float("-inf"), 0.0, top))
    dims = tl.arange(0, BLOCK_DV)
    sums = tl.load(
        sums_ptr + (row * parts + part)[:, None] * DV + dims[None, :],
        mask=in_p[:, None] & (dims < DV)[None, :], other=0.0,
    )  # fmt: skip
    result = tl.sum(sums * share[:, None], axis=0) / tl.sum(total * share, axis=0)
    tl.store(out_ptr + row * DV + dims, result.to(out_ptr.dtype.element_ty), mask=dims < DV)


def kernel_function(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    bias: torch.Tensor | None = None,
    block_n: int = 64,
    programs: int = 264,
    num_warps: int = 4,
    num_stages: int = 3,
) -> torch.Tensor:
    """Attention of `q` [B, H, N, D], few queries, to `k` [B, G, S, D], `v` [B, G, S, E] ->
    [B, H, N, E].

    H is a multiple of G: neighbouring query heads share a key head. `scale` is 1 / sqrt(D) if None;
    `bias` is broadcast to [B, H, N, S] and added to the scaled scores. Any strides; D and E are at
    most 256. The keys are split until `programs` programs run.
    """
    b, h, n, d = q.shape
    _, g, keys, e = v.shape
    if k.shape != (b, g, keys, d) or v.shape[0] != b or g * keys == 0 or h % g or max(d, e) > 256:
        raise ValueError(f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)} do not fit")
    out = torch.empty((b, h, n, e), dtype=q.dtype, device=q.device)
    if out.numel() == 0:
        return out
    if q.dtype == torch.float32 or max(d, e) > 128:
        block_n = min(block_n, 64)  # such tiles are twice as large
    if q.dtype == torch.bfloat16 and not q.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        q, k, v = q.float(), k.float(), v.float()
    rows = h // g * n
    block_m = min(64, max(MIN_DOT, triton.next_power_of_2(rows)))
    blocks = b * g * triton.cdiv(rows, block_m)
    # Parts of two steps at least, and no more than one program combines at once.
    parts = max(1, min(programs // blocks, keys // (2 * block_n), 128))
    span = triton.cdiv(triton.cdiv(keys, parts), block_n) * block_n
    parts = triton.cdiv(keys, span)
    # One part needs no second kernel.
    alone = parts == 1
    sums = out if alone else out.new_empty((b * h * n, parts, e), dtype=torch.float32)
    logs = out if alone else out.new_empty((b * h * n, parts, 2), dtype=torch.float32)
    strides = (0, 0, 0, 0) if bias is None else bias.expand(b, h, n, keys).stride()
    scale = d**-0.5 if scale is None else scale
    block_dv = max(MIN_DOT, triton.next_power_of_2(e))
    _part_kernel[(blocks * parts,)](
        q, k, v, q if bias is None else bias, sums, logs, out,
        g, h // g, n, keys, parts, span, scale * LOG2_E,
        *q.stride(), *k.stride(), *v.stride(), *strides,
        ALONE=alone, HAS_BIAS=bias is not None, D=d, DV=e,
        BLOCK_D=max(MIN_DOT, triton.next_power_of_2(d)), BLOCK_DV=block_dv,
        BLOCK_M=block_m, BLOCK_N=block_n, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    if alone:
        return out
    _combine_kernel[(b * h * n,)](
        sums, logs, out, parts,
        DV=e, BLOCK_DV=block_dv, BLOCK_P=triton.next_power_of_2(parts), num_warps=4,
    )  # fmt: skip
    return out


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(q, k, v, attn_mask=bias, scale=scale, enable_gqa=True)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [B, query heads, key heads, queries, keys, head size]."""
    b, h, g, n, keys, d = size
    generator = torch.Generator(device=device).manual_seed(seed)
    return [
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((b, h, n, d), (b, g, keys, d), (b, g, keys, d))
    ]
