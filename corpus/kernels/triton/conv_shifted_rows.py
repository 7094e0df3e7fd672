"""
---
slug: conv-shifted-rows
title: Convolution as one product for each tap, of rows moved by a number
op: conv
language: triton
techniques: [implicit-gemm, data-layout-transform, tma-host-descriptor, tensor-cores]
architectures: [sm_90]
dtypes: [float32, float16, bfloat16]
derived_from: conv-implicit-gemm
sizes:
  check:
    - [2, 3, 5, 9, 8, 3, 1, 1, 1, 1, 1]
    - [1, 4, 6, 11, 7, 3, 2, 1, 2, 2, 0]
    - [2, 2, 3, 13, 3, 2, 1, 1, 1, 0]
    - [1, 2, 3, 4, 5, 3, 2, 1, 0, 1, 1, 1]
  bench: [32, 128, 128, 56, 56, 3, 1, 1, 1, 1, 0]
check_params: {block_m: 64, block_n: 16, block_k: 16}
sources:
  - title: "Chetlur et al.: cuDNN: Efficient Primitives for Deep Learning"
    url: https://arxiv.org/abs/1410.0759
    licence: proprietary
  - title: "PyTorch: torch.nn.Conv2d"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html
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
  shape: 32x128x128x56x56x3x1x1x1x1x0
  dtype: bfloat16
  baseline: conv-implicit-gemm
  baseline_ms: 0.323
  measured_ms: 0.3049
  speedup: 1.059
  floor_fraction: 0.1229
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 32x128x128x56x56x3x1x1x1x1x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1077
  measured_ms: 0.3049
  speedup: 0.3532
  floor_fraction: 0.1229
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 32x128x128x56x56x3x1x1x1x1x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.08784
  measured_ms: 0.3049
  speedup: 0.2881
  floor_fraction: 0.1229
---

The image is padded and brought into channels-last order once, by torch. Then it is a matrix
[positions, channels], and under one tap the left operand of the product is BLOCK_M consecutive rows
of it, moved by one number for the whole block: a TMA load without an address or a mask in any
thread. Positions in the padding are computed as well, stored through TMA too, and cut off by the
view that is returned.

A stride is taken out by the copy: the phases of each dimension are laid one after the other, so
that neighbouring outputs need neighbouring rows again.

This is the method of `conv-tma` in fewer lines: that one packs in one pass, pads less, and stores
channels first, where the result has to be contiguous.
"""

import itertools
import math

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

TUNABLES = {
    "block_m": [64, 128, 256],
    "block_n": [16, 32, 64, 128, 256],
    "block_k": [16, 32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def _conv_kernel(
    x_desc, weight_desc, out_desc, shift_ptr, bias_ptr, C, OUT, TAPS, HAS_BIAS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(1) * BLOCK_M
    col = tl.program_id(0) * BLOCK_N
    blocks = tl.cdiv(C, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in tl.range(0, TAPS * blocks):
        tap = step // blocks
        k = step % blocks * BLOCK_K
        a = x_desc.load([first + tl.load(shift_ptr + tap), k])
        b = weight_desc.load([tap * OUT + col, k])
        # float32 operands: three TF32 products keep float32 accuracy on tensor cores.
        acc = tl.dot(a, b.T, acc, input_precision="tf32x3")
    if HAS_BIAS:
        cols = col + tl.arange(0, BLOCK_N)
        acc += tl.load(bias_ptr + cols, mask=cols < OUT, other=0.0).to(tl.float32)
    # Elementwise work that follows the convolution belongs here, on the float32 sums.
    out_desc.store([first, col], acc.to(out_desc.dtype))


def _strided(x: torch.Tensor, taps: list[list[int]], o: list[int], stride):
    """`x` [N, ..., C] as [phases, N, ..., C]: outputs of a stride need neighbours of a phase. A tap
    reads one phase, whole strides on."""
    rank = len(o)
    s = (stride,) * rank if isinstance(stride, int) else stride
    x = F.pad(
        x, [0, 0] + [each for i in range(rank, 0, -1) for each in (0, -x.shape[i] % s[i - 1])]
    )
    phases = itertools.product(*map(range, s))
    x = torch.stack([x[:, *map(slice, f, [None] * rank, s)] for f in phases])
    found = []
    for _, *tap in taps:
        phase = 0
        for step, stride in zip(tap, s, strict=True):
            phase = phase * stride + step % stride
        found.append([phase, 0, *(step // stride for step, stride in zip(tap, s, strict=True))])
    return x, found, [(each - 1) // step + 1 for each, step in zip(o, s, strict=True)]


def kernel_function(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride=1,
    padding=0,
    dilation=1,
    groups: int = 1,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 64,
    num_warps: int = 8,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return the convolution of `x` [N, C, ...] with `weight` [OUT, C / groups, ...].

    One to three dimensions, settings as in `torch.nn.functional.conv3d`, `bias` [OUT]. The result
    is a view of a tensor in channels-last order. `block_k` is cut to 128 bytes, the widest swizzle
    that TMA knows.
    """
    bias = None if bias is None else bias.contiguous()
    rank = x.ndim - 2
    if rank not in (1, 2, 3) or weight.ndim != x.ndim or x.dtype != weight.dtype:
        raise ValueError(f"cannot convolve {x.dtype} {list(x.shape)} with {list(weight.shape)}")
    if weight.shape[1] * groups != x.shape[1] or weight.shape[0] % groups:
        raise ValueError(f"weight {list(weight.shape)} does not fit {x.shape[1]} channels")
    if groups > 1:
        own = [None] * groups if bias is None else bias.chunk(groups)
        parts = zip(x.chunk(groups, 1), weight.chunk(groups), own, strict=True)
        rest = (1, block_m, block_n, block_k, num_warps, num_stages)
        each = (kernel_function(*part, stride, padding, dilation, *rest) for part in parts)
        return torch.cat(list(each), 1)
    p, d = ((v,) * rank if isinstance(v, int) else v for v in (padding, dilation))
    n, c, out_c, k = *x.shape[:2], weight.shape[0], weight.shape[2:]
    if x.dtype == torch.bfloat16 and not x.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        rest = (stride, padding, dilation, 1, block_m, block_n, block_k, num_warps, num_stages)
        return kernel_function(x.float(), weight.float(), bias, *rest).to(x.dtype)
    # Channels last, in whole units of 16 bytes, as TMA asks.
    unit = 16 // x.element_size()
    more = -c % unit
    x = F.pad(x, [each for v in p[::-1] for each in (v, v)] + [0, more]).movedim(1, -1).contiguous()
    weight = F.pad(weight, [0] * 2 * rank + [0, more]).flatten(2).permute(2, 0, 1).contiguous()
    o = [x.shape[i + 1] - d[i] * (k[i] - 1) for i in range(rank)]
    if min(o) < 1:
        raise ValueError(f"a window of {list(k)} is too large for images of {list(x.shape)}")
    starts = (range(0, d[i] * k[i], d[i]) for i in range(rank))
    taps = [[0, *tap] for tap in itertools.product(*starts)]
    if stride != 1:
        x, taps, o = _strided(x, taps, o, stride)
    # By how many rows a tap moves the operand.
    shifts = []
    for tap in taps:
        row = 0
        for length, step in zip(x.shape, tap, strict=False):
            row = row * length + step
        shifts.append(row)
    shifts = torch.tensor(shifts, dtype=torch.int32, device=x.device)
    e = x.shape[-1 - rank : -1]
    out = torch.empty((n, *e, out_c + -out_c % unit), dtype=x.dtype, device=x.device)
    rows = n * math.prod(e)
    block_n = min(block_n, max(16, triton.next_power_of_2(out_c)))
    block_k = min(block_k, 8 * unit, max(16, triton.next_power_of_2(c)))
    _conv_kernel[(triton.cdiv(out_c, block_n), triton.cdiv(rows, block_m))](
        TensorDescriptor.from_tensor(x.view(-1, c + more), [block_m, block_k]),
        TensorDescriptor.from_tensor(weight.view(-1, c + more), [block_n, block_k]),
        TensorDescriptor.from_tensor(out.view(rows, -1), [block_m, block_n]),
        shifts, bias, c, out_c, len(shifts), bias is not None, block_m, block_n, block_k,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out[:, *map(slice, o), :out_c].movedim(-1, 1)


def reference(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> torch.Tensor:
    convolve = getattr(torch.nn.functional, f"conv{x.ndim - 2}d")
    y: torch.Tensor = convolve(x, weight, bias, stride, padding, dilation, groups)
    return y


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | int | None]:
    """`size` is [N, C, OUT, one to three lengths, window, stride, padding, dilation, groups, 1 with
    a bias]."""
    n, c, c_out, *lengths, window, stride, padding, dilation, groups, has_bias = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x, weight, bias = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((n, c, *lengths), (c_out, c // groups, *(window,) * len(lengths)), (c_out,))
    )
    return [x, weight, bias if has_bias else None, stride, padding, dilation, groups]
