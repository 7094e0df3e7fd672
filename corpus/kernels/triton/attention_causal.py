"""
---
slug: attention-causal
title: Tiled attention with causal mask, bias and shared key heads, unmasked blocks apart
op: attention
language: triton
techniques:
  - flash-attention
  - structural-sparsity
  - online-reduction
  - tma-host-descriptor
  - fast-math
  - tensor-cores
architectures: [sm_90]
dtypes: [float32, float16, bfloat16]
derived_from: attention-masked
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
  baseline: attention-masked
  baseline_ms: 2.62
  measured_ms: 1.09
  speedup: 2.404
  floor_fraction: 0.6388
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 4x32x8x4096x4096x128x1
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.9217
  measured_ms: 1.09
  speedup: 0.8456
  floor_fraction: 0.6388
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 4x32x8x4096x4096x128x1
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.9215
  measured_ms: 1.09
  speedup: 0.8454
  floor_fraction: 0.6388
---

softmax(scale * Q K^T + bias) V for each head, the scores on chip only. The walk over the keys is
cut in two: blocks that every query of the program may see whole run without any mask, and only
those on the diagonal or past the last key are masked. With `causal`, keys after the last query of
a block are never read, which halves the work; blocks of late queries, which have the most of it,
start first, so that the short ones fill the gaps at the end.

Keys and values come through TMA: a block is one instruction, and what lies past the last key or
beyond the head size reads as zeros, so head sizes that are no power of two need no masks either.
Query heads that share a key head (grouped-query attention) read it in place; nothing is repeated.
The scale holds log2(e), so that an exponential is one `exp2`. Two small blocks of queries on a
multiprocessor overlap: one exponentiates while the other one multiplies. What did not pay on an
H200 with Triton 3.6: to issue the next scores before the exponentials of these (the compiler waits
for them all the same, and holds twice the registers), and 128 or 256 queries on 8 or 16 warps at
128 to 255 registers. The library's attention, which gives loading, multiplying and exponentials to
warps of their own, stays ahead.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

TUNABLES = {
    "block_m": [64, 128],
    "block_n": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}

LOG2_E = 1.4426950408889634


@triton.jit
def _walk(
    acc, total, largest, q, k_desc, v_desc, bias_rows, rows,
    batch, key_head, first, end, keys, scale_log2, stride_bn,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr, HAS_BIAS: tl.constexpr, HIDES: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    for start in tl.range(first, end, BLOCK_N):
        k = k_desc.load([batch, key_head, start, 0]).reshape(BLOCK_N, BLOCK_D)
        scores = tl.dot(q, k.trans(), input_precision="tf32x3")
        if MASKED or HAS_BIAS:
            cols = start + tl.arange(0, BLOCK_N)
            scores = scores * scale_log2
            if HAS_BIAS:
                at = bias_rows + cols[None, :].to(tl.int64) * stride_bn
                inside = (cols < keys)[None, :]
                bias = tl.load(at, mask=inside, other=0.0) if MASKED else tl.load(at)
                if HIDES:
                    scores = tl.where(bias != 0, float("-inf"), scores)
                else:
                    scores += bias.to(tl.float32) * 1.4426950408889634
            if MASKED:
                seen = (cols < keys)[None, :]
                if CAUSAL:
                    seen = seen & (cols[None, :] <= rows[:, None])
                scores = tl.where(seen, scores, float("-inf"))
            new_largest = tl.maximum(largest, tl.max(scores, axis=1))
            base = new_largest
            if HAS_BIAS:  # one of -inf may hide all keys so far: then nothing is to be subtracted
                base = tl.where(new_largest == float("-inf"), 0.0, new_largest)
            p = tl.math.exp2(scores - base[:, None])
        else:
            # The scale is not negative: it can wait until the difference, one multiply-add.
            new_largest = tl.maximum(largest, tl.max(scores, axis=1) * scale_log2)
            base = new_largest
            p = tl.math.exp2(scores * scale_log2 - base[:, None])
        alpha = tl.math.exp2(largest - base)
        total = total * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        v = v_desc.load([batch, key_head, start, 0]).reshape(BLOCK_N, BLOCK_DV)
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="tf32x3")
        largest = new_largest
    return acc, total, largest


@triton.jit
def _attention_kernel(
    q_ptr, k_desc, v_desc, bias_ptr, out_ptr,
    HEADS, SHARING, N, keys, scale_log2,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_bb, stride_bh, stride_bm, stride_bn,
    CAUSAL: tl.constexpr, HAS_BIAS: tl.constexpr, HIDES: tl.constexpr,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # The blocks of a head follow each other: they read the same keys.
    blocks = tl.cdiv(N, BLOCK_M)
    block = tl.program_id(0) % blocks
    if CAUSAL:  # late queries have the most keys
        block = blocks - 1 - block
    head = tl.program_id(0) // blocks % HEADS
    batch = tl.program_id(0) // (blocks * HEADS)
    batch64, head64 = batch.to(tl.int64), head.to(tl.int64)
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    row_ok = rows < N
    q_at = rows[:, None].to(tl.int64) * stride_qn + dims[None, :] * stride_qd
    q = tl.load(
        q_ptr + batch64 * stride_qb + head64 * stride_qh + q_at,
        mask=row_ok[:, None] & (dims < D)[None, :], other=0.0,
    )  # fmt: skip
    # Rows past the end read the last row's bias: it is there.
    inside = tl.minimum(rows, N - 1).to(tl.int64)
    bias_rows = bias_ptr + batch64 * stride_bb + head64 * stride_bh + inside[:, None] * stride_bm

    largest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_DV), dtype=tl.float32)
    # Keys that all rows see, in whole blocks; then the rest.
    end = keys
    whole = keys // BLOCK_N * BLOCK_N
    if CAUSAL:
        end = tl.minimum(keys, (block + 1) * BLOCK_M)
        whole = tl.minimum(keys, block * BLOCK_M) // BLOCK_N * BLOCK_N
    acc, total, largest = _walk(
        acc, total, largest, q, k_desc, v_desc, bias_rows, rows,
        batch, head // SHARING, 0, whole, keys, scale_log2, stride_bn,
        False, CAUSAL, HAS_BIAS, HIDES, BLOCK_D, BLOCK_DV, BLOCK_N,
    )  # fmt: skip
    acc, total, largest = _walk(
        acc, total, largest, q, k_desc, v_desc, bias_rows, rows,
        batch, head // SHARING, whole, end, keys, scale_log2, stride_bn,
        True, CAUSAL, HAS_BIAS, HIDES, BLOCK_D, BLOCK_DV, BLOCK_N,
    )  # fmt: skip
    dims_v = tl.arange(0, BLOCK_DV)
    out_at = ((batch64 * HEADS + head) * N + rows[:, None]) * DV + dims_v[None, :]
    tl.store(
        out_ptr + out_at, (acc / total[:, None]).to(out_ptr.dtype.element_ty),
        mask=row_ok[:, None] & (dims_v < DV)[None, :],
    )  # fmt: skip


def _for_tma(x: torch.Tensor) -> torch.Tensor:
    """`x` [B, G, S, D] itself where TMA can address it, else a copy with padded rows."""
    unit = 16 // x.element_size()
    addressable = (
        x.stride(3) == 1
        and x.data_ptr() % 16 == 0
        and all(x.stride(dim) % unit == 0 and x.stride(dim) > 0 for dim in range(3))
    )
    if addressable:
        return x
    padded = triton.cdiv(x.shape[3], unit) * unit
    copy = torch.empty((*x.shape[:3], padded), dtype=x.dtype, device=x.device)
    return copy[..., : x.shape[3]].copy_(x)


def kernel_function(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    bias: torch.Tensor | None = None,
    block_m: int = 64,
    block_n: int = 64,
    num_warps: int = 4,
    num_stages: int = 3,
) -> torch.Tensor:
    """Attention of `q` [B, H, N, D] to `k` [B, G, S, D] and `v` [B, G, S, E] -> [B, H, N, E].

    H is a multiple of G: neighbouring query heads share a key head. With `causal` query i sees keys
    0 to i. `scale` is 1 / sqrt(D) if None; `bias` is broadcast to [B, H, N, S] and added to the
    scaled scores; where one of bool is true the key is hidden. Any strides; D and E are at most
    256. The result is contiguous.
    """
    b, h, n, d = q.shape
    _, g, keys, e = v.shape
    if k.shape != (b, g, keys, d) or v.shape[0] != b or g == 0 or h % g or max(d, e) > 256:
        raise ValueError(f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)} do not fit")
    out = torch.empty((b, h, n, e), dtype=q.dtype, device=q.device)
    if out.numel() == 0:
        return out
    if keys == 0:
        raise ValueError("there is no key to attend to")
    block_d, block_dv = (max(16, triton.next_power_of_2(size)) for size in (d, e))
    if q.dtype == torch.float32 or max(block_d, block_dv) > 128:
        # Such tiles are twice as large.
        block_m, block_n = min(block_m, 64), min(block_n, 32)
    if q.dtype == torch.bfloat16 and not q.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        q, k, v = q.float(), k.float(), v.float()
    strides = (0, 0, 0, 0) if bias is None else bias.expand(b, h, n, keys).stride()
    hides = bias is not None and bias.dtype == torch.bool
    scale = d**-0.5 if scale is None else scale
    if scale < 0:
        q, scale = -q, -scale
    _attention_kernel[(triton.cdiv(n, block_m) * h * b,)](
        q,
        TensorDescriptor.from_tensor(_for_tma(k), [1, 1, block_n, block_d]),
        TensorDescriptor.from_tensor(_for_tma(v), [1, 1, block_n, block_dv]),
        q if bias is None else bias, out,
        h, h // g, n, keys, scale * LOG2_E,
        *q.stride(), *strides,
        CAUSAL=causal, HAS_BIAS=bias is not None, HIDES=hides,
        D=d, DV=e, BLOCK_D=block_d, BLOCK_DV=block_dv,
        BLOCK_M=block_m, BLOCK_N=block_n, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    attend = torch.nn.functional.scaled_dot_product_attention
    if bias is not None and bias.dtype == torch.bool:
        bias = ~bias
    return attend(q, k, v, attn_mask=bias, is_causal=causal, scale=scale, enable_gqa=True)


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
