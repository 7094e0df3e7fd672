"""
---
slug: sampling-bisected
title: Sampling with temperature, top-k and top-p by bisection on the logit, one program a row
op: sampling
language: triton
techniques: [kernel-fusion, recomputation]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 600], [5, 300], [4, 128], [6, 37]]
  bench: [128, 128256]
check_params: {block: 256}
sources:
  - title: "Holtzman et al.: The curious case of neural text degeneration"
    url: https://arxiv.org/abs/1904.09751
    licence: proprietary
  - title: "Efraimidis, Spirakis: Weighted random sampling with a reservoir"
    url: https://doi.org/10.1016/j.ipl.2005.11.003
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 128x128256
  dtype: bfloat16
  baseline: eager
  baseline_ms: 2.92
  measured_ms: 0.2404
  speedup: 12.15
  floor_fraction: 0.09579
---

Top-k keeps the logits that reach some threshold, and so does top-p, of what top-k left: a number of
logits, or a sum of their weights, has to reach k, or p. That is found by bisection, without a sort:
each pass over the row adds up what reaches the middle. The pass also finds the nearest logits on
both sides of the middle, and the ends of the interval move on to these. So it ends when they meet,
at a logit of the row, and the result is exact: equal logits stay or go together.

Exponentials are computed again in each pass: stored, they would be twice as many bytes as logits of
16 bits. A row of 128000 such logits is 256 KB. One program reads it, once from memory, and then 12
to 20 times from L2. That is simple, and far less work than a sort. It leaves multiprocessors idle
where there are fewer rows than these: `sampling-top-p` spreads a row over all of them, reads it
once or twice, and takes four times the code.

The draw needs no running sum: of weight / noise, noise being exponential, the largest wins with a
probability that is the weight's. Noise is read for the kept logits alone.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block": [4096, 8192, 16384],
    "num_warps": [8, 16, 32],
}


@triton.jit
def _weights(x_ptr, start, V, largest, sharpness, BLOCK: tl.constexpr):
    """A block of a row's logits, and exp((logit - largest) / temperature) of each."""
    v = start + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + v, mask=v < V, other=float("-inf")).to(tl.float32)
    return v, x, tl.math.exp2((x - largest) * sharpness)


@triton.jit
def _threshold(
    x_ptr, V, largest, sharpness, low, wanted, BY_MASS: tl.constexpr, BLOCK: tl.constexpr
):
    """The largest logit, from `low` on, such that logits of at least that have a mass, or a
    number, of `wanted`; `low` where all of them have less."""
    high = largest
    while low < high:
        middle = low + (high - low) * 0.5
        middle = tl.where(middle > low, middle, high)
        amount = tl.zeros((BLOCK,), dtype=tl.float32)
        above = tl.full((BLOCK,), float("inf"), dtype=tl.float32)
        below = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
        # With stages, the next block is copied to shared memory meanwhile.
        for start in tl.range(0, V, BLOCK, num_stages=3):
            _, x, weight = _weights(x_ptr, start, V, largest, sharpness, BLOCK)
            kept = x >= middle
            amount += tl.where(kept, weight if BY_MASS else 1.0, 0.0)
            above = tl.minimum(above, tl.where(kept, x, float("inf")))
            below = tl.maximum(below, tl.where(kept, float("-inf"), x))
        # Both ends move on to logits that there are, so that they meet.
        if tl.sum(amount) >= wanted:
            low = tl.min(above)
        else:
            high = tl.maximum(low, tl.max(below))
    return low


@triton.jit
def _sample_kernel(
    logits_ptr, temperature_ptr, top_k_ptr, top_p_ptr, noise_ptr, ids_ptr, V, BLOCK: tl.constexpr
):
    # Row times length is taken in int64: it passes 2**31 on tensors of a few GB.
    row = tl.program_id(0).to(tl.int64)
    x_ptr = logits_ptr + row * V
    largest = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    for start in tl.range(0, V, BLOCK):
        largest = tl.maximum(largest, _weights(x_ptr, start, V, 0.0, 0.0, BLOCK)[1])
    largest = tl.max(largest)
    temperature = tl.load(temperature_ptr + row)
    sharpness = 1.4426950408889634 / tl.where(temperature > 0.0, temperature, 1.0)
    k = tl.where(temperature > 0.0, tl.load(top_k_ptr + row), 1)
    # Logits that are farther below the largest have a weight of 0 in float32.
    low = tl.where(k == 1, largest, largest - 150.0 / sharpness)
    if (k > 0) & (k < V):
        low = _threshold(x_ptr, V, largest, sharpness, low, k, False, BLOCK)
    p = tl.load(top_p_ptr + row)
    if p < 1.0:
        mass = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in tl.range(0, V, BLOCK):
            _, x, weight = _weights(x_ptr, start, V, largest, sharpness, BLOCK)
            mass += tl.where(x >= low, weight, 0.0)
        low = _threshold(x_ptr, V, largest, sharpness, low, p * tl.sum(mass), True, BLOCK)
    # An exponential race: of weight / noise the largest wins with the weight's probability.
    best = tl.full((BLOCK,), -1.0, dtype=tl.float32)
    place = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in tl.range(0, V, BLOCK):
        v, x, weight = _weights(x_ptr, start, V, largest, sharpness, BLOCK)
        noise = tl.load(noise_ptr + row * V + v, mask=(v < V) & (x >= low), other=1.0)
        ratio = tl.where(x >= low, weight / noise, -1.0)
        place = tl.where(ratio > best, v, place)
        best = tl.maximum(best, ratio)
    won = best == tl.max(best)
    tl.store(ids_ptr + row, tl.min(tl.where(won, place, V)))


def kernel_function(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    noise: torch.Tensor,
    block: int = 8192,
    num_warps: int = 16,
) -> torch.Tensor:
    """Draw a token of each row of `logits` [B, V] -> int64 [B].

    `temperature` and `top_p` float32 and `top_k` int32 are [B], `noise` float32 [B, V] is
    exponential: -log of uniform numbers. Of weights exp(logit / temperature), top-k keeps those of
    the k largest logits and all that equal the k-th (0: all). Of these, top-p keeps each whose
    greater ones together have less than p of the kept weight; the largest stays. A temperature of
    0 takes the largest logit. The token is the one with the largest weight / noise. Logits and
    noise that are not contiguous are copied.
    """
    if noise.shape != logits.shape or not temperature.shape == top_k.shape == top_p.shape:
        raise ValueError(f"logits {list(logits.shape)}, noise and rules do not fit")
    logits, noise = logits.contiguous(), noise.contiguous()
    rules = [rule.contiguous() for rule in (temperature, top_k, top_p)]
    rows, length = logits.shape
    ids = torch.empty(rows, dtype=torch.int64, device=logits.device)
    if rows:
        _sample_kernel[(rows,)](
            logits, *rules, noise, ids, length, BLOCK=block, num_warps=num_warps
        )  # fmt: skip
    return ids


def _kept(
    logits: torch.Tensor, temperature: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor
) -> torch.Tensor:
    """The probabilities of what top-k and top-p keep, not scaled to a sum of 1."""
    length = logits.shape[1]
    greedy = temperature <= 0
    scaled = logits / torch.where(greedy, 1.0, temperature)[:, None]
    k = torch.where((top_k <= 0) | (top_k > length), length, top_k).masked_fill(greedy, 1)
    order = scaled.sort(dim=-1, descending=True).values
    kth = order.gather(1, (k.long() - 1)[:, None])
    scaled = scaled.masked_fill(scaled < kth, float("-inf"))
    order = order.masked_fill(order < kth, float("-inf"))
    # The sum up to a logit, without itself; equal ones stay or go together.
    before = order.softmax(-1).cumsum(-1) - order.softmax(-1)
    kept = torch.where(before < top_p[:, None], order, float("inf"))
    return scaled.masked_fill(scaled < kept.amin(-1, keepdim=True), float("-inf")).softmax(-1)


def reference(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    noise: torch.Tensor,
) -> torch.Tensor:
    return (_kept(logits.float(), temperature, top_k, top_p) / noise).argmax(dim=-1)


def agrees(actual: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> str | None:
    """Rounding may move a threshold past a token, in a row of some hundred; in fewer than 100 rows
    it must not happen."""
    wrong = int((actual[0] != expected[0]).sum())
    allowed = expected[0].numel() // 100
    return f"{wrong} tokens differ, at most {allowed} may" if wrong > allowed else None


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [rows, vocabulary]; every row has rules of its own."""
    generator = torch.Generator(device=device).manual_seed(seed)
    logits = (torch.randn(size, device=device, generator=generator) * 4).to(dtype)
    row = torch.arange(size[0], device=device)
    temperature = torch.tensor([0.8, 1.0, 0.6, 1.2], device=device)[row % 4]
    temperature[4::16] = 0.0
    top_k = torch.tensor([0, 50, 20], dtype=torch.int32, device=device)[row % 3]
    top_p = torch.tensor([0.9, 0.95, 1.0, 0.8, 0.95], device=device)[row % 5]
    noise = torch.empty(size, device=device).exponential_(generator=generator)
    return [logits, temperature, top_k, top_p, noise.clamp(min=1e-10)]
