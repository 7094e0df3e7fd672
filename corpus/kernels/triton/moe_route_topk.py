"""
---
slug: moe-route-topk
title: Routing of tokens to experts, top-k with weights, counts and places in expert order
op: moe-routing
language: triton
techniques: [kernel-fusion, register-caching, parallel-scan]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[40, 16, 2], [37, 20, 3], [5, 7, 4], [70, 3, 2]]
  bench: [131072, 256, 8]
check_params: {tile: 128, programs: 6, scan_from: 4}
sources:
  - title: "Shazeer et al.: Outrageously large neural networks, the sparsely-gated MoE layer"
    url: https://arxiv.org/abs/1701.06538
    licence: proprietary
  - title: "Gale et al.: MegaBlocks, efficient sparse training with mixture-of-experts"
    url: https://arxiv.org/abs/2211.15841
    licence: proprietary
  - title: "Triton: triton.language.gather"
    url: https://triton-lang.org/main/python-api/generated/triton.language.gather.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 131072x256x8
  dtype: bfloat16
  baseline: eager
  baseline_ms: 2.684
  measured_ms: 0.09152
  speedup: 29.33
  floor_fraction: 0.2049
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 131072x256x8
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 2.771
  measured_ms: 0.09152
  speedup: 30.28
  floor_fraction: 0.2049
---

For each token the k experts of the largest logits, their softmax weights scaled to a sum of 1, and
where each (token, choice) stands when all of them are sorted by expert, tokens of one expert in
order: what a grouped product needs. PyTorch runs a softmax, a top-k, a sum, a division, a
histogram and a stable sort, a dozen launches with as many trips through memory.

Two or three launches here. In the first a program walks over a stretch of tokens, with several
rows of logits in registers at a time. A logit and the number of its expert make one integer of the
same order, so that one integer maximum finds both, and equal logits go to the lower expert. Logits
of 16 bits leave room for the number in 32 bits, which halves the work.

The work is instructions on integers, not memory: k maxima over all experts, each with a comparison
and a selection to take the winner out, are three dozen for every logit. So every eight neighbours,
which one thread holds, are sorted first. Then a maximum looks only at the first of each eight, and
taking the winner out moves up what follows. Weights scaled to a sum of 1 need no sum over all
experts: it cancels.

A choice's rank among those of its expert is counted in bits: a word for each expert has a bit for
each token of the tile that chose it, and the ones below the token's own bit are before it. A
running sum over tokens and experts would cost as much as the choice itself.

The last launch adds the choices of lower experts, and of earlier stretches, to that. Where there
are many stretches, their counts are summed up by a small launch before it. No atomics: the order is
that of a stable sort at every run.

With some hundred tokens all of it is launch overhead. The maxima are found one after another: for
a k of dozens a selection of the k-th value (`topk-rows-select`) does less.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "tile": [1024, 2048],
    "programs": [1056, 2112, 4224],
    "scan_from": [64],
    "num_warps": [1, 2],
}

# Lower bits that are all equal in float32 values from these dtypes: they hold an expert's number.
IDLE_BITS = {torch.bfloat16: 16, torch.float16: 13, torch.float32: 0}
# Numbers of experts fit in 13 bits, and a row in the registers of a program.
MAX_EXPERTS, MAX_K = 4096, 64
# A tile's tokens are the lower 16 bits of a word, and a stretch's are counted in 15 bits.
MAX_TILE_TOKENS, MAX_STRETCH = 16, 32767
# Choices that the last launch places at a time; experts and stretches that one program sums up.
PLACE_BLOCK, SCAN_EXPERTS, SCAN_STRETCHES = 1024, 2, 2048


@triton.jit
def _packed(x, expert, IDLE: tl.constexpr):
    """An integer of the order of `x`, of equal ones the lower expert the larger; NaN is the
    largest."""
    # Adding 0 makes -0 into 0, and on the GPU every NaN into one whose sign is clear.
    bits = (x + 0.0).to(tl.int32, bitcast=True)
    sign = bits >> 31
    if IDLE == 0:
        key = bits ^ (sign & 0x7FFFFFFF)
        packed = (key.to(tl.int64) << 32) | (0x7FFFFFFF - expert).to(tl.int64)
    else:
        low: tl.constexpr = (1 << IDLE) - 1
        packed = (bits ^ (sign & (0x7FFFFFFF - low))) | (low - expert)
    return packed


@triton.jit
def _value(packed, IDLE: tl.constexpr):
    """The float32 value in a packed integer."""
    key = (packed >> 32).to(tl.int32) if IDLE == 0 else packed & ~((1 << IDLE) - 1)
    bits = key ^ ((key >> 31) & (0x80000000 - (1 << IDLE)))
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _expert(packed, IDLE: tl.constexpr):
    """The expert in a packed integer."""
    low: tl.constexpr = (1 << IDLE) - 1 if IDLE else 0x7FFFFFFF
    return (low - (packed & low)).to(tl.int32)


@triton.jit
def _in_order(a, b):
    return tl.maximum(a, b), tl.minimum(a, b)


@triton.jit
def _sorted_eights(packed, BLOCK_T: tl.constexpr, GROUPS: tl.constexpr):
    """Eight tensors [BLOCK_T, GROUPS], the first the largest: each eight neighbours in falling
    order. They are registers of one thread, so that it takes no exchange."""
    # Batcher's network of 19 comparisons.
    left, right = tl.split(tl.reshape(packed, (BLOCK_T, GROUPS, 2, 2, 2)))
    left_left, left_right = tl.split(left)
    right_left, right_right = tl.split(right)
    a, b = tl.split(left_left)
    c, d = tl.split(left_right)
    e, f = tl.split(right_left)
    g, h = tl.split(right_right)
    a, b = _in_order(a, b)
    c, d = _in_order(c, d)
    e, f = _in_order(e, f)
    g, h = _in_order(g, h)
    a, c = _in_order(a, c)
    b, d = _in_order(b, d)
    e, g = _in_order(e, g)
    f, h = _in_order(f, h)
    b, c = _in_order(b, c)
    f, g = _in_order(f, g)
    a, e = _in_order(a, e)
    b, f = _in_order(b, f)
    c, g = _in_order(c, g)
    d, h = _in_order(d, h)
    c, e = _in_order(c, e)
    d, f = _in_order(d, f)
    b, c = _in_order(b, c)
    d, e = _in_order(d, e)
    f, g = _in_order(f, g)
    return a, b, c, d, e, f, g, h


@triton.jit
def _ones(bits):
    """The number of ones in each int32 that is not negative."""
    bits = bits - ((bits >> 1) & 0x55555555)
    bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F
    return (bits * 0x01010101) >> 24


@triton.jit
def _route_kernel(
    logits_ptr, weights_ptr, experts_ptr, ranks_ptr, counts_ptr,
    T, E, span, stride_t, stride_e,
    K: tl.constexpr, RENORMALISE: tl.constexpr, IDLE: tl.constexpr, LOWEST: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Weights and experts of a stretch of tokens, each choice's rank among the stretch's choices of
    the same expert, and how often the stretch chose each expert."""
    stretch = tl.program_id(0)
    expert = tl.arange(0, BLOCK_E)[None, :]
    choice = tl.arange(0, BLOCK_K)[None, :]
    # A token of the tile is a bit.
    row = tl.arange(0, BLOCK_T)[:, None]
    bit = tl.full((BLOCK_T, 1), 1, tl.int32) << row
    counts = tl.zeros((BLOCK_E,), dtype=tl.int32)
    end = tl.minimum(stretch * span + span, T)
    for start in tl.range(stretch * span, end, BLOCK_T):
        # Index times stride is taken in int64: it passes 2**31 on tensors of a few GB.
        token = (start + row).to(tl.int64)
        at = logits_ptr + token * stride_t + expert.to(tl.int64) * stride_e
        x = tl.load(at, mask=(token < end) & (expert < E), other=float("-inf")).to(tl.float32)
        # Experts that are not there come after all others: -inf, and a larger number.
        packed = _packed(x, expert, IDLE)
        a, b, c, d, e, f, g, h = _sorted_eights(packed, BLOCK_T, BLOCK_E // 8)
        chosen = tl.zeros((BLOCK_T, BLOCK_K), dtype=packed.dtype)
        for j in tl.static_range(K):
            best = tl.max(a, axis=1, keep_dims=True)
            if j == 0:
                most = best
            chosen = tl.where(choice == j, best, chosen)
            # The list that begins with it moves up; what K choices cannot reach need not.
            first = a == best
            a = tl.where(first, b, a)
            if j < K - 2:
                b = tl.where(first, c, b)
            if j < K - 3:
                c = tl.where(first, d, c)
            if j < K - 4:
                d = tl.where(first, e, d)
            if j < K - 5:
                e = tl.where(first, f, e)
            if j < K - 6:
                f = tl.where(first, g, f)
            if j < K - 7:
                g = tl.where(first, h, g)
            if j < K - 8:
                h = tl.where(first, LOWEST, h)
        least = best
        largest = _value(most, IDLE)
        value = _value(chosen, IDLE)
        number = tl.where(choice < K, _expert(chosen, IDLE), 0)
        weight = tl.where(choice < K, tl.exp(value - largest), 0.0)
        if RENORMALISE:
            total = tl.sum(weight, axis=1, keep_dims=True)
        else:
            total = tl.sum(tl.exp(x - largest), axis=1, keep_dims=True)
        mask = (token < end) & (choice < K)
        out = token * K + choice
        tl.store(weights_ptr + out, weight / total, mask=mask)
        tl.store(experts_ptr + out, number, mask=mask)
        # An expert's bits are its tokens of the tile; those below a token's bit are before it.
        there = tl.where(token < end, bit, 0)
        tokens = tl.sum(tl.where(packed >= least, there, 0), axis=0)
        # 16 bits for the tokens of a tile, and 15 for those of the tiles before it.
        both = tl.gather(tokens | (counts << 16), tl.reshape(number, (BLOCK_T * BLOCK_K,)), 0)
        both = tl.reshape(both, (BLOCK_T, BLOCK_K))
        tl.store(ranks_ptr + out, _ones(both & (bit - 1)) + (both >> 16), mask=mask)
        counts += _ones(tokens)
    e = tl.arange(0, BLOCK_E)
    tl.store(counts_ptr + stretch.to(tl.int64) * E + e, counts, mask=e < E)


@triton.jit
def _scan_kernel(
    stretch_counts_ptr, counts_ptr, E, stretches, BLOCK_E: tl.constexpr, BLOCK_S: tl.constexpr
):
    """Replace the counts of each stretch by the sums over the stretches before it."""
    e = (tl.program_id(0) * BLOCK_E + tl.arange(0, BLOCK_E))[None, :]
    total = tl.zeros((1, BLOCK_E), dtype=tl.int32)
    for start in tl.range(0, stretches, BLOCK_S):
        s = (start + tl.arange(0, BLOCK_S))[:, None]
        mask = (s < stretches) & (e < E)
        counts = tl.load(stretch_counts_ptr + s * E + e, mask=mask, other=0)
        before = tl.cumsum(counts, axis=0) - counts + total
        tl.store(stretch_counts_ptr + s * E + e, before, mask=mask)
        total += tl.sum(counts, axis=0, keep_dims=True)
    tl.store(counts_ptr + e, total, mask=e < E)


@triton.jit
def _place_kernel(
    experts_ptr, places_ptr, stretch_counts_ptr, counts_ptr, choices, E, stretches, span,
    SCANNED: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Turn the ranks in `places` into places: add the choices of lower experts and of earlier
    stretches."""
    stretch = tl.program_id(0)
    e = tl.arange(0, BLOCK_E)
    if SCANNED:
        counts = tl.load(counts_ptr + e, mask=e < E, other=0)
        before = tl.load(stretch_counts_ptr + stretch * E + e, mask=e < E, other=0)
    else:
        earlier = tl.zeros((BLOCK_S, BLOCK_E), dtype=tl.int32)
        total = tl.zeros((BLOCK_S, BLOCK_E), dtype=tl.int32)
        for start in tl.range(0, stretches, BLOCK_S):
            s = (start + tl.arange(0, BLOCK_S))[:, None]
            at = stretch_counts_ptr + s * E + e[None, :]
            part = tl.load(at, mask=(s < stretches) & (e < E)[None, :], other=0)
            total += part
            earlier += tl.where(s < stretch, part, 0)
        counts = tl.sum(total, axis=0)
        before = tl.sum(earlier, axis=0)
        tl.store(counts_ptr + e, counts, mask=e < tl.where(stretch == 0, E, 0))
    base = tl.cumsum(counts, axis=0) - counts + before
    first = stretch.to(tl.int64) * span
    end = tl.minimum(first + span, choices)
    for start in tl.range(first, end, BLOCK):
        i = start + tl.arange(0, BLOCK)
        expert = tl.load(experts_ptr + i, mask=i < end, other=0)
        rank = tl.load(places_ptr + i, mask=i < end, other=0)
        tl.store(places_ptr + i, rank + tl.gather(base, expert, 0), mask=i < end)


def kernel_function(
    logits: torch.Tensor,
    k: int,
    renormalise: bool = True,
    tile: int = 1024,
    programs: int = 2112,
    scan_from: int = 64,
    num_warps: int = 1,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Route each of T tokens to `k` of E experts by `logits` [T, E], any strides.

    Returns weights float32 [T, k], experts int32 [T, k], both in falling order of the logits (of
    equal ones the lower expert first); counts int32 [E], how often each expert was chosen; and
    places int32 [T, k]: `order[places.flatten()] = arange(T * k)` is the stable sort of the choices
    by expert. The softmax is over all experts, its weights divided by their sum over the chosen
    ones if `renormalise`. Deterministic. E is at most 4096 and k at most 64. With `scan_from`
    stretches or more, their counts are summed up by a launch of its own.
    """
    if logits.ndim != 2 or logits.dtype not in IDLE_BITS:
        raise ValueError(f"logits must be floats [T, E], not {logits.dtype} {list(logits.shape)}")
    t, e = logits.shape
    if not 0 < k <= min(e, MAX_K) or e > MAX_EXPERTS:
        raise ValueError(f"{e} experts and k = {k}: want at most {MAX_EXPERTS}, k to {MAX_K} or E")
    if t * k >= 2**31:
        raise ValueError(f"{t} tokens of {k} choices pass 2**31: route them in parts")
    weights = torch.empty((t, k), dtype=torch.float32, device=logits.device)
    experts = torch.empty((t, k), dtype=torch.int32, device=logits.device)
    places = torch.empty_like(experts)
    if t == 0:
        counts = torch.zeros(e, dtype=torch.int32, device=logits.device)
        return weights, experts, counts, places
    counts = torch.empty(e, dtype=torch.int32, device=logits.device)
    block_e = max(8, triton.next_power_of_2(e))
    block_t = max(1, min(tile // block_e, MAX_TILE_TOKENS, triton.next_power_of_2(t)))
    span = triton.cdiv(triton.cdiv(t, programs), block_t) * block_t
    span = min(span, MAX_STRETCH // block_t * block_t)
    stretches = triton.cdiv(t, span)
    stretch_counts = torch.empty((stretches, e), dtype=torch.int32, device=logits.device)
    idle = IDLE_BITS[logits.dtype]
    _route_kernel[(stretches,)](
        logits, weights, experts, places, stretch_counts, t, e, span, *logits.stride(),
        K=k, RENORMALISE=renormalise, IDLE=idle, LOWEST=-(2**31) if idle else -(2**63),
        BLOCK_T=block_t, BLOCK_E=block_e, BLOCK_K=triton.next_power_of_2(k), num_warps=num_warps,
    )  # fmt: skip
    scanned = stretches >= scan_from
    if scanned:
        _scan_kernel[(triton.cdiv(e, SCAN_EXPERTS),)](
            stretch_counts, counts, e, stretches,
            BLOCK_E=SCAN_EXPERTS, BLOCK_S=min(SCAN_STRETCHES, triton.next_power_of_2(stretches)),
            num_warps=8,
        )  # fmt: skip
    _place_kernel[(stretches,)](
        experts, places, stretch_counts, counts, t * k, e, stretches, span * k,
        SCANNED=scanned, BLOCK_E=block_e, BLOCK_S=max(1, 4096 // block_e), BLOCK=PLACE_BLOCK,
        num_warps=4,
    )  # fmt: skip
    return weights, experts, counts, places


def reference(
    logits: torch.Tensor, k: int, renormalise: bool = True
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    probabilities = torch.softmax(logits.float(), dim=-1)
    # Of equal logits PyTorch's topk takes any; a stable sort takes the first.
    experts = torch.sort(logits, dim=-1, descending=True, stable=True).indices[:, :k]
    weights = probabilities.gather(1, experts)
    if renormalise:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    chosen = experts.flatten()
    counts = torch.bincount(chosen, minlength=logits.shape[1])
    order = torch.argsort(chosen, stable=True)
    places = torch.empty_like(order)
    places[order] = torch.arange(len(order), device=order.device)
    places = places.view(experts.shape)
    return weights, experts.to(torch.int32), counts.to(torch.int32), places.to(torch.int32)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [tokens, experts, k]; some experts are more popular than others."""
    t, e, k = size
    generator = torch.Generator(device=device).manual_seed(seed)
    logits = torch.randn((t, e), device=device, generator=generator)
    popularity = torch.randn(e, device=device, generator=generator)
    return [(logits + 0.5 * popularity).to(dtype), k]
