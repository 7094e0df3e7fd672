"""
---
slug: sampling-top-p
title: Sampling of tokens with temperature, top-k and top-p, without a sort of the vocabulary
op: sampling
language: triton
techniques: [register-caching, kernel-fusion, parallel-scan]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 17000], [5, 300], [4, 1000], [6, 37]]
  bench: [512, 128256]
check_params: {held: 64, segment: 16, capacity: 64, block: 8192}
sources:
  - title: "Holtzman et al.: The curious case of neural text degeneration"
    url: https://arxiv.org/abs/1904.09751
    licence: proprietary
  - title: "Alabi and others: Fast k-Selection Algorithms for Graphics Processing Units"
    url: https://doi.org/10.1145/2133803.2345676
    licence: proprietary
  - title: "Milakov, Gimelshein: Online normalizer calculation for softmax"
    url: https://arxiv.org/abs/1805.02867
    licence: arXiv-nonexclusive
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 512x128256
  dtype: bfloat16
  baseline: eager
  baseline_ms: 9.949
  measured_ms: 0.2265
  speedup: 43.92
  floor_fraction: 0.1364
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 512x128256
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 5.234
  measured_ms: 0.2265
  speedup: 23.11
  floor_fraction: 0.1364
---

A token of each row of logits, drawn from softmax(logits / temperature) over the top-k and top-p
ones. The usual way sorts the row, sums up the sorted probabilities and scatters a mask back: a sort
of 128000 values for the few hundred that matter. But both rules keep what reaches some threshold,
and a threshold can be searched for bit by bit: one comparison a value and one sum a bit.

A row of up to `held` logits is read once and stays in registers for all of that. A longer one is
read once too, by as many programs as the GPU holds: they keep the largest logit of each `segment`
neighbours, and their sum of exponentials. The rest is done on these, a few thousand in registers.
The k-th largest of them is at most the k-th largest of the row. For top-p they say how much mass
is below a threshold at most: in a segment that reaches it, each logit below has less than its
weight. Either is a lower bound of the threshold. Only the segments that reach it are read again;
what reaches it of these is written to a list in the row's order, and the exact search is done on
the list in registers. Without top-k and top-p the sums say which segment has the token.

A bound that leaves more than `capacity` logits, as a nearly uniform distribution does, sends the
row to a kernel that searches in memory, two bits a pass. That is right but slower by far. It takes
top-p near 1 without top-k, or a k of thousands.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "held": [16384],
    "segment": [8, 16, 32],
    "capacity": [4096, 8192, 16384],
    "block": [4096],
    "num_warps": [4, 8],
}

# Bits that float32 values from these dtypes have all equal at the lower end.
IDLE_BITS = {torch.bfloat16: 16, torch.float16: 13, torch.float32: 0}
# Segments that one program holds in registers.
MAX_SEGMENTS = 8192
# Logits that are taken at a time from listed segments, and from a row without a list.
COLLECT_BLOCK, ROW_BLOCK = 2048, 8192


@triton.jit
def _ordered(x):
    """float32 as int32 of the same order."""
    # Both zeros are equal.
    bits = tl.where(x == 0.0, 0.0, x).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def _value(key):
    """The float32 that an integer of `_ordered` stands for."""
    return (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def _weight(x, largest, sharpness):
    """exp((x - largest) / temperature); 1 for the largest, which may be infinite."""
    return tl.where(x == largest, 1.0, tl.math.exp2((x - largest) * sharpness))


@triton.jit
def _rules(temperature_ptr, top_k_ptr, top_p_ptr, row, V):
    """log2(e) / temperature, k (V: all), and p; temperature 0 is k = 1."""
    temperature = tl.load(temperature_ptr + row).to(tl.float32)
    greedy = temperature <= 0.0
    k = tl.load(top_k_ptr + row).to(tl.int32)
    k = tl.where((k <= 0) | (k > V), V, k)
    p = tl.load(top_p_ptr + row).to(tl.float32)
    sharpness = 1.4426950408889634 / tl.where(greedy, 1.0, temperature)
    return sharpness, tl.where(greedy, 1, k), tl.where(greedy, 1.0, p)


@triton.jit
def _search(key, mass, wanted, STEPS: tl.constexpr):
    """The largest integer such that keys of at least that have a mass of `wanted`, bit by bit."""
    # The highest bit turns the lowest integer into zero; the others are set where they are clear.
    threshold = tl.full((), -2147483648, tl.int32)
    one = tl.full((), 1, tl.int32)
    for step in tl.range(0, STEPS):
        tried = threshold ^ (one << (31 - step))
        enough = tl.sum(tl.where(key >= tried, mass, 0.0), axis=0) >= wanted
        threshold = tl.where(enough, tried, threshold)
    return threshold


@triton.jit
def _summarise_kernel(
    logits_ptr, temperature_ptr, top_k_ptr, top_p_ptr, tops_ptr, sums_ptr,
    V, blocks, segments, stride_b, stride_v, SEGMENT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The largest logit of each segment of a row, and its sum of exponentials relative to that."""
    # Row times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    row = (tl.program_id(0) // blocks).to(tl.int64)
    block = tl.program_id(0) % blocks
    sharpness, _, _ = _rules(temperature_ptr, top_k_ptr, top_p_ptr, row, V)
    v = block * BLOCK + tl.arange(0, BLOCK)
    at = logits_ptr + row * stride_b + v.to(tl.int64) * stride_v
    x = tl.load(at, mask=v < V, other=float("-inf")).to(tl.float32)
    x = tl.reshape(x, (BLOCK // SEGMENT, SEGMENT))
    top = tl.max(x, axis=1)
    weight = _weight(x, top[:, None], sharpness)
    weight = tl.where(tl.reshape(v, (BLOCK // SEGMENT, SEGMENT)) < V, weight, 0.0)
    s = block * (BLOCK // SEGMENT) + tl.arange(0, BLOCK // SEGMENT)
    tl.store(tops_ptr + row * segments + s, top, mask=s < segments)
    tl.store(sums_ptr + row * segments + s, tl.sum(weight, axis=1), mask=s < segments)


@triton.jit
def _bound_by_mass(top, mass, rest, largest, sharpness, spare, STEPS: tl.constexpr, OTHERS):
    """An integer such that the keys below it have at most a mass of `spare`.

    A segment whose largest key reaches it has at most OTHERS keys below it, which have less than
    its weight each and at most `rest` together.
    """
    key = _ordered(top)
    bound = tl.full((), -2147483648, tl.int32)
    one = tl.full((), 1, tl.int32)
    for step in tl.range(0, STEPS):
        tried = bound ^ (one << (31 - step))
        weight = _weight(_value(tried), largest, sharpness)
        below = tl.where(key >= tried, tl.minimum(rest, OTHERS * weight), mass)
        bound = tl.where(tl.sum(below, axis=0) <= spare, tried, bound)
    return bound


@triton.jit
def _bound_kernel(
    logits_ptr, temperature_ptr, top_k_ptr, top_p_ptr, random_ptr, ids_ptr,
    tops_ptr, sums_ptr, listed_ptr, listed_counts_ptr, bounds_ptr, stats_ptr,
    V, segments, stride_b, stride_v,
    STEPS: tl.constexpr, SEGMENT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """List the segments of a row that reach a lower bound of its threshold; its largest logit and
    sum of exponentials. Sample at once where everything is kept."""
    row = tl.program_id(0).to(tl.int64)
    sharpness, k, p = _rules(temperature_ptr, top_k_ptr, top_p_ptr, row, V)
    i = tl.arange(0, BLOCK)
    top = tl.load(tops_ptr + row * segments + i, mask=i < segments, other=float("-inf"))
    total = tl.load(sums_ptr + row * segments + i, mask=i < segments, other=0.0)
    largest = tl.max(top, axis=0)
    weight = _weight(top, largest, sharpness)
    each = total * weight
    mass = tl.sum(each, axis=0)
    count = segments * 0
    bound = tl.full((), -2147483648, tl.int32)
    if (k >= V) & (p >= 1.0):
        until = tl.cumsum(each, axis=0)
        target = tl.load(random_ptr + row).to(tl.float32) * tl.max(until, axis=0)
        first = tl.min(tl.where((until > target) & (each > 0.0), i, BLOCK), axis=0)
        # Rounding may leave none: then it is the last.
        segment = tl.minimum(first, tl.max(tl.where(each > 0.0, i, 0), axis=0))
        passed = tl.max(tl.where(i < segment, until, 0.0), axis=0)
        offset = tl.arange(0, SEGMENT)
        v = segment * SEGMENT + offset
        at = logits_ptr + row * stride_b + v.to(tl.int64) * stride_v
        x = tl.load(at, mask=v < V, other=float("-inf")).to(tl.float32)
        inner = tl.where(v < V, _weight(x, largest, sharpness), 0.0)
        hit = (passed + tl.cumsum(inner, axis=0) > target) & (inner > 0.0)
        first = tl.min(tl.where(hit, offset, SEGMENT), axis=0)
        last = tl.max(tl.where(inner > 0.0, offset, 0), axis=0)
        tl.store(ids_ptr + row, (segment * SEGMENT + tl.minimum(first, last)).to(tl.int64))
    else:
        if k < V:
            there = (i < segments).to(tl.float32)
            bound = _search(_ordered(top), there, k.to(tl.float32), STEPS)
        else:
            # A bit less may be below it than top-p allows: the sums are rounded.
            spare = (1.0 - p) * mass * 0.999 - 1e-5 * mass
            rest = each - tl.where(i < segments, weight, 0.0)
            bound = _bound_by_mass(
                top, each, rest, largest, sharpness, spare, STEPS, SEGMENT - 1.0
            )  # fmt: skip
        # With p = 0 even the largest integer would do.
        bound = tl.minimum(bound, _ordered(largest))
        reaches = ((_ordered(top) >= bound) & (i < segments)).to(tl.int32)
        count = tl.sum(reaches, axis=0)
        place = tl.cumsum(reaches, axis=0) - 1
        tl.store(listed_ptr + row * segments + place, i, mask=reaches == 1)
    tl.store(listed_counts_ptr + row, count)
    tl.store(bounds_ptr + row, bound)
    tl.store(stats_ptr + row * 2, largest)
    tl.store(stats_ptr + row * 2 + 1, mass)


@triton.jit
def _collect_kernel(
    logits_ptr, listed_ptr, listed_counts_ptr, bounds_ptr, keys_ptr, places_ptr, counts_ptr,
    V, segments, capacity, stride_b, stride_v, SEGMENT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """List the logits of a row that reach its bound, in its order, from the listed segments."""
    row = tl.program_id(0).to(tl.int64)
    listed = tl.load(listed_counts_ptr + row)
    # Each listed segment has a logit that reaches the bound.
    count = listed
    if listed <= capacity:
        bound = tl.load(bounds_ptr + row)
        lane = tl.arange(0, BLOCK)
        count = listed * 0
        for start in tl.range(0, listed * SEGMENT, BLOCK):
            i = start + lane
            there = i < listed * SEGMENT
            segment = tl.load(listed_ptr + row * segments + i // SEGMENT, mask=there, other=0)
            v = segment * SEGMENT + i % SEGMENT
            there = there & (v < V)
            at = logits_ptr + row * stride_b + v.to(tl.int64) * stride_v
            x = tl.load(at, mask=there, other=float("-inf")).to(tl.float32)
            key = _ordered(x)
            reaches = ((key >= bound) & there).to(tl.int32)
            place = count + tl.cumsum(reaches, axis=0) - 1
            mask = (reaches == 1) & (place < capacity)
            tl.store(keys_ptr + row * capacity + place, key, mask=mask)
            tl.store(places_ptr + row * capacity + place, v, mask=mask)
            count += tl.sum(reaches, axis=0)
    tl.store(counts_ptr + row, count)


@triton.jit
def _choose_kernel(
    logits_ptr, temperature_ptr, top_k_ptr, top_p_ptr, random_ptr, ids_ptr,
    keys_ptr, places_ptr, counts_ptr, stats_ptr, V, capacity, stride_b, stride_v,
    WHOLE: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sample from a row's list, or from the whole row, in registers."""
    row = tl.program_id(0).to(tl.int64)
    sharpness, k, p = _rules(temperature_ptr, top_k_ptr, top_p_ptr, row, V)
    i = tl.arange(0, BLOCK)
    count = V if WHOLE else tl.load(counts_ptr + row)
    # Rows that were sampled from before have no list.
    if (count > 0) & (count <= BLOCK):
        valid = i < count
        if WHOLE:
            at = logits_ptr + row * stride_b + i.to(tl.int64) * stride_v
            x = tl.load(at, mask=valid, other=float("-inf")).to(tl.float32)
            key = tl.where(valid, _ordered(x), -2147483648)
            largest = tl.max(x, axis=0)
            weight = tl.where(valid, _weight(x, largest, sharpness), 0.0)
            mass = tl.sum(weight, axis=0)
        else:
            key = tl.load(keys_ptr + row * capacity + i, mask=valid, other=-2147483648)
            largest = tl.load(stats_ptr + row * 2)
            weight = tl.where(valid, _weight(_value(key), largest, sharpness), 0.0)
            mass = tl.load(stats_ptr + row * 2 + 1)
        if k < V:
            kth = _search(key, valid.to(tl.float32), k.to(tl.float32), STEPS)
            weight = tl.where(key >= kth, weight, 0.0)
            mass = tl.sum(weight, axis=0)
        if p < 1.0:
            least = _search(key, weight, p * mass, STEPS)
            weight = tl.where(key >= tl.minimum(least, _ordered(largest)), weight, 0.0)
        until = tl.cumsum(weight, axis=0)
        random = tl.where(tl.load(temperature_ptr + row) <= 0.0, 0.0, tl.load(random_ptr + row))
        target = random.to(tl.float32) * tl.max(until, axis=0)
        first = tl.min(tl.where((until > target) & (weight > 0.0), i, BLOCK), axis=0)
        # Rounding may leave none: then it is the last.
        last = tl.max(tl.where(weight > 0.0, i, 0), axis=0)
        chosen = tl.minimum(first, last)
        if not WHOLE:
            chosen = tl.load(places_ptr + row * capacity + chosen)
        tl.store(ids_ptr + row, chosen.to(tl.int64))


@triton.jit
def _search_row(
    x_row, V, stride_v, largest, sharpness, least, by_count, wanted,
    STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`_search` over a row in memory, two bits a pass: the mass, or the number if `by_count`, of
    keys of at least `least`."""
    lane = tl.arange(0, BLOCK)
    threshold = tl.full((), -2147483648, tl.int64)
    one = tl.full((), 1, tl.int64)
    for step in tl.range(0, (STEPS + 1) // 2):
        unit = one << (30 - 2 * step)
        a, b, c = threshold + unit, threshold + 2 * unit, threshold + 3 * unit
        above_a = tl.zeros((BLOCK,), dtype=tl.float32)
        above_b = tl.zeros((BLOCK,), dtype=tl.float32)
        above_c = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in tl.range(0, V, BLOCK):
            v = start + lane
            at = x_row + v.to(tl.int64) * stride_v
            x = tl.load(at, mask=v < V, other=float("-inf")).to(tl.float32)
            key = _ordered(x)
            mass = tl.where(by_count, 1.0, _weight(x, largest, sharpness))
            mass = tl.where((v < V) & (key >= least), mass, 0.0)
            above_a += tl.where(key >= a.to(tl.int32), mass, 0.0)
            above_b += tl.where(key >= b.to(tl.int32), mass, 0.0)
            above_c += tl.where(key >= c.to(tl.int32), mass, 0.0)
        threshold = tl.where(tl.sum(above_a, axis=0) >= wanted, a, threshold)
        threshold = tl.where(tl.sum(above_b, axis=0) >= wanted, b, threshold)
        threshold = tl.where(tl.sum(above_c, axis=0) >= wanted, c, threshold)
    return threshold.to(tl.int32)


@triton.jit
def _row_sum(x_row, V, stride_v, largest, sharpness, least, BLOCK: tl.constexpr):
    """The mass of keys of at least `least`."""
    total = tl.zeros((), dtype=tl.float32)
    for start in tl.range(0, V, BLOCK):
        v = start + tl.arange(0, BLOCK)
        at = x_row + v.to(tl.int64) * stride_v
        x = tl.load(at, mask=v < V, other=float("-inf")).to(tl.float32)
        kept = (v < V) & (_ordered(x) >= least)
        total += tl.sum(tl.where(kept, _weight(x, largest, sharpness), 0.0), axis=0)
    return total


@triton.jit
def _row_kernel(
    logits_ptr, temperature_ptr, top_k_ptr, top_p_ptr, random_ptr, ids_ptr, counts_ptr, stats_ptr,
    V, capacity, stride_b, stride_v, STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sample from a row whose list is too long, in memory."""
    row = tl.program_id(0).to(tl.int64)
    if tl.load(counts_ptr + row) > capacity:
        sharpness, k, p = _rules(temperature_ptr, top_k_ptr, top_p_ptr, row, V)
        x_row = logits_ptr + row * stride_b
        largest = tl.load(stats_ptr + row * 2)
        mass = tl.load(stats_ptr + row * 2 + 1)
        least = tl.full((), -2147483648, tl.int32)
        if k < V:
            least = _search_row(
                x_row, V, stride_v, largest, sharpness, least, True, k.to(tl.float32),
                STEPS, BLOCK,
            )  # fmt: skip
            mass = _row_sum(x_row, V, stride_v, largest, sharpness, least, BLOCK)
        if p < 1.0:
            by_mass = _search_row(
                x_row, V, stride_v, largest, sharpness, least, False, p * mass, STEPS, BLOCK
            )
            least = tl.maximum(least, tl.minimum(by_mass, _ordered(largest)))
        total = _row_sum(x_row, V, stride_v, largest, sharpness, least, BLOCK)
        random = tl.where(tl.load(temperature_ptr + row) <= 0.0, 0.0, tl.load(random_ptr + row))
        target = random.to(tl.float32) * total
        passed = tl.zeros((), dtype=tl.float32)
        first = V
        last = V * 0
        for start in tl.range(0, V, BLOCK):
            v = start + tl.arange(0, BLOCK)
            at = x_row + v.to(tl.int64) * stride_v
            x = tl.load(at, mask=v < V, other=float("-inf")).to(tl.float32)
            kept = (v < V) & (_ordered(x) >= least)
            weight = tl.where(kept, _weight(x, largest, sharpness), 0.0)
            until = passed + tl.cumsum(weight, axis=0)
            hit = (until > target) & (weight > 0.0)
            first = tl.minimum(first, tl.min(tl.where(hit, v, V), axis=0))
            last = tl.maximum(last, tl.max(tl.where(weight > 0.0, v, 0), axis=0))
            passed += tl.sum(weight, axis=0)
        tl.store(ids_ptr + row, tl.minimum(first, last).to(tl.int64))


def kernel_function(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    random: torch.Tensor,
    held: int = 16384,
    segment: int = 16,
    capacity: int = 8192,
    block: int = 4096,
    num_warps: int = 4,
) -> torch.Tensor:
    """Draw a token of each row of `logits` [B, V], any strides -> int64 [B].

    `temperature` and `top_p` float32, `top_k` int32 and `random` float32, uniform in [0, 1), are
    [B]. Of weights exp(logit / temperature), top-k keeps those of the k largest logits and all that
    equal the k-th (0, or more than V: all are kept). Of these, top-p keeps each whose greater ones
    together have less than p of the kept weight, so that equal ones stay or go together; the
    largest always stays. The token is the first, in the order of the vocabulary, up to which the
    kept weights sum to more than `random` times their sum. Temperature 0 takes the first largest.
    Logits may be -inf, not NaN. Deterministic.
    """
    if logits.ndim != 2 or logits.dtype not in IDLE_BITS or logits.numel() == 0:
        raise ValueError(f"logits must be floats [B, V], not {logits.dtype} {list(logits.shape)}")
    b, v = logits.shape
    rules = (temperature, top_k, top_p, random)
    if any(each.shape != (b,) for each in rules):
        shapes = ", ".join(str(list(each.shape)) for each in rules)
        raise ValueError(f"temperature, top_k, top_p and random must be [{b}], not {shapes}")
    *rules, random = (each.contiguous() for each in rules)
    ids = torch.empty(b, dtype=torch.int64, device=logits.device)
    steps = 32 - IDLE_BITS[logits.dtype]
    if v <= held:
        whole = triton.next_power_of_2(v)
        _choose_kernel[(b,)](
            logits, *rules, random, ids, ids, ids, ids, ids, v, 0, *logits.stride(),
            WHOLE=True, STEPS=steps, BLOCK=whole, num_warps=max(4, min(32, whole // 1024)),
        )  # fmt: skip
        return ids
    segment = max(segment, triton.next_power_of_2(triton.cdiv(v, MAX_SEGMENTS)))
    segments = triton.cdiv(v, segment)
    block = max(block, segment)
    blocks = triton.cdiv(v, block)
    device = logits.device
    tops, sums = (torch.empty((b, segments), dtype=torch.float32, device=device) for _ in range(2))
    listed = torch.empty((b, segments), dtype=torch.int32, device=device)
    listed_counts, bounds, counts = torch.empty((3, b), dtype=torch.int32, device=device)
    stats = torch.empty((b, 2), dtype=torch.float32, device=device)
    keys, places = torch.empty((2, b, capacity), dtype=torch.int32, device=device)
    _summarise_kernel[(b * blocks,)](
        logits, *rules, tops, sums, v, blocks, segments, *logits.stride(),
        SEGMENT=segment, BLOCK=block, num_warps=num_warps,
    )  # fmt: skip
    whole = triton.next_power_of_2(segments)
    _bound_kernel[(b,)](
        logits, *rules, random, ids, tops, sums, listed, listed_counts, bounds, stats,
        v, segments, *logits.stride(),
        STEPS=steps, SEGMENT=segment, BLOCK=whole, num_warps=max(4, min(16, whole // 512)),
    )  # fmt: skip
    _collect_kernel[(b,)](
        logits, listed, listed_counts, bounds, keys, places, counts,
        v, segments, capacity, *logits.stride(),
        SEGMENT=segment, BLOCK=COLLECT_BLOCK, num_warps=8,
    )  # fmt: skip
    _choose_kernel[(b,)](
        logits, *rules, random, ids, keys, places, counts, stats, v, capacity, *logits.stride(),
        WHOLE=False, STEPS=steps, BLOCK=capacity, num_warps=max(4, capacity // 512),
    )  # fmt: skip
    _row_kernel[(b,)](
        logits, *rules, random, ids, counts, stats, v, capacity, *logits.stride(),
        STEPS=steps, BLOCK=ROW_BLOCK, num_warps=16,
    )  # fmt: skip
    return ids


def _kept_weights(
    logits: torch.Tensor, temperature: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor
) -> torch.Tensor:
    """The weights that are sampled from, 0 where a token is not kept."""
    v = logits.shape[1]
    greedy = temperature <= 0
    heat = torch.where(greedy, 1.0, temperature).to(logits.dtype)[:, None]
    k = torch.where((top_k <= 0) | (top_k > v), v, top_k)
    k = torch.where(greedy, 1, k).long()[:, None]
    falling = logits.sort(dim=-1, descending=True).values
    largest = falling[:, :1]
    weights = ((falling - largest) / heat).exp().where(falling != largest, 1.0)
    weights = torch.where(falling >= falling.gather(1, k - 1), weights, 0.0)
    until = weights.cumsum(dim=-1)
    p = torch.where(greedy, 1.0, top_p).to(logits.dtype)[:, None]
    kept = (until - weights < p * until[:, -1:]) & (weights > 0) | (p >= 1) & (weights > 0)
    kept[:, 0] = True
    least = falling.gather(1, kept.sum(dim=-1, keepdim=True) - 1)
    weights = ((logits - largest) / heat).exp().where(logits != largest, 1.0)
    return torch.where(logits >= least, weights, 0.0)


def reference(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    random: torch.Tensor,
) -> torch.Tensor:
    weights = _kept_weights(logits.float(), temperature, top_k, top_p)
    until = weights.cumsum(dim=-1)
    target = torch.where(temperature <= 0, 0.0, random)[:, None] * until[:, -1:]
    ids = torch.searchsorted(until, target, right=True)
    last = weights.shape[1] - 1 - (weights > 0).flip(1).int().argmax(dim=-1, keepdim=True)
    return torch.minimum(ids, last).squeeze(1)


def agrees(actual: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> str | None:
    """Rounding may move a threshold past a token, or a sum past a random number, in a row of some
    hundred; in fewer than 100 rows it must not happen."""
    wrong = int((actual[0] != expected[0]).sum())
    allowed = expected[0].numel() // 100
    return f"{wrong} tokens differ, at most {allowed} may" if wrong > allowed else None


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [rows, vocabulary]; every row has rules of its own. The random numbers are in the
    middle of a token's share of the sum, so that rounding does not decide."""
    b, v = size
    generator = torch.Generator(device=device).manual_seed(seed)
    logits = (torch.randn(size, device=device, generator=generator) * 4).to(dtype)
    row = torch.arange(b, device=device)
    temperature = torch.tensor([0.8, 1.0, 0.6], device=device)[row % 3]
    temperature[4::16] = 0.0
    top_k = torch.tensor([0, 50, 20, 0], dtype=torch.int32, device=device)[row % 4]
    top_p = torch.tensor([0.9, 0.95, 1.0, 0.8, 0.95], device=device)[row % 5]
    weights = _kept_weights(logits.double(), temperature, top_k, top_p)
    shares = weights.cumsum(dim=-1) / weights.sum(dim=-1, keepdim=True)
    drawn = torch.rand((b, 1), dtype=torch.float64, device=device, generator=generator)
    token = torch.searchsorted(shares, drawn, right=True).clamp(max=v - 1)
    share = weights.gather(1, token) / weights.sum(dim=-1, keepdim=True)
    random = shares.gather(1, token) - share / 2
    return [logits, temperature, top_k, top_p, random.squeeze(1).float()]
