"""
---
slug: cast-bf16-stochastic
title: Stochastic rounding of float32 to bfloat16 with random bits from a counter
op: stochastic-rounding
language: triton
techniques: [kernel-fusion, vectorized-access]
architectures: [sm_80]
dtypes: [float32]
sizes:
  check: [[4096], [1000], [3, 7], [1]]
  bench: [134217728]
check_params: {block: 1024}
sources:
  - title: "Salmon et al.: Parallel random numbers, as easy as 1, 2, 3"
    url: https://www.thesalmons.org/john/random123/papers/random123sc11.pdf
    licence: proprietary
  - title: "Gupta et al.: Deep learning with limited numerical precision"
    url: https://arxiv.org/abs/1502.02551
    licence: proprietary
  - title: "Triton: triton.language.randint4x"
    url: https://triton-lang.org/main/python-api/generated/triton.language.randint4x.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: '134217728'
  dtype: float32
  baseline: eager
  baseline_ms: 1.365
  measured_ms: 0.1858
  speedup: 7.347
  floor_fraction: 1.013
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: '134217728'
  dtype: float32
  baseline: torch.compile
  baseline_ms: 0.5113
  measured_ms: 0.1858
  speedup: 2.752
  floor_fraction: 1.013
---

Rounding to the nearest bfloat16 loses every update of a weight that is smaller than half the
spacing, 1/512 to 1/256 of the weight. Stochastic rounding goes up with a probability equal to the
distance from the lower neighbour: the mean is exact, and weights can be kept in bfloat16 without a
float32 copy. A bfloat16 is the upper half of a float32, so it takes 16 random bits: add them to the
float32 as integers and cut off the lower half. The carry goes up in exactly the right share of the
cases.

The random bits are a function of the seed and the element's number (Philox), made in registers:
nothing is stored, and the result is the same for every block size and on every GPU. Philox with ten
rounds costs some 60 instructions; one word an element, as `tl.randint` gives, would make them the
limit, not memory. One call gives four words, `tl.join` deals their eight halves out to eight
elements, and 6 bytes an element remain: a read of 4, a write of 2.

Infinities and zeros stay what they are, NaN becomes the quiet NaN, and finite values above the
largest bfloat16 may become infinite, as when rounded to nearest. The random bits must differ from
tensor to tensor and step to step: take a seed for each step, and for each tensor a number
`stream`. `_round_stochastically` is what to call at the end of a fused optimizer, in place of
`.to(tl.bfloat16)`.
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


@triton.jit
def _round_stochastically(x, random):
    """`x` in float32, `random` in uint32, below 2**16 -> bfloat16."""
    bits = (x.to(tl.uint32, bitcast=True) + random) >> 16
    # The carry must not turn a NaN into a number.
    bits = tl.where(x != x, 0x7FC0, bits)
    return bits.to(tl.uint16).to(tl.bfloat16, bitcast=True)


@triton.jit(do_not_specialize=["seed", "stream"])
def _cast_kernel(
    x_ptr, out_ptr, n, seed, stream, SEED_IN_MEMORY: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    key = tl.load(seed) if SEED_IN_MEMORY else seed
    group = pid * (BLOCK // SHARING) + tl.arange(0, BLOCK // SHARING)
    random = _random_halves(key, stream, group)
    tl.store(out_ptr + at, _round_stochastically(x, random), mask=at < n)


def kernel_function(
    x: torch.Tensor,
    seed: int | torch.Tensor,
    stream: int = 0,
    block: int = 2048,
    num_warps: int = 4,
) -> torch.Tensor:
    """Round `x` in float32, any shape, stochastically -> bfloat16, contiguous.

    `seed` is a 64-bit integer, or an int64 tensor of one element on the GPU, which a CUDA graph
    reads anew at each replay. `stream`, in 32 bits, makes other random numbers of the same seed.
    Elements are numbered in the order of the contiguous tensor.
    """
    if x.dtype != torch.float32:
        raise ValueError(f"x must be float32, not {x.dtype}")
    x = x.contiguous()
    out = torch.empty(x.shape, dtype=torch.bfloat16, device=x.device)
    if x.numel():
        _cast_kernel[(triton.cdiv(x.numel(), block),)](
            x, out, x.numel(), seed, stream,
            SEED_IN_MEMORY=isinstance(seed, torch.Tensor), BLOCK=block, num_warps=num_warps,
        )  # fmt: skip
    return out


def _philox(seed: int, stream: int, counters: torch.Tensor) -> list[torch.Tensor]:
    """The four 32-bit words of Philox with ten rounds at int64 `counters`, each in an int64."""
    low = 0xFFFFFFFF
    c0, c1 = counters & low, counters >> 32
    c2, c3 = torch.full_like(counters, stream & low), torch.zeros_like(counters)
    key0, key1 = seed & low, seed >> 32 & low
    for _ in range(10):
        # Products of 64 bits wrap into the sign, and come back out of it by the masks.
        a, b = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1 = (b >> 32 & low) ^ c1 ^ key0, b & low
        c2, c3 = (a >> 32 & low) ^ c3 ^ key1, a & low
        key0, key1 = (key0 + 0x9E3779B9) & low, (key1 + 0xBB67AE85) & low
    return [c0, c1, c2, c3]


@functools.lru_cache(maxsize=4)
def _halves(seed: int, stream: int, count: int, device: torch.device) -> torch.Tensor:
    """Random 16-bit numbers for `count` elements. Kept, so that eager PyTorch is not timed drawing
    them, which it does faster with a generator of its own."""
    counters = torch.arange(-(-count // SHARING.value), device=device)
    words = torch.stack(_philox(seed, stream, counters), dim=1)
    halves = torch.stack([words & 0xFFFF, words >> 16], dim=2)
    return halves.flatten()[:count].to(torch.int32)


def reference(x: torch.Tensor, seed: int, stream: int = 0) -> torch.Tensor:
    flat = x.float().flatten()
    random = _halves(seed, stream, flat.numel(), flat.device)
    # The float32 whose lower half is 0 is a bfloat16: the conversion is exact.
    rounded = ((flat.view(torch.int32) + random) & -0x10000).view(torch.float32)
    rounded = torch.where(flat.isnan(), flat, rounded)
    return rounded.to(torch.bfloat16).view(x.shape)


def agrees(actual: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> str | None:
    """Every bit is given by the seed; only which NaN is not."""
    same = (actual[0] == expected[0]) | (actual[0].isnan() & expected[0].isnan())
    wrong = int((~same).sum())
    return f"{wrong} of {same.numel()} elements are rounded to another value" if wrong else None


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is the shape of the tensor."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator), 2**40 + seed]
