"""
---
slug: dropout-add-seeded
title: Dropout and residual addition, the mask computed again in the backward pass
op: dropout
language: triton
techniques: [recomputation]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: dropout-add-plain
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
  baseline: dropout-add-plain
  baseline_ms: 0.1916
  measured_ms: 0.1604
  speedup: 1.195
  floor_fraction: 0.9782
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 8192x8192
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.5602
  measured_ms: 0.1604
  speedup: 3.493
  floor_fraction: 0.9782
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 8192x8192
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.327
  measured_ms: 0.1604
  speedup: 2.039
  floor_fraction: 0.9782
---

Dropout of a layer's output and the addition to the residual, forward and backward. The backward
pass must drop the same elements. A stored mask is a byte an element, written, read, and held in
memory from one pass to the other. Here the mask is a function of the seed and the element's number
(Philox), made in registers in both passes: 10 bytes an element in bfloat16, where a stored mask
takes 12, and nothing is saved for the backward pass but the seed. It does not depend on the block
size or the GPU.

Philox with ten rounds costs some 60 instructions, too many for every element at this bandwidth. One
call gives four words, `tl.join` deals their eight halves out to eight elements, and 16 bits decide:
the probability is a multiple of 1 / 65536, and the scale fits the multiple, so that the mean is
exact.

Take a seed for each step and a number `stream` for each layer. PyTorch's own dropout keeps a mask
as well; its random numbers are others. Where the mask itself is needed elsewhere, store it.
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
def _dropout_kernel(
    x_ptr, residual_ptr, out_ptr, n, seed, stream, dropped, scale,
    SEED_IN_MEMORY: tl.constexpr, ADD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    key = tl.load(seed) if SEED_IN_MEMORY else seed
    group = pid * (BLOCK // SHARING) + tl.arange(0, BLOCK // SHARING)
    random = _random_halves(key, stream, group).to(tl.int32)
    out = tl.where(random >= dropped, x * scale, 0.0)
    if ADD:
        out += tl.load(residual_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=mask)


def _threshold(p: float) -> tuple[int, float]:
    """Of 2**16 random numbers how many drop an element, and the factor of what is kept: by it the
    mean is exact, though `p` is not."""
    if not 0 <= p <= 1:
        raise ValueError(f"p is a probability, not {p}")
    dropped = round(p * 2**16)
    return dropped, 2**16 / (2**16 - dropped) if dropped < 2**16 else 0.0


def dropout_add(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    seed: int | torch.Tensor,
    p: float = 0.1,
    stream: int = 0,
    out_dtype: torch.dtype | None = None,
    block: int = 2048,
    num_warps: int = 4,
) -> torch.Tensor:
    """residual + dropout(x), contiguous, in `out_dtype` (the residual's if None, or `x`'s).

    Elements of `x`, any shape, are zero with probability `p`, the others scaled by 1 / (1 - p). The
    gradient by `x` is this function of the output's gradient, with the same seed, `stream` and `p`,
    without a residual; that by `residual` is the output's gradient.

    `seed` is a 64-bit integer, or an int64 tensor of one element on the GPU, which a CUDA graph
    reads anew at each replay. `stream`, in 32 bits, makes other random numbers of the same seed.
    """
    if residual is not None and residual.shape != x.shape:
        raise ValueError(f"residual {list(residual.shape)} and x {list(x.shape)} must be alike")
    dropped, scale = _threshold(p)
    x = x.contiguous()
    added = x if residual is None else residual.contiguous()
    out = torch.empty(x.shape, dtype=out_dtype or added.dtype, device=x.device)
    if x.numel():
        _dropout_kernel[(triton.cdiv(x.numel(), block),)](
            x, added, out, x.numel(), seed, stream, dropped, scale,
            SEED_IN_MEMORY=isinstance(seed, torch.Tensor), ADD=residual is not None,
            BLOCK=block, num_warps=num_warps,
        )  # fmt: skip
    return out


def kernel_function(
    x: torch.Tensor,
    residual: torch.Tensor,
    grad: torch.Tensor,
    seed: int | torch.Tensor,
    p: float = 0.1,
    stream: int = 0,
    block: int = 2048,
    num_warps: int = 4,
) -> tuple[torch.Tensor, torch.Tensor]:
    """residual + dropout(x), and the gradient by `x` where `grad` is that of the output, as a step
    of training computes them one after the other: see `dropout_add`."""
    if grad.shape != x.shape:
        raise ValueError(f"grad {list(grad.shape)} and x {list(x.shape)} must be alike")
    out = dropout_add(x, residual, seed, p, stream, None, block, num_warps)
    return out, dropout_add(grad, None, seed, p, stream, x.dtype, block, num_warps)


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
