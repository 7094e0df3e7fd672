"""
---
slug: groupnorm-resident
title: Group and instance norm whose programs exchange their figures, read once or twice
op: group-norm
language: triton
techniques: [register-caching, online-reduction, kernel-fusion]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: groupnorm-plain
sizes:
  check: [[2, 8, 64, 4], [3, 6, 35, 2], [2, 5, 12, 5], [2, 4, 10, 1], [1, 2, 300, 1], [5, 12, 1, 3]]
  bench: [32, 256, 16384, 32]
check_params: {tile: 64}
sources:
  - title: "Wu, He: Group Normalization"
    url: https://arxiv.org/abs/1803.08494
    licence: arXiv-nonexclusive
  - title: "Chan, Golub, LeVeque: Algorithms for Computing the Sample Variance"
    url: https://doi.org/10.1080/00031305.1983.10483115
    licence: proprietary
  - title: "PTX ISA: memory consistency model"
    url: https://docs.nvidia.com/cuda/parallel-thread-execution/
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 32x256x16384x32
  dtype: bfloat16
  baseline: groupnorm-plain
  baseline_ms: 0.269
  measured_ms: 0.2036
  speedup: 1.321
  floor_fraction: 0.6144
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 32x256x16384x32
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.5705
  measured_ms: 0.2036
  speedup: 2.802
  floor_fraction: 0.6144
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 32x256x16384x32
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.2503
  measured_ms: 0.2036
  speedup: 1.229
  floor_fraction: 0.6144
---

Group norm (instance norm: one channel a group) of groups that no multiprocessor can hold, with one
reading and one writing. A group is cut into tiles, a program each, and every program keeps its tile
in registers while it learns the group's statistics from the others: it publishes the mean of its
tile and the sum of squared distances from it, waits until all programs of the group have, and
merges them by Chan's formula in a fixed order, so the result is the same at every run.

The two figures are two float32 in one 64-bit word, written by one atomic exchange: whoever sees the
word sees both, and neither a fence nor a counter is needed. A word of zero means "not yet"; the
sign bit of the squares, which are never negative, is set in all others.

Nobody waits in vain: programs draw their tiles from a counter, so the first group that is not
finished has all its programs running or next in line, and as many are resident as there are
multiprocessors at the least. Groups of more tiles than that, and CPU tensors, take two launches
(`together` False): the first publishes, the second reads x again, backwards, as what was read last
may still be in L2.

Where a group has very many tiles, a launch between them merges their figures into one word.

Two launches read more and wait for nobody, and they are the default: registers hold some 50 KB of
16-bit values a multiprocessor, too few to keep DRAM busy while a program waits for the others.

Groups much smaller than a tile, as those behind a linear layer, are taken several at a time, a row
each: a program of one short row would be mostly its own start and end.

A tile is a block of one channel's plane, or several small planes. Small tiles leave more programs
on a multiprocessor to cover the waiting; large ones have fewer figures to merge. `maxnreg` bounds
the registers of a thread, and so how many programs fit: three of 256 threads with 80 (0: no bound).
`before` and `after` are elementwise functions fused in.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {
    "tile": [2048, 4096, 8192, 16384],
    "together": [True, False],
    "num_warps": [4, 8, 16],
    "maxnreg": [0, 64, 80, 128],
}

# PyTorch's default, added to the variance.
EPS = 1e-5
# More figures than this each program would take long to merge: a launch merges them once.
MANY = 256
# Groups of at most half of this are taken several at a time, so many elements a program.
SHORT = 2048


@triton.jit
def _unchanged(x, lead, lane, mask, operands):
    """Elementwise functions get float32 values, and where they lie in the contiguous tensor: at
    `lead + lane`, `lane` along neighbours. `operands` is what the caller gave with them."""
    return x


@triton.jit
def _pair(mean, squares):
    """Two float32 as one word that is never zero: the sign of `squares` is set."""
    high = mean.to(tl.int32, bitcast=True).to(tl.int64) << 32
    low = tl.abs(squares).to(tl.int32, bitcast=True).to(tl.int64) & 0x7FFFFFFF
    # Not by negation: 0 - 0.0 has no sign.
    return high | low | 0x80000000


@triton.jit
def _parts(words):
    mean = (words >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    return mean, tl.abs(words.to(tl.int32).to(tl.float32, bitcast=True))


@triton.jit
def _counts(i, parts, columns, group_channels, plane, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    """How many elements tile `i` has."""
    high = tl.minimum(CHANNELS, group_channels - (i // columns) * CHANNELS)
    wide = tl.minimum(BLOCK, plane - (i % columns).to(tl.int64) * BLOCK)
    return tl.where(i < parts, high * wide, 0).to(tl.float32)


@triton.jit
def _merge_kernel(
    words_ptr, merged_ptr, plane, group_channels, parts, columns,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, BLOCK_PARTS: tl.constexpr,
):  # fmt: skip
    """The figures of a group's many tiles as one word: first the mean, then the squares."""
    words_ptr += tl.program_id(0).to(tl.int64) * parts
    sums = tl.zeros((BLOCK_PARTS,), dtype=tl.float32)
    for start in tl.range(0, parts, BLOCK_PARTS):
        i = start + tl.arange(0, BLOCK_PARTS)
        means, _ = _parts(tl.load(words_ptr + i, mask=i < parts, other=0))
        sums += _counts(i, parts, columns, group_channels, plane, CHANNELS, BLOCK) * means
    mean = tl.sum(sums, axis=0) / (1.0 * group_channels * plane)
    squares = tl.zeros((BLOCK_PARTS,), dtype=tl.float32)
    for start in tl.range(0, parts, BLOCK_PARTS):
        i = start + tl.arange(0, BLOCK_PARTS)
        means, own = _parts(tl.load(words_ptr + i, mask=i < parts, other=0))
        apart = means - mean
        squares += (
            own + _counts(i, parts, columns, group_channels, plane, CHANNELS, BLOCK) * apart * apart
        )
    tl.store(merged_ptr + tl.program_id(0), _pair(mean, tl.sum(squares, axis=0)))


@triton.jit
def _resident_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, before_operands, after_operands, words_ptr, drawn_ptr,
    plane, group_channels, groups, parts, columns, eps,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr,
    PUBLISH: tl.constexpr, FINISH: tl.constexpr, ALONE: tl.constexpr, MERGED: tl.constexpr,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, BLOCK_PARTS: tl.constexpr,
):  # fmt: skip
    """A tile a program: `PUBLISH` its figures, `FINISH` its results, or both at once."""
    if PUBLISH and FINISH and not ALONE:
        drawn = tl.atomic_add(drawn_ptr, 1, sem="relaxed")
    else:
        drawn = tl.program_id(0)
        if not PUBLISH:
            # Backwards: what the first launch read last may still be in L2.
            drawn = tl.num_programs(0) - 1 - drawn
    group = drawn // parts
    part = drawn % parts
    # Index times size is taken in int64: it passes 2**31 on tensors of a few GB.
    inside = (part // columns) * CHANNELS + tl.arange(0, CHANNELS)[:, None]
    lane = (part % columns).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[None, :]
    lead = (group.to(tl.int64) * group_channels + inside) * plane
    mask = (inside < group_channels) & (lane < plane)
    x = tl.load(x_ptr + lead + lane, mask=mask, other=0.0).to(tl.float32)
    x = tl.where(mask, BEFORE(x, lead, lane, mask, before_operands), 0.0)
    if PUBLISH:
        high = tl.minimum(CHANNELS, group_channels - (part // columns) * CHANNELS)
        wide = tl.minimum(BLOCK, plane - (part % columns).to(tl.int64) * BLOCK)
        count = (high * wide).to(tl.float32)
        mean = tl.sum(x) / count
        centred = tl.where(mask, x - mean, 0.0)
        squares = tl.sum(centred * centred)
        if not ALONE:
            tl.atomic_xchg(words_ptr + drawn, _pair(mean, squares), sem="relaxed")
    if FINISH:
        if ALONE:
            spread = squares / count
        else:
            total = 1.0 * group_channels * plane
            if MERGED:
                mean, squares = _parts(tl.load(words_ptr + group))
            else:
                i = tl.arange(0, BLOCK_PARTS)
                places = words_ptr + group.to(tl.int64) * parts + i
                words = tl.load(places, mask=i < parts, other=-1, volatile=True)
                while tl.sum((words == 0).to(tl.int32), axis=0) > 0:
                    words = tl.load(places, mask=i < parts, other=-1, volatile=True)
                counts = _counts(i, parts, columns, group_channels, plane, CHANNELS, BLOCK)
                means, own = _parts(words)
                mean = tl.sum(counts * tl.where(i < parts, means, 0.0), axis=0) / total
                apart = means - mean
                own = tl.where(i < parts, own + counts * apart * apart, 0.0)
                squares = tl.sum(own, axis=0)
            spread = squares / total
        y = (x - mean) * tl.rsqrt(spread + eps)
        channel = (group % groups) * group_channels + inside
        if HAS_WEIGHT:
            known = tl.load(weight_ptr + channel, mask=inside < group_channels, other=0.0)
            y *= known.to(tl.float32)
        if HAS_BIAS:
            known = tl.load(bias_ptr + channel, mask=inside < group_channels, other=0.0)
            y += known.to(tl.float32)
        y = AFTER(y, lead, lane, mask, after_operands)
        tl.store(out_ptr + lead + lane, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _short_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, before_operands, after_operands,
    rows, length, plane, group_channels, groups, eps,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Whole groups, `ROWS` of them a program."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    lane = tl.arange(0, BLOCK)[None, :]
    lead = row.to(tl.int64) * length
    mask = (row < rows) & (lane < length)
    x = tl.load(x_ptr + lead + lane, mask=mask, other=0.0).to(tl.float32)
    x = tl.where(mask, BEFORE(x, lead, lane, mask, before_operands), 0.0)
    mean = tl.sum(x, axis=1, keep_dims=True) / length
    centred = tl.where(mask, x - mean, 0.0)
    spread = tl.sum(centred * centred, axis=1, keep_dims=True) / length
    y = centred * tl.rsqrt(spread + eps)
    channel = (row % groups) * group_channels + lane // plane
    if HAS_WEIGHT:
        y *= tl.load(weight_ptr + channel, mask=mask, other=0.0).to(tl.float32)
    if HAS_BIAS:
        y += tl.load(bias_ptr + channel, mask=mask, other=0.0).to(tl.float32)
    y = AFTER(y, lead, lane, mask, after_operands)
    tl.store(out_ptr + lead + lane, y.to(out_ptr.dtype.element_ty), mask=mask)


def _checked(
    x: torch.Tensor, groups: int, weight: torch.Tensor | None, bias: torch.Tensor | None
) -> tuple[int, int, int]:
    """Batch, channels and elements of a plane."""
    if x.dim() < 2:
        raise ValueError(f"group norm takes [batch, channels, ...], not {list(x.shape)}")
    channels = x.shape[1]
    if groups < 1 or channels % groups:
        raise ValueError(f"{channels} channels do not part into {groups} groups")
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and given.shape != (channels,):
            raise ValueError(f"{name} {list(given.shape)} does not fit {channels} channels")
    return x.shape[0], channels, math.prod(x.shape[2:])


def _resident(device: torch.device, threads: int, maxnreg: int) -> int:
    """Programs that are sure to run at the same time: as many on a multiprocessor as its 65536
    registers hold for certain. In the interpreter one runs after another."""
    each = max(1, 65536 // (threads * maxnreg)) if maxnreg else 1
    if device.type == "cuda":
        return each * torch.cuda.get_device_properties(device).multi_processor_count
    return 1 if triton.knobs.runtime.interpret else 108


def _block(plane: int, tile: int) -> int:
    """Elements of a plane that a tile takes: the power of two that leaves least idle."""
    least = min(1024, tile, triton.next_power_of_2(plane))
    sizes = [least]
    while 2 * sizes[-1] <= min(tile, triton.next_power_of_2(plane)):
        sizes.append(2 * sizes[-1])
    return min(reversed(sizes), key=lambda size: triton.cdiv(plane, size) * size)


def kernel_function(
    x: torch.Tensor,
    groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = EPS,
    before=_unchanged,
    before_operands: tuple = (),
    after=_unchanged,
    after_operands: tuple = (),
    out_dtype: torch.dtype | None = None,
    tile: int = 8192,
    together: bool = False,
    num_warps: int = 4,
    maxnreg: int = 0,
) -> torch.Tensor:
    """Return group norm of `x` [batch, channels, ...] in `groups` groups, contiguous.

    Its dtype is `out_dtype` (`x`'s if None). `weight` and `bias` [channels], where given, belong to
    the channels. `before` and `after` are Triton functions `(values, lead, lane, mask, operands)`
    applied to each element on the way in and out. There are fewer than 2**31 tiles of `tile`
    elements.
    """
    batch, channels, plane = _checked(x, groups, weight, bias)
    x = x.contiguous()
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    if not out.numel():
        return out
    group_channels = channels // groups
    vectors = [None if each is None else each.contiguous() for each in (weight, bias)]
    length = group_channels * plane
    short = min(tile, SHORT)
    if length <= short // 2:
        width = triton.next_power_of_2(length)
        _short_kernel[(triton.cdiv(batch * groups, short // width),)](
            x, *vectors, out, before_operands, after_operands,
            batch * groups, length, plane, group_channels, groups, eps,
            BEFORE=before, AFTER=after, HAS_WEIGHT=weight is not None, HAS_BIAS=bias is not None,
            ROWS=short // width, BLOCK=width, num_warps=num_warps, maxnreg=maxnreg or None,
        )  # fmt: skip
        return out
    block = _block(plane, tile)
    high = min(tile // block, triton.next_power_of_2(group_channels))
    columns = triton.cdiv(plane, block)
    parts = triton.cdiv(group_channels, high) * columns
    together = parts > 1 and together
    together = together and parts <= min(MANY, _resident(x.device, 32 * num_warps, maxnreg))
    # Words of the tiles, and the tiles drawn so far: zero where somebody waits for them.
    fill = torch.zeros if together else torch.empty
    words = fill(batch * groups * parts + 1, dtype=torch.int64, device=x.device)
    drawn = words[batch * groups * parts :]

    def launch(publish: bool, finish: bool, found: torch.Tensor) -> None:
        _resident_kernel[(batch * groups * parts,)](
            x, *vectors, out, before_operands, after_operands, found, drawn,
            plane, group_channels, groups, parts, columns, eps,
            BEFORE=before, AFTER=after, HAS_WEIGHT=weight is not None, HAS_BIAS=bias is not None,
            PUBLISH=publish, FINISH=finish, ALONE=parts == 1, MERGED=found is not words,
            CHANNELS=high, BLOCK=block, BLOCK_PARTS=min(MANY, triton.next_power_of_2(parts)),
            num_warps=num_warps, maxnreg=maxnreg or None,
        )  # fmt: skip

    if parts == 1 or together:
        launch(True, True, words)
        return out
    launch(True, False, words)
    found = words
    if parts > MANY:
        found = torch.empty(batch * groups, dtype=torch.int64, device=x.device)
        _merge_kernel[(batch * groups,)](
            words, found, plane, group_channels, parts, columns,
            CHANNELS=high, BLOCK=block, BLOCK_PARTS=1024, num_warps=4,
        )  # fmt: skip
    launch(False, True, found)
    return out


def reference(
    x: torch.Tensor,
    groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = EPS,
) -> torch.Tensor:
    return torch.nn.functional.group_norm(x, groups, weight, bias, eps)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [batch, channels, elements of a plane, groups]."""
    *shape, groups = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(shape, dtype=dtype, device=device, generator=generator)
    weight = torch.rand(shape[1], dtype=dtype, device=device, generator=generator) + 0.5
    bias = torch.randn(shape[1], dtype=dtype, device=device, generator=generator)
    return [x, groups, weight, bias]
