"""
---
slug: causal-softmax-rows
title: Causal softmax of scores that reads no masked score
op: causal-softmax
language: triton
techniques: [structural-sparsity, register-caching, kernel-fusion]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 16, 16], [3, 7, 21], [1, 40, 33], [2, 3, 2], [1, 5, 300]]
  bench: [32, 2048, 2048]
check_params: {tile: 64, num_warps: 4}
sources:
  - title: "PyTorch: torch.nn.functional.scaled_dot_product_attention, is_causal"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    licence: BSD-3-Clause
  - title: "PyTorch: torch.softmax"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html
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
  shape: 32x2048x2048
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.012
  measured_ms: 0.1305
  speedup: 7.755
  floor_fraction: 0.9674
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 32x2048x2048
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.3606
  measured_ms: 0.1305
  speedup: 2.763
  floor_fraction: 0.9674
---

Softmax over the keys of scale * x [..., queries, keys]; query q sees keys up to q + diagonal and
the rest is 0. What is masked is known from the indices: no mask is read, and no score under it (but
for the last few of a vector). Of square scores that is half of what a softmax after `masked_fill`
reads; written is all.

A program holds `tile` elements in registers: one row, or a few neighbouring short ones, whose ends
are nearly the same. The maximum is taken of x, and one product with scale * log2(e) goes with each
power of 2. Rows longer than MAX_ROW go in two walks over what is seen, with a running maximum and
sum; zeros are written without reading.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"tile": [1024, 2048, 4096, 8192], "num_warps": [2, 4, 8, 16]}

# Elements that one thread can keep in float32 without spilling, in blocks of up to 512 threads.
MAX_PER_THREAD = 64
# Those of 512 threads.
MAX_ROW = 32768


@triton.jit
def _whole_kernel(
    x_ptr, out_ptr, rows, Q, K, diagonal, factor,
    stride_xb, stride_xq, stride_xk,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # Index times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    k = tl.arange(0, BLOCK)[None, :]
    q = row % Q
    seen = (row < rows) & (k <= q + diagonal) & (k < K)
    place = x_ptr + row // Q * stride_xb + q * stride_xq + k.to(tl.int64) * stride_xk
    # Loads stop at a multiple of 8: a mask of single elements would cost the wide loads.
    near = (row < rows) & (k // 8 * 8 <= q + diagonal) & (k < K)
    # The factor may be negative: the largest product is sought, not the largest score.
    x = tl.load(place, mask=near, other=0.0).to(tl.float32) * factor
    x = tl.where(seen, x, float("-inf"))
    powers = tl.exp2(x - tl.max(x, axis=1, keep_dims=True))
    y = powers / tl.sum(powers, axis=1, keep_dims=True)
    y = y.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row * K + k, y, mask=(row < rows) & (k < K))


@triton.jit
def _long_kernel(
    x_ptr, out_ptr, Q, K, diagonal, factor, stride_xb, stride_xq, stride_xk, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    q = row % Q
    x_row = x_ptr + row // Q * stride_xb + q * stride_xq
    end = tl.minimum(q + diagonal + 1, K)
    # The lowest finite number in place of -inf: no -inf minus -inf before the first value.
    largest = tl.full((BLOCK,), -3.4028234663852886e38, dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in tl.range(0, end, BLOCK):
        k = start + tl.arange(0, BLOCK).to(tl.int64)
        x = tl.load(x_row + k * stride_xk, mask=k < end, other=0.0).to(tl.float32) * factor
        x = tl.where(k < end, x, float("-inf"))
        top = tl.maximum(largest, x)
        total = total * tl.exp2(largest - top) + tl.exp2(x - top)
        largest = top
    top = tl.max(largest, axis=0)
    scale = 1.0 / tl.sum(total * tl.exp2(largest - top), axis=0)
    for start in tl.range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK).to(tl.int64)
        x = tl.load(x_row + k * stride_xk, mask=k < end, other=0.0).to(tl.float32) * factor
        y = tl.where(k < end, tl.exp2(x - top), 0.0) * scale
        tl.store(out_ptr + row * K + k, y.to(out_ptr.dtype.element_ty), mask=k < K)


def kernel_function(
    x: torch.Tensor,
    scale: float = 1.0,
    diagonal: int = 0,
    out_dtype: torch.dtype | None = None,
    tile: int = 2048,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return softmax(`scale` * `x`) [..., queries, keys] over the keys k <= q + `diagonal` of each
    query q, 0 elsewhere, contiguous, in `out_dtype` (`x`'s if None).

    A query that sees no key gets NaN, as a softmax of nothing but -inf does. `num_warps` is raised
    where a row needs more registers.
    """
    if x.dim() < 2:
        raise ValueError(f"scores are [..., queries, keys], not {list(x.shape)}")
    queries, keys = x.shape[-2:]
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    if not out.numel():
        return out
    view = x.reshape(x.shape[:-2].numel(), queries, keys)  # a view wherever the strides allow one
    rows = view.shape[0] * queries
    factor = scale * 1.4426950408889634  # log2(e)
    block = triton.next_power_of_2(max(1, keys))
    if block > MAX_ROW:
        _long_kernel[(rows,)](
            view, out, queries, keys, diagonal, factor, *view.stride(),
            BLOCK=tile, num_warps=num_warps,
        )  # fmt: skip
        return out
    high = max(1, min(tile // block, triton.next_power_of_2(rows)))
    _whole_kernel[(triton.cdiv(rows, high),)](
        view, out, rows, queries, keys, diagonal, factor, *view.stride(),
        ROWS=high, BLOCK=block,
        num_warps=max(num_warps, min(32, high * block // (32 * MAX_PER_THREAD))),
    )  # fmt: skip
    return out


def reference(x: torch.Tensor, scale: float = 1.0, diagonal: int = 0) -> torch.Tensor:
    later = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(diagonal + 1)
    return torch.softmax((x * scale).masked_fill(later, float("-inf")), dim=-1)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [batch, queries, keys]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator), 0.125]
