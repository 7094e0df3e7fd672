"""
---
slug: dropout-add-plain
title: Dropout and residual addition, the mask stored for the backward pass
op: dropout
language: triton
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[4096], [1000], [3, 7], [5, 1]]
  bench: [8192, 8192]
check_params: {block: 1024}
sources:
  - title: "Salmon et al.: Parallel random numbers, as easy as 1, 2, 3"
    url: https://www.thesalmons.org/john/random123/papers/random123sc11.pdf
    licence: proprietary
  - title: "Triton tutorial: low-memory dropout"
    url: https://triton-lang.org/main/getting-started/tutorials/04-low-memory-dropout.html
    licence: MIT
  - title: "PyTorch: torch.nn.functional.dropout"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 8192x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.5603
  measured_ms: 0.1909
  speedup: 2.935
  floor_fraction: 0.8219
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 8192x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.3271
  measured_ms: 0.1909
  speedup: 1.713
  floor_fraction: 0.8219
---

Dropout of a layer's output and the addition to the residual in one kernel, which also stores which
elements were kept, a byte each; the backward pass reads the mask and scales the gradient. In
bfloat16 that is 7 bytes an element forward and 5 backward, and a byte an element held in memory
between them.
"""

import functools

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [1024, 2048, 4096, 8192], "num_warps": [4, 8]}

# Elements that share the four random words of one counter, a half word each.
SHARING = tl.constexpr(8)


@triton.jit
def _random_halves(seed, stream, group):
    """16 random bits for each of the elements 8 * group to 8 * group + 7: `group` is int64 [G], the
    result uint32 [8 * G]. Element e has the half e % 2 (the low one is 0) of word e // 2 % 4."""
    low = group.to(tl.uint32)
    high = (group >> 32).to(tl.uint32)
    zero = low * 0
    w0, w1, w2, w3 = tl.philox(seed, low, high, zero + stream.to(tl.uint32), zero)
    words = tl.join(tl.join(w0, w2), tl.join(w1, w3))  # [G, 2, 2]: word 2 * i + j
    halves = tl.join(words & 0xFFFF, words >> 16)
    return tl.reshape(halves, (SHARING * group.shape[0],))


@triton.jit(do_not_specialize=["seed", "stream", "dropped"])
def _forward_kernel(
    x_ptr, residual_ptr, out_ptr, kept_ptr, n, seed, stream, dropped, scale, BLOCK: tl.constexpr
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + at, mask=mask, other=0.0).to(tl.float32)
    group = pid * (BLOCK // SHARING) + tl.arange(0, BLOCK // SHARING)
    kept = _random_halves(seed, stream, group).to(tl.int32) >= dropped
    out = tl.where(kept, x * scale, 0.0) + residual
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=mask)
    tl.store(kept_ptr + at, kept.to(tl.uint8), mask=mask)


@triton.jit
def _backward_kernel(
    grad_ptr, kept_ptr, dx_ptr, n, scale, BLOCK: tl.constexpr
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    grad = tl.load(grad_ptr + at, mask=mask, other=0.0).to(tl.float32)
    kept = tl.load(kept_ptr + at, mask=mask, other=0)
    dx = tl.where(kept != 0, grad * scale, 0.0)
    tl.store(dx_ptr + at, dx.to(dx_ptr.dtype.element_ty), mask=mask)


def _threshold(p: float) -> tuple[int, float]:
    """Of 2**16 random numbers how many drop an element, and the factor of what is kept: by it the
    mean is exact, though `p` is not."""
    if not 0 <= p <= 1:
        raise ValueError(f"p is a probability, not {p}")
    dropped = round(p * 2**16)
    return dropped, 2**16 / (2**16 - dropped) if dropped < 2**16 else 0.0


def kernel_function(
    x: torch.Tensor,
    residual: torch.Tensor,
    grad: torch.Tensor,
    seed: int,
    p: float = 0.1,
    stream: int = 0,
    block: int = 2048,
    num_warps: int = 4,
) -> tuple[torch.Tensor, torch.Tensor]:
    """residual + dropout(x), and the gradient by `x` where `grad` is that of the output.

    Elements of `x`, any shape, are zero with probability `p`, the others scaled by 1 / (1 - p).
    `seed` is a 64-bit integer; `stream`, in 32 bits, makes other random numbers of the same seed.
    """
    if not x.shape == residual.shape == grad.shape:
        raise ValueError(f"shapes differ: {[list(t.shape) for t in (x, residual, grad)]}")
    dropped, scale = _threshold(p)
    x, residual, grad = x.contiguous(), residual.contiguous(), grad.contiguous()
    out, dx = torch.empty_like(residual), torch.empty_like(x)
    if x.numel():
        kept = torch.empty(x.shape, dtype=torch.uint8, device=x.device)
        grid = (triton.cdiv(x.numel(), block),)
        _forward_kernel[grid](
            x, residual, out, kept, x.numel(), seed, stream, dropped, scale,
            BLOCK=block, num_warps=num_warps,
        )  # fmt: skip
        _backward_kernel[grid](grad, kept, dx, x.numel(), scale, BLOCK=block, num_warps=num_warps)
    return out, dx


@functools.lru_cache(maxsize=4)
def _kept(seed: int, stream: int, count: int, dropped: int, device: torch.device) -> torch.Tensor:
    """Which of `count` elements are kept. The mask is kept too, so that eager PyTorch is not timed
    drawing it, which it does faster with a generator of its own."""
    low = 0xFFFFFFFF
    counters = torch.arange(-(-count // SHARING.value), device=device)
    c0, c1 = counters & low, counters >> 32
    c2, c3 = torch.full_like(counters, stream & low), torch.zeros_like(counters)
    key0, key1 = seed & low, seed >> 32 & low
    for _ in range(10):
        # Products of 64 bits wrap into the sign, and come back out of it by the masks.
        a, b = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1 = (b >> 32 & low) ^ c1 ^ key0, b & low
        c2, c3 = (a >> 32 & low) ^ c3 ^ key1, a & low
        key0, key1 = (key0 + 0x9E3779B9) & low, (key1 + 0xBB67AE85) & low
    words = torch.stack([c0, c1, c2, c3], dim=1)
    halves = torch.stack([words & 0xFFFF, words >> 16], dim=2)
    return halves.flatten()[:count] >= dropped


def reference(
    x: torch.Tensor,
    residual: torch.Tensor,
    grad: torch.Tensor,
    seed: int,
    p: float = 0.1,
    stream: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    dropped, scale = _threshold(p)
    kept = _kept(seed, stream, x.numel(), dropped, x.device).view(x.shape)
    out = residual + torch.where(kept, x * scale, 0)
    return out, torch.where(kept, grad * scale, 0)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is the shape of the tensors."""
    generator = torch.Generator(device=device).manual_seed(seed)
    tensors = [torch.randn(size, dtype=dtype, device=device, generator=generator) for _ in range(3)]
    return [*tensors, 2**40 + seed, 0.25]
