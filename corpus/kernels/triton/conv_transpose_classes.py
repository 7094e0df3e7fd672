"""
---
slug: conv-transpose-classes
title: Transposed convolution, one dense product for each class of outputs
op: conv-transpose
language: triton
techniques:
  [structural-sparsity, implicit-gemm, data-layout-transform, tma-host-descriptor, tensor-cores]
architectures: [sm_90]
dtypes: [float32, float16, bfloat16]
derived_from: conv-transpose-plain
sizes:
  check:
    - [2, 3, 5, 7, 6, 3, 2, 1, 1, 1, 1]
    - [1, 4, 6, 5, 4, 3, 1, 0, 2, 0, 0]
    - [2, 3, 4, 9, 3, 5, 1, 2, 0, 1]
    - [1, 2, 3, 3, 3, 2, 3, 2, 1, 2, 0, 1]
  bench: [16, 32, 64, 16, 32, 32, 3, 2, 1, 2, 0, 0]
check_params: {block_m: 32, block_n: 16, block_k: 16}
sources:
  - title: "Dumoulin, Visin: A guide to convolution arithmetic for deep learning"
    url: https://arxiv.org/abs/1603.07285
    licence: arXiv-nonexclusive
  - title: "PyTorch: torch.nn.ConvTranspose2d"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose2d.html
    licence: BSD-3-Clause
  - title: "Triton: triton.language.dot"
    url: https://triton-lang.org/main/python-api/generated/triton.language.dot.html
    licence: MIT
verified:
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
  measured_ms: 1.585
  speedup: 42.42
  floor_fraction: 0.04487
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.149
  measured_ms: 1.585
  speedup: 0.7249
  floor_fraction: 0.04487
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 16x32x64x16x32x32x3x2x1x2x0x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.143
  measured_ms: 1.585
  speedup: 0.7211
  floor_fraction: 0.04487
---

A transposed convolution with stride s is a convolution of an image with s - 1 zeros between its
elements. An output meets the elements only under some taps: with o the output, p the padding and d
the dilation, tap k counts where o + p - k d is a multiple of s. So outputs fall into s classes a
dimension by o modulo s, and within a class it is a dense convolution with the class's taps: no
multiplication by a zero is done.

The image is padded and brought into channels-last order once. Under one tap a block of outputs
reads consecutive rows of [positions, channels], moved by one number: a TMA load without an address
or a mask in any thread. A launch computes one class, through TMA as well; torch puts the classes
side by side. With stride 1 there is one class, whose result is returned as it is.

`conv-transpose-parity` does all classes in one launch and stores their outputs interleaved, which
spares a pass over the result.
"""

import itertools
import math

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

TUNABLES = {
    "block_m": [32, 64, 128, 256],
    "block_n": [16, 32, 64, 128],
    "block_k": [16, 32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def _class_kernel(
    x_desc, weight_desc, out_desc, taps_ptr, bias_ptr, C, OUT, TAPS, HAS_BIAS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(1) * BLOCK_M
    col = tl.program_id(0) * BLOCK_N
    blocks = tl.cdiv(C, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in tl.range(0, TAPS * blocks):
        tap = taps_ptr + step // blocks * 2
        k = step % blocks * BLOCK_K
        a = x_desc.load([first + tl.load(tap), k])
        b = weight_desc.load([tl.load(tap + 1) * OUT + col, k])
        # float32 operands: three TF32 products keep float32 accuracy on tensor cores.
        acc = tl.dot(a, b.T, acc, input_precision="tf32x3")
    if HAS_BIAS:
        cols = col + tl.arange(0, BLOCK_N)
        acc += tl.load(bias_ptr + cols, mask=cols < OUT, other=0.0).to(tl.float32)
    # Elementwise work that follows the convolution belongs here, on the float32 sums.
    out_desc.store([first, col], acc.to(out_desc.dtype))


def _multiplied(x, weight, bias, taps, block_m, block_n, block_k, num_warps, num_stages):
    """Sums over taps (position read, filter) of `x` [N, ..., C] by `weight` [filters, OUT, C]."""
    out_c, c = weight.shape[1:]
    moved = []
    for at, number in taps:
        row = 0
        for length, step in zip(x.shape[1:], at, strict=False):
            row = row * length + step
        moved.append((row, number))
    moved = torch.tensor(moved, dtype=torch.int32, device=x.device)
    unit = 16 // x.element_size()
    out = torch.empty((*x.shape[:-1], out_c + -out_c % unit), dtype=x.dtype, device=x.device)
    rows = math.prod(x.shape[:-1])
    block_n = min(block_n, max(16, triton.next_power_of_2(out_c)))
    block_k = min(block_k, 8 * unit, max(16, triton.next_power_of_2(c)))
    _class_kernel[(triton.cdiv(out_c, block_n), triton.cdiv(rows, block_m))](
        TensorDescriptor.from_tensor(x.view(-1, c), [block_m, block_k]),
        TensorDescriptor.from_tensor(weight.view(-1, c), [block_n, block_k]),
        TensorDescriptor.from_tensor(out.view(rows, -1), [block_m, block_n]),
        moved, bias, c, out_c, len(moved), bias is not None, block_m, block_n, block_k,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out[..., :out_c].movedim(-1, 1)


def _classes(x, weight, bias, s, p, q, d, k, more, blocks):
    """All classes of a stride, put side by side."""
    rank, size = len(s), x.shape[2:]
    o = [(size[i] - 1) * s[i] - 2 * p[i] + d[i] * (k[i] - 1) + q[i] + 1 for i in range(rank)]
    # Of each dimension: tap -> class -> how far from its place an output of the class reads.
    reads = [
        {tap: {r: (r + p[i] - tap * d[i]) // s[i]
               for r in range(s[i]) if (r + p[i] - tap * d[i]) % s[i] == 0}
         for tap in range(k[i])}
        for i in range(rank)
    ]  # fmt: skip
    reach = [[at for hits in taps.values() for at in hits.values()] for taps in reads]
    # As many zeros around the image as taps reach beyond it.
    low = [max(0, -min(each)) for each in reach]
    high = [max(0, max(reach[i]) - -o[i] // s[i] - size[i]) for i in range(rank)]
    pads = [each for i in reversed(range(rank)) for each in (low[i], high[i])]
    x = F.pad(x, [*pads, 0, more]).movedim(1, -1).contiguous()
    out = torch.empty((len(x), weight.shape[1], *o), dtype=x.dtype, device=x.device)
    for r in itertools.product(*map(range, s)):
        taps = []
        for number, each in enumerate(itertools.product(*map(dict.items, reads))):
            at = [hits.get(r[i]) for i, (_, hits) in enumerate(each)]
            if None not in at:
                taps.append(([at[i] + low[i] for i in range(rank)], number))
        own = out[:, :, *map(slice, r, [None] * rank, s)]
        part = _multiplied(x, weight, bias, taps, *blocks)
        own.copy_(part[:, :, *map(slice, own.shape[2:])])
    return out


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
    block_k: int = 64,
    num_warps: int = 4,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return the transposed convolution of `x` [N, C, ...] with `weight` [C, OUT / groups, ...].

    One to three dimensions, settings as in `torch.nn.functional.conv_transpose3d`, `bias` [OUT].
    With stride 1 the result is a view of a tensor in channels-last order. `block_k` is cut to 128
    bytes, the widest swizzle that TMA knows.
    """
    bias = None if bias is None else bias.contiguous()
    if x.ndim not in (3, 4, 5) or weight.ndim != x.ndim or x.dtype != weight.dtype:
        raise ValueError(f"cannot convolve {x.dtype} {list(x.shape)} with {list(weight.shape)}")
    if weight.shape[0] != x.shape[1] or x.shape[1] % groups:
        raise ValueError(f"weight {list(weight.shape)} does not fit {x.shape[1]} channels")
    blocks = (block_m, block_n, block_k, num_warps, num_stages)
    if groups > 1:
        own = [None] * groups if bias is None else bias.chunk(groups)
        parts = zip(x.chunk(groups, 1), weight.chunk(groups), own, strict=True)
        rest = (stride, padding, output_padding, 1, dilation, *blocks)
        return torch.cat([kernel_function(*each, *rest) for each in parts], 1)
    if x.dtype == torch.bfloat16 and not x.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        rest = (stride, padding, output_padding, 1, dilation, *blocks)
        return kernel_function(x.float(), weight.float(), bias, *rest).to(x.dtype)
    rank, k = x.ndim - 2, weight.shape[2:]
    settings = (padding, output_padding, dilation)
    p, q, d = ((v,) * rank if isinstance(v, int) else v for v in settings)
    # Channels in whole units of 16 bytes, as TMA asks.
    more = -x.shape[1] % (16 // x.element_size())
    weight = F.pad(weight.flatten(2).permute(2, 1, 0), [0, more]).contiguous()
    if stride != 1:
        s = (stride,) * rank if isinstance(stride, int) else stride
        return _classes(x, weight, bias, s, p, q, d, k, more, blocks)
    # One class: a convolution of the padded image, the last tap first.
    ends = [d[i] * (k[i] - 1) for i in range(rank)]
    pads = [each - p[i] for i in reversed(range(rank)) for each in (ends[i], ends[i] + q[i])]
    x = F.pad(x, [*pads, 0, more]).movedim(1, -1).contiguous()
    starts = (range(ends[i], -1, -d[i]) for i in range(rank))
    taps = [(at, number) for number, at in enumerate(itertools.product(*starts))]
    y = _multiplied(x, weight, bias, taps, *blocks)
    return y[:, :, *(slice(x.shape[i + 1] - ends[i]) for i in range(rank))]


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
