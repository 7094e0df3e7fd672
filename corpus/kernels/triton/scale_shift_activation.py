"""
---
slug: scale-shift-activation
title: Activation of a scaled and shifted tensor plus a residual, vectors along any dimension
op: activation
language: triton
techniques: [kernel-fusion, vectorized-access, coalesced-access]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[4, 64, 32], [3, 10, 21], [7, 100], [5, 33, 1], [1, 520, 3]]
  bench: [64, 256, 16384]
check_params: {tile: 256}
sources:
  - title: "PyTorch: torch.nn, non-linear activations"
    url: https://docs.pytorch.org/docs/stable/nn.html#non-linear-activations-weighted-sum-nonlinearity
    licence: BSD-3-Clause
  - title: "Hendrycks, Gimpel: Gaussian Error Linear Units"
    url: https://arxiv.org/abs/1606.08415
    licence: arXiv-nonexclusive
  - title: "Misra: Mish"
    url: https://arxiv.org/abs/1908.08681
    licence: arXiv-nonexclusive
  - title: "Abramowitz, Stegun: Handbook of Mathematical Functions, 7.1.26"
    url: https://personal.math.ubc.ca/~cbm/aands/page_299.htm
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x256x16384
  dtype: bfloat16
  baseline: eager
  baseline_ms: 2.136
  measured_ms: 0.3677
  speedup: 5.809
  floor_fraction: 1.03
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x256x16384
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.4431
  measured_ms: 0.3677
  speedup: 1.205
  floor_fraction: 1.03
---

activation(x * scale + shift) + residual, where scale and shift are vectors along one dimension of
x: bias and activation after a projection, or what is left of a batch norm after a convolution. As
separate operations each step reads and writes the whole tensor; here x and the residual are read
once, 16 bytes a thread, and the result is rounded and written once.

The tensor is seen as [outer, C, inner] with the vectors along C. Where C is the last dimension, a
tile is a block of its columns by some rows, and the vectors are loaded once for the block; else it
is a block of one inner stretch, or several short ones, for which a vector's element is one number a
row of the tile. Neither needs a division an element.

An exact GELU through `tl.erf` takes more time for its arithmetic than for its memory. The five-term
series of Abramowitz and Stegun for erfc, 1.5e-7 off at most, costs about half the instructions; and
for negative values nothing cancels, as 1 + erf(x) does.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {"tile": [1024, 2048, 4096, 8192], "num_warps": [2, 4, 8]}

KINDS = (
    "none", "relu", "leaky-relu", "gelu", "gelu-tanh", "silu", "mish", "sigmoid", "tanh", "elu",
    "softplus", "hardswish", "hardtanh",
)  # fmt: skip
# What `slope` is where it is not given: of leaky-relu the slope, of elu the scale.
SLOPES = {"leaky-relu": 0.01, "elu": 1.0}


@triton.jit
def _tanh(x):
    """2 sigmoid(2x) - 1 loses digits near zero: there the first terms of the series."""
    square = x * x
    near = x * (1.0 - square * (0.33333333 - square * (0.13333333 - square * 0.05396825)))
    return tl.where(tl.abs(x) < 0.1, near, 2.0 * tl.sigmoid(2.0 * x) - 1.0)


@triton.jit
def _gelu(x):
    """max(x, 0) - |x| / 2 * erfc(|x| / sqrt(2)), the last by Abramowitz and Stegun, 7.1.26: within
    1.5e-7 for half the instructions of tl.erf. rsqrt squared is a reciprocal without a division."""
    size = tl.abs(x)
    root = tl.rsqrt(1.0 + 0.23164189 * size)
    t = root * root
    series = -0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))
    tail = t * (0.254829592 + t * series) * tl.exp2(x * x * -0.72134752)
    # All tails are zero from 20 on; infinity times zero is not.
    return 0.5 * (x + size) - 0.5 * tl.minimum(size, 20.0) * tail


@triton.jit
def _activated(x, slope, KIND: tl.constexpr):
    """Of float32 values. NaN passes through."""
    if KIND == "relu":
        y = tl.where(x < 0.0, 0.0, x)
    elif KIND == "leaky-relu":
        y = tl.where(x < 0.0, x * slope, x)
    elif KIND == "gelu":
        y = _gelu(x)
    elif KIND == "gelu-tanh":
        y = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    elif KIND == "silu":
        y = x * tl.sigmoid(x)
    elif KIND == "mish":
        # x tanh(log(1 + n)) = x (n^2 + 2n) / (n^2 + 2n + 2) with n = exp(x).
        n = tl.exp(tl.minimum(x, 20.0))
        m = n * (n + 2.0)
        y = tl.where(x > 20.0, x, x * m / (m + 2.0))
    elif KIND == "sigmoid":
        y = tl.sigmoid(x)
    elif KIND == "tanh":
        y = _tanh(x)
    elif KIND == "elu":
        near = x * (1.0 + x * (0.5 + x * (0.16666667 + x * 0.04166667)))
        low = tl.where(x > -0.02, near, tl.exp(x) - 1.0)
        y = tl.where(x > 0.0, x, slope * low)
    elif KIND == "softplus":
        n = tl.exp(tl.minimum(x, 20.0))
        near = n * (1.0 - n * (0.5 - n * (0.33333333 - n * 0.25)))
        y = tl.where(x > 20.0, x, tl.where(n < 0.02, near, tl.log(1.0 + n)))
    elif KIND == "hardswish":
        y = x * tl.where(x < -3.0, 0.0, tl.where(x > 3.0, 1.0, x / 6.0 + 0.5))
    elif KIND == "hardtanh":
        y = tl.where(x < -1.0, -1.0, tl.where(x > 1.0, 1.0, x))
    else:
        y = x
    return y


@triton.jit
def _activation_kernel(
    x_ptr, scale_ptr, shift_ptr, residual_ptr, out_ptr, rows, length, channels, slope,
    KIND: tl.constexpr, ALONG: tl.constexpr, HAS_SCALE: tl.constexpr, HAS_SHIFT: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Rows of `length`; the vectors lie along them (`ALONG`), or have one element for each row."""
    columns = tl.cdiv(length, BLOCK)
    row = (tl.program_id(0) // columns) * ROWS + tl.arange(0, ROWS)[:, None]
    lane = (tl.program_id(0) % columns) * BLOCK + tl.arange(0, BLOCK)[None, :]
    mask = (row < rows) & (lane < length)
    # Index times size is taken in int64: it passes 2**31 on tensors of a few GB.
    place = row.to(tl.int64) * length + lane
    x = tl.load(x_ptr + place, mask=mask, other=0.0).to(tl.float32)
    if HAS_RESIDUAL:
        residual = tl.load(residual_ptr + place, mask=mask, other=0.0).to(tl.float32)
    if ALONG:
        channel, known = lane, lane < length
    else:
        channel, known = row % channels, row < rows
    if HAS_SCALE:
        x *= tl.load(scale_ptr + channel, mask=known, other=0.0).to(tl.float32)
    if HAS_SHIFT:
        x += tl.load(shift_ptr + channel, mask=known, other=0.0).to(tl.float32)
    y = _activated(x, slope, KIND)
    if HAS_RESIDUAL:
        y += residual
    tl.store(out_ptr + place, y.to(out_ptr.dtype.element_ty), mask=mask)


def kernel_function(
    x: torch.Tensor,
    kind: str = "gelu",
    scale: torch.Tensor | None = None,
    shift: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    dim: int = 1,
    slope: float | None = None,
    out_dtype: torch.dtype | None = None,
    tile: int = 2048,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return `kind`(`x` * `scale` + `shift`) + `residual`, contiguous, in `out_dtype` (`x`'s if
    None). `scale` and `shift` [C] lie along dimension `dim` of `x`, `residual` broadcasts to `x`'s
    shape; each may be missing.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is one of {', '.join(KINDS)}, not '{kind}'")
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    if not out.numel():
        return out
    given = [each for each in (scale, shift) if each is not None]
    if given and not -x.dim() <= dim < x.dim():
        raise ValueError(f"there is no dimension {dim} in a tensor of {x.dim()} dimensions")
    if any(each.shape != (x.shape[dim],) for each in given):
        raise ValueError(f"scale and shift must be [{x.shape[dim]}], as dimension {dim} of x")
    inner = math.prod(x.shape[dim % x.dim() + 1 :]) if given else x.numel()
    channels = x.shape[dim] if given else 1
    along = inner == 1
    length = channels if along else inner
    rows = x.numel() // length
    block = min(tile, triton.next_power_of_2(length))
    high = max(1, min(tile // block, triton.next_power_of_2(rows)))
    _activation_kernel[(triton.cdiv(rows, high) * triton.cdiv(length, block),)](
        x.contiguous(),
        None if scale is None else scale.contiguous(),
        None if shift is None else shift.contiguous(),
        None if residual is None else residual.expand(x.shape).contiguous(),
        out, rows, length, channels, SLOPES.get(kind, 0.0) if slope is None else slope,
        KIND=kind, ALONG=along, HAS_SCALE=scale is not None, HAS_SHIFT=shift is not None,
        HAS_RESIDUAL=residual is not None, ROWS=high, BLOCK=block, num_warps=num_warps,
    )  # fmt: skip
    return out


def reference(
    x: torch.Tensor,
    kind: str = "gelu",
    scale: torch.Tensor | None = None,
    shift: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    dim: int = 1,
    slope: float | None = None,
) -> torch.Tensor:
    functional = torch.nn.functional
    slope = SLOPES.get(kind, 0.0) if slope is None else slope
    kinds = {
        "none": lambda y: y, "relu": functional.relu, "gelu": functional.gelu,
        "gelu-tanh": lambda y: functional.gelu(y, approximate="tanh"),
        "leaky-relu": lambda y: functional.leaky_relu(y, slope), "silu": functional.silu,
        "mish": functional.mish, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
        "elu": lambda y: functional.elu(y, slope), "softplus": functional.softplus,
        "hardswish": functional.hardswish, "hardtanh": functional.hardtanh,
    }  # fmt: skip
    shape = [1] * x.dim()
    if scale is not None or shift is not None:
        shape[dim] = -1
    y = x if scale is None else x * scale.view(shape)
    y = kinds[kind](y if shift is None else y + shift.view(shape))
    return y if residual is None else y + residual


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [outer, C, inner], or without the last."""
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(size, dtype=dtype, device=device, generator=generator)
    scale, shift = torch.rand((2, size[1]), dtype=dtype, device=device, generator=generator) + 0.5
    residual = torch.randn(size, dtype=dtype, device=device, generator=generator)
    return [x, "gelu", scale, shift - 1, residual]
