"""
---
slug: triplet-margin-rows
title: Triplet margin loss in one reading of anchors, positives and negatives
op: triplet-loss
language: triton
techniques: [kernel-fusion, coalesced-access]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[16, 64], [7, 100], [5, 3], [3, 520]]
  bench: [32768, 4096]
check_params: {tile: 128}
sources:
  - title: "PyTorch: torch.nn.functional.triplet_margin_loss"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.triplet_margin_loss.html
    licence: BSD-3-Clause
  - title: "Balntas and others: Learning local feature descriptors with triplets"
    url: https://bmva-archive.org.uk/bmvc/2016/papers/paper119/
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 32768x4096
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.7997
  measured_ms: 0.1853
  speedup: 4.316
  floor_fraction: 1.016
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 32768x4096
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.1854
  measured_ms: 0.1853
  speedup: 1.001
  floor_fraction: 1.016
---

max(|a - p| - |a - n| + margin, 0) for each row, with Euclidean distances. Both distances are sums
over the same walk along the row: the anchor is read once for both, and no difference is written. A
program takes a block of rows; each element of its block has an accumulator a distance, and threads
meet once, after the walk. A mean or sum over the rows is a second launch in a fixed order.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"tile": [512, 1024, 2048, 4096], "num_warps": [2, 4, 8]}

REDUCTIONS = ("mean", "sum", "none")
# PyTorch adds it to each difference.
EPS = 1e-6


@triton.jit
def _triplet_kernel(
    a_ptr, p_ptr, n_ptr, out_ptr, M, N, margin, eps,
    stride_am, stride_an, stride_pm, stride_pn, stride_nm, stride_nn,
    SWAP: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # Row times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    near = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    far = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    other = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in tl.range(0, N, BLOCK):
        i = start + tl.arange(0, BLOCK).to(tl.int64)[None, :]
        mask = (row < M) & (i < N)
        a = tl.load(a_ptr + row * stride_am + i * stride_an, mask=mask, other=0.0).to(tl.float32)
        p = tl.load(p_ptr + row * stride_pm + i * stride_pn, mask=mask, other=0.0).to(tl.float32)
        n = tl.load(n_ptr + row * stride_nm + i * stride_nn, mask=mask, other=0.0).to(tl.float32)
        to_p = tl.where(mask, a - p + eps, 0.0)
        to_n = tl.where(mask, a - n + eps, 0.0)
        near += to_p * to_p
        far += to_n * to_n
        if SWAP:
            between = tl.where(mask, p - n + eps, 0.0)
            other += between * between
    distance = tl.sqrt(tl.sum(far, axis=1, keep_dims=True))
    if SWAP:
        distance = tl.minimum(distance, tl.sqrt(tl.sum(other, axis=1, keep_dims=True)))
    loss = tl.sqrt(tl.sum(near, axis=1, keep_dims=True)) - distance + margin
    loss = tl.where(loss < 0.0, 0.0, loss)
    tl.store(out_ptr + row, loss.to(out_ptr.dtype.element_ty), mask=row < M)


@triton.jit
def _sum_kernel(losses_ptr, out_ptr, M, factor, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in tl.range(0, M, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(losses_ptr + i, mask=i < M, other=0.0)
    tl.store(out_ptr, (tl.sum(total, axis=0) * factor).to(out_ptr.dtype.element_ty))


def kernel_function(
    anchor: torch.Tensor,
    positive: torch.Tensor,
    negative: torch.Tensor,
    margin: float = 1.0,
    eps: float = EPS,
    swap: bool = False,
    reduction: str = "mean",
    tile: int = 1024,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return the triplet margin loss of rows [..., N], Euclidean, in the anchors' dtype: one
    number, or one a row for reduction "none". With `swap` the lesser of the negative's two
    distances counts.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction is one of {', '.join(REDUCTIONS)}, not '{reduction}'")
    if not anchor.shape == positive.shape == negative.shape or not anchor.dim():
        raise ValueError(
            f"anchor {list(anchor.shape)}, positive {list(positive.shape)} and negative "
            f"{list(negative.shape)} must be of one shape [..., N]"
        )
    length = anchor.shape[-1]
    count = anchor.shape[:-1].numel()
    rows = [each.reshape(count, length) for each in (anchor, positive, negative)]
    whole = reduction == "none"
    dtype = anchor.dtype if whole else torch.float32
    losses = torch.empty(count, dtype=dtype, device=anchor.device)
    block = min(tile, triton.next_power_of_2(max(1, length)))
    high = max(1, min(tile // block, triton.next_power_of_2(max(1, count))))
    if count:
        _triplet_kernel[(triton.cdiv(count, high),)](
            *rows, losses, count, length, margin, eps,
            *(stride for each in rows for stride in each.stride()),
            SWAP=swap, ROWS=high, BLOCK=block, num_warps=num_warps,
        )  # fmt: skip
    if whole:
        return losses.view(anchor.shape[:-1])
    out = torch.empty((), dtype=anchor.dtype, device=anchor.device)
    factor = 1.0 if reduction == "sum" else (1.0 / count if count else float("nan"))
    _sum_kernel[(1,)](losses, out, count, factor, BLOCK=16384, num_warps=32)
    return out


def reference(
    anchor: torch.Tensor,
    positive: torch.Tensor,
    negative: torch.Tensor,
    margin: float = 1.0,
    eps: float = EPS,
    swap: bool = False,
    reduction: str = "mean",
) -> torch.Tensor:
    return torch.nn.functional.triplet_margin_loss(
        anchor, positive, negative, margin, 2.0, eps, swap, reduction=reduction
    )


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [rows, row length]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [
        torch.randn(size, dtype=dtype, device=device, generator=generator) for _ in range(3)
    ] + [8.0]
