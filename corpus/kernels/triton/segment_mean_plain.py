"""
---
slug: segment-mean-plain
title: Mean or sum of the segments of jagged data, one program for each segment
op: segment-reduction
language: triton
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[120, 32, 24], [100, 20, 37], [3, 40, 1]]
  bench: [2097152, 128, 65536]
check_params: {block_t: 32, block_d: 64}
sources:
  - title: "PyTorch: torch.Tensor.index_add_"
    url: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_add_.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 2097152x128x65536
  dtype: bfloat16
  baseline: eager
  baseline_ms: 2.957
  measured_ms: 0.6969
  speedup: 4.243
  floor_fraction: 0.1869
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 2097152x128x65536
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.018
  measured_ms: 0.6969
  speedup: 1.461
  floor_fraction: 0.1869
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 2097152x128x65536
  dtype: bfloat16
  baseline: vendor library
  baseline_ms: 5.9
  measured_ms: 0.6969
  speedup: 8.466
  floor_fraction: 0.1869
---

Segment s has the rows offsets[s] to offsets[s + 1] - 1 of the values. A program walks over the rows
of one segment, `block_t` at a time, and writes their mean or sum. The longest segment decides when
the last program ends; short ones fill part of a tile.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_t": [8, 16, 32, 64],
    "block_d": [32, 64, 128],
    "num_warps": [1, 4],
}


@triton.jit
def _segment_kernel(
    offsets_ptr, x_ptr, y_ptr,
    D, stride_xt, stride_xd,
    MEAN: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    segment = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D).to(tl.int64)
    begin = tl.load(offsets_ptr + segment)
    end = tl.load(offsets_ptr + segment + 1)
    acc = tl.zeros((BLOCK_T, BLOCK_D), dtype=tl.float32)
    for start in tl.range(begin, end, BLOCK_T):
        t = start + tl.arange(0, BLOCK_T)
        x_at = t.to(tl.int64)[:, None] * stride_xt + d[None, :] * stride_xd
        mask = (t < end)[:, None] & (d < D)[None, :]
        acc += tl.load(x_ptr + x_at, mask=mask, other=0.0).to(tl.float32)
    total = tl.sum(acc, axis=0)
    if MEAN:
        total = total / tl.maximum(end - begin, 1).to(tl.float32)
    tl.store(y_ptr + segment * D + d, total.to(y_ptr.dtype.element_ty), mask=d < D)


def kernel_function(
    x: torch.Tensor,
    offsets: torch.Tensor,
    reduction: str = "mean",
    block_t: int = 16,
    block_d: int = 32,
    num_warps: int = 4,
) -> torch.Tensor:
    """The mean, or with reduction "sum" the sum, of each segment of `x` [T, D], any strides, given
    by `offsets` [S + 1] -> [S, D] in x's dtype; segments without rows give 0."""
    if x.ndim != 2 or offsets.ndim != 1 or reduction not in ("mean", "sum"):
        raise ValueError(f"x [T, D], offsets [S + 1] and mean or sum, not '{reduction}'")
    segments, width = len(offsets) - 1, x.shape[1]
    y = torch.empty((segments, width), dtype=x.dtype, device=x.device)
    if y.numel():
        block_d = min(block_d, max(16, triton.next_power_of_2(width)))
        _segment_kernel[(segments, triton.cdiv(width, block_d))](
            offsets.contiguous(), x, y, width, *x.stride(),
            MEAN=reduction == "mean", BLOCK_T=block_t, BLOCK_D=block_d, num_warps=num_warps,
        )  # fmt: skip
    return y


def reference(x: torch.Tensor, offsets: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    lengths = offsets.diff()
    place = torch.arange(len(lengths), device=x.device)
    place = torch.repeat_interleave(place, lengths, output_size=len(x))
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    total = wide.new_zeros((len(lengths), x.shape[1])).index_add_(0, place, wide)
    if reduction == "mean":
        total = total / lengths.clamp(min=1)[:, None]
    return total.to(x.dtype)


def library(x: torch.Tensor, offsets: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    return torch.segment_reduce(x, reduction, offsets=offsets.long(), initial=0)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [rows, columns, segments]; few segments have many of the rows, some have none."""
    rows, width, segments = size
    generator = torch.Generator(device=device).manual_seed(seed)
    # Of each row its segment: u**3 is much more often near 0.
    u = torch.rand(rows, device=device, generator=generator)
    segment = (u**3 * segments).long().clamp(max=segments - 1)
    # Long segments lie anywhere, not beside each other.
    place = torch.randperm(segments, device=device, generator=generator)
    offsets = torch.zeros(segments + 1, dtype=torch.int32, device=device)
    offsets[1:] = torch.bincount(place[segment], minlength=segments).cumsum(0)
    return [torch.randn((rows, width), dtype=dtype, device=device, generator=generator), offsets]
