"""
---
slug: conv-transpose-gather
title: Transposed convolution, outputs a stride apart gather by the same taps
op: conv-transpose
language: triton
techniques: [implicit-gemm, tensor-cores, structural-sparsity, data-layout-transform]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: conv-transpose-plain
sizes:
  check:
    - [2, 3, 5, 7, 6, 3, 2, 1, 1, 1, 1]
    - [1, 4, 6, 5, 4, 3, 1, 0, 2, 0, 0]
    - [2, 3, 4, 9, 3, 5, 1, 2, 0, 1]
    - [1, 2, 3, 3, 3, 2, 3, 2, 1, 2, 0, 1]
    - [1, 2, 3, 2, 1, 4, 0, 1, 0, 0]
  bench: [16, 32, 64, 16, 32, 32, 3, 2, 1, 2, 0, 0]
check_params: {block_m: 32, block_n: 16, block_k: 16}
sources:
  - title: "Dumoulin, Visin: A guide to convolution arithmetic for deep learning"
    url: https://arxiv.org/abs/1603.07285
    licence: arXiv-nonexclusive
  - title: "PyTorch: torch.nn.ConvTranspose3d"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose3d.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: conv-transpose-plain
  baseline_ms: 67.14
  measured_ms: 1.616
  speedup: 41.55
  floor_fraction: 0.06188
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.196
  measured_ms: 1.616
  speedup: 0.7401
  floor_fraction: 0.06188
- gpu: NVIDIA H100 80GB HBM3
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-25
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.2
  measured_ms: 1.616
  speedup: 0.7426
  floor_fraction: 0.06188
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: conv-transpose-plain
  baseline_ms: 67.23
  measured_ms: 1.409
  speedup: 47.71
  floor_fraction: 0.05047
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.145
  measured_ms: 1.409
  speedup: 0.8126
  floor_fraction: 0.05047
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.148
  measured_ms: 1.409
  speedup: 0.8148
  floor_fraction: 0.05047
---

Output o gets x[i] w[k] from tap k where o + p - k d = i s. Whether that has a solution depends on o
modulo the stride s alone, so outputs that lie a stride apart form a class which the same taps
reach. A program takes a block of one class: it asks once for each tap whether the tap reaches the
class, by integers that are the same for the whole program, and multiplies only then. Along a class
the elements read are neighbours, so a tap is a product of rows of x by the tap's [C, OUT] of the
weight, on tensor cores. Nothing is padded and no table is made: an output at an edge masks the rows
that it lacks. Beyond stride 1 one copy puts the classes in their places. `conv-transpose-classes`
loads by TMA and masks nothing; this one is shorter and launches once.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_m": [64, 128],
    "block_n": [32, 64, 128],
    "block_k": [32, 64],
    "num_warps": [4, 8],
}


@triton.jit
def _gather_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, ROWS, C, OUT, HAS_BIAS: tl.constexpr,
    DIMS: tl.constexpr, TAPS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # A few GB have more than 2**31 elements.
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for tap in range(TAPS):
        reached, inside, at, length = True, rows < ROWS, rows * 0, 1
        row, number, first = rows, tap, tl.program_id(2)
        # From the last dimension to the first: where the class's outputs read under this tap.
        for i in tl.static_range(len(DIMS)):
            size, count, k, s, p, d = DIMS[i]
            shift = first % s + p - number % k * d
            reached = reached & (shift % s == 0)
            read = row % count + shift // s
            inside = inside & (read >= 0) & (read < size)
            at += read * length
            length *= size
            row, number, first = row // count, number // k, first // s
        # The tap reaches all outputs of a class or none.
        if reached:
            elements = x_ptr + (row * length + at)[:, None] * C
            for k in range(0, C, BLOCK_K):
                ks = k + tl.arange(0, BLOCK_K)
                a = tl.load(elements + ks, mask=inside[:, None] & (ks < C), other=0.0)
                weights = weight_ptr + (tap * C + ks[:, None]) * OUT + cols
                b = tl.load(weights, mask=(ks[:, None] < C) & (cols < OUT), other=0.0)
                # float32 operands: three TF32 products keep float32 accuracy on tensor cores.
                acc = tl.dot(a, b, acc, input_precision="tf32x3")
    if HAS_BIAS:
        acc += tl.load(bias_ptr + cols, mask=cols < OUT, other=0.0).to(tl.float32)
    # Elementwise work that follows the convolution belongs here, on the float32 sums.
    out = out_ptr + (tl.program_id(2) * ROWS + rows)[:, None] * OUT + cols
    mask = (rows < ROWS)[:, None] & (cols < OUT)
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=mask)


def kernel_function(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride=1,
    padding=0,
    output_padding=0,
    groups: int = 1,
    dilation=1,
    block_m: int = 128,
    block_n: int = 64,
    block_k: int = 32,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return the transposed convolution of `x` [N, C, ...] with `weight` [C, OUT / groups, ...].

    One to three dimensions, settings as in `torch.nn.functional.conv_transpose3d`, `bias` [OUT].
    With stride 1 the result is a view of a tensor in channels-last order.
    """
    if x.ndim not in (3, 4, 5) or weight.ndim != x.ndim or x.dtype != weight.dtype:
        raise ValueError(f"cannot convolve {x.dtype} {list(x.shape)} with {list(weight.shape)}")
    if weight.shape[0] != x.shape[1] or x.shape[1] % groups:
        raise ValueError(f"weight {list(weight.shape)} does not fit {x.shape[1]} channels")
    if groups > 1:
        own = [None] * groups if bias is None else bias.chunk(groups)
        parts = zip(x.chunk(groups, 1), weight.chunk(groups), own, strict=True)
        rest = (stride, padding, output_padding, 1, dilation, block_m, block_n, block_k, num_warps)
        return torch.cat([kernel_function(*each, *rest) for each in parts], 1)
    if x.dtype == torch.bfloat16 and not x.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        rest = (stride, padding, output_padding, 1, dilation, block_m, block_n, block_k, num_warps)
        return kernel_function(x.float(), weight.float(), bias, *rest).to(x.dtype)
    rank, (n, c, *size), (_, out_c, *k) = x.ndim - 2, x.shape, weight.shape
    settings = (stride, padding, output_padding, dilation)
    s, p, q, d = ((v,) * rank if isinstance(v, int) else v for v in settings)
    o = [(size[i] - 1) * s[i] - 2 * p[i] + d[i] * (k[i] - 1) + q[i] + 1 for i in range(rank)]
    counts = [triton.cdiv(*each) for each in zip(o, s, strict=True)]
    # Outputs a stride apart are computed together: one class of them behind the other.
    out = torch.empty((*s, n, *counts, out_c), dtype=x.dtype, device=x.device)
    rows = n * math.prod(counts)
    if out.numel():
        _gather_kernel[(triton.cdiv(rows, block_m), triton.cdiv(out_c, block_n), math.prod(s))](
            x.movedim(1, -1).contiguous(), weight.flatten(2).permute(2, 0, 1).contiguous(),
            None if bias is None else bias.contiguous(), out, rows, c, out_c, bias is not None,
            tuple(zip(size, counts, k, s, p, d, strict=True))[::-1], math.prod(k),
            block_m, block_n, block_k, num_warps=num_warps,
        )  # fmt: skip
    order = [rank, -1, *(each for i in range(rank) for each in (rank + 1 + i, i))]
    sizes = (counts[i] * s[i] for i in range(rank))
    return out.permute(order).reshape(n, out_c, *sizes)[:, :, *map(slice, o)]


def reference(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    groups: int = 1,
    dilation: int = 1,
) -> torch.Tensor:
    convolve = getattr(torch.nn.functional, f"conv_transpose{x.ndim - 2}d")
    y: torch.Tensor = convolve(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return y


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | int | None]:
    """`size` is [N, C, OUT, one to three lengths, window, stride, padding, dilation,
    output_padding, whether there is a bias]."""
    n, c, c_out, *lengths, window, stride, padding, dilation, output_padding, has_bias = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x, weight, bias = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((n, c, *lengths), (c, c_out, *(window,) * len(lengths)), (c_out,))
    )
    given = bias if has_bias else None
    return [x, weight, given, stride, padding, output_padding, 1, dilation]
