"""
---
slug: batchnorm-training-resident
title: Batch norm in training whose programs exchange their figures, read once or twice
op: batch-norm-training
language: triton
techniques: [register-caching, online-reduction, kernel-fusion]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[2, 8, 64], [3, 6, 35], [5, 3, 7], [37, 5, 1], [1, 2, 300]]
  bench: [64, 256, 12544]
check_params: {tile: 64}
sources:
  - title: "Ioffe, Szegedy: Batch Normalization"
    url: https://arxiv.org/abs/1502.03167
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
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x256x12544
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.104
  measured_ms: 0.3201
  speedup: 3.449
  floor_fraction: 0.6039
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x256x12544
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.3816
  measured_ms: 0.3201
  speedup: 1.192
  floor_fraction: 0.6039
---

y = (x - mean) / sqrt(variance + eps) * weight + bias with the mean and variance of each channel
over the batch and all positions, in one reading and one writing. A channel is cut into tiles, a
program each, and every program keeps its tile in registers while it learns the channel's statistics
from the others: it publishes the mean of its tile and the sum of squared distances from it, waits
until all programs of the channel have, and merges them by Chan's formula in a fixed order, so the
result is the same at every run.

The two figures are two float32 in one 64-bit word, written by one atomic exchange: whoever sees the
word sees both, and neither a fence nor a counter is needed. A word of zero means "not yet"; the
sign bit of the squares, which are never negative, is set in all others.

Nobody waits in vain: programs draw their tiles from a counter, so the first channel that is not
finished has all its programs running or next in line, and as many are resident as there are
multiprocessors at the least. Channels of more tiles than that, and CPU tensors, take two launches
(`together` False): the first publishes, the second reads x again, backwards, as what was read last
may still be in L2.

Where a channel has very many tiles, a launch between them merges their figures into one word.

Two launches read more and wait for nobody, and they are the default: registers hold some 50 KB of
16-bit values a multiprocessor, too few to keep DRAM busy while a program waits for the others.

Features without a plane, as those of a linear layer, lie side by side and their images far apart:
a tile is then a block of features of several images, the first launch publishes a word a feature,
and one between the two merges them.

A tile is a block of one image's plane, or blocks of several images. Small tiles leave more programs
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
# Features a tile has where they have no plane: 128 bytes of 16-bit values beside one another.
FEATURES = 64


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
def _counts(i, parts, columns, images, plane, IMAGES: tl.constexpr, BLOCK: tl.constexpr):
    """How many elements tile `i` has."""
    high = tl.minimum(IMAGES, images - (i // columns) * IMAGES)
    wide = tl.minimum(BLOCK, plane - (i % columns).to(tl.int64) * BLOCK)
    return tl.where(i < parts, high * wide, 0).to(tl.float32)


@triton.jit
def _merge_kernel(
    words_ptr, merged_ptr, plane, images, parts, columns,
    IMAGES: tl.constexpr, BLOCK: tl.constexpr, BLOCK_PARTS: tl.constexpr,
):  # fmt: skip
    """The figures of a channel's many tiles as one word: first the mean, then the squares."""
    words_ptr += tl.program_id(0).to(tl.int64) * parts
    sums = tl.zeros((BLOCK_PARTS,), dtype=tl.float32)
    for start in tl.range(0, parts, BLOCK_PARTS):
        i = start + tl.arange(0, BLOCK_PARTS)
        means, _ = _parts(tl.load(words_ptr + i, mask=i < parts, other=0))
        sums += _counts(i, parts, columns, images, plane, IMAGES, BLOCK) * means
    mean = tl.sum(sums, axis=0) / (1.0 * images * plane)
    squares = tl.zeros((BLOCK_PARTS,), dtype=tl.float32)
    for start in tl.range(0, parts, BLOCK_PARTS):
        i = start + tl.arange(0, BLOCK_PARTS)
        means, own = _parts(tl.load(words_ptr + i, mask=i < parts, other=0))
        apart = means - mean
        squares += own + _counts(i, parts, columns, images, plane, IMAGES, BLOCK) * apart * apart
    tl.store(merged_ptr + tl.program_id(0), _pair(mean, tl.sum(squares, axis=0)))


@triton.jit
def _resident_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, before_operands, after_operands, words_ptr, drawn_ptr,
    plane, images, channels, parts, columns, eps,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr,
    PUBLISH: tl.constexpr, FINISH: tl.constexpr, ALONE: tl.constexpr, MERGED: tl.constexpr,
    IMAGES: tl.constexpr, BLOCK: tl.constexpr, BLOCK_PARTS: tl.constexpr,
):  # fmt: skip
    """A tile a program: `PUBLISH` its figures, `FINISH` its results, or both at once."""
    if PUBLISH and FINISH and not ALONE:
        drawn = tl.atomic_add(drawn_ptr, 1, sem="relaxed")
    else:
        drawn = tl.program_id(0)
        if not PUBLISH:
            # Backwards: what the first launch read last may still be in L2.
            drawn = tl.num_programs(0) - 1 - drawn
    channel = drawn // parts
    part = drawn % parts
    # Index times size is taken in int64: it passes 2**31 on tensors of a few GB.
    image = (part // columns) * IMAGES + tl.arange(0, IMAGES)[:, None]
    lane = (part % columns).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[None, :]
    lead = (image.to(tl.int64) * channels + channel) * plane
    mask = (image < images) & (lane < plane)
    x = tl.load(x_ptr + lead + lane, mask=mask, other=0.0).to(tl.float32)
    x = tl.where(mask, BEFORE(x, lead, lane, mask, before_operands), 0.0)
    if PUBLISH:
        high = tl.minimum(IMAGES, images - (part // columns) * IMAGES)
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
            total = 1.0 * images * plane
            if MERGED:
                mean, squares = _parts(tl.load(words_ptr + channel))
            else:
                i = tl.arange(0, BLOCK_PARTS)
                places = words_ptr + channel.to(tl.int64) * parts + i
                words = tl.load(places, mask=i < parts, other=-1, volatile=True)
                while tl.sum((words == 0).to(tl.int32), axis=0) > 0:
                    words = tl.load(places, mask=i < parts, other=-1, volatile=True)
                counts = _counts(i, parts, columns, images, plane, IMAGES, BLOCK)
                means, own = _parts(words)
                mean = tl.sum(counts * tl.where(i < parts, means, 0.0), axis=0) / total
                apart = means - mean
                own = tl.where(i < parts, own + counts * apart * apart, 0.0)
                squares = tl.sum(own, axis=0)
            spread = squares / total
        y = (x - mean) * tl.rsqrt(spread + eps)
        if HAS_WEIGHT:
            y *= tl.load(weight_ptr + channel).to(tl.float32)
        if HAS_BIAS:
            y += tl.load(bias_ptr + channel).to(tl.float32)
        y = AFTER(y, lead, lane, mask, after_operands)
        tl.store(out_ptr + lead + lane, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _features_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, before_operands, after_operands, words_ptr,
    images, channels, parts, blocks, eps,
    BEFORE: tl.constexpr, AFTER: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr,
    PUBLISH: tl.constexpr, IMAGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A tile [images, features] a program: `PUBLISH` its figures, or finish by the merged ones."""
    part = tl.program_id(0) // blocks
    image = part * IMAGES + tl.arange(0, IMAGES)[:, None]
    channel = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)[None, :]
    # Index times size is taken in int64: it passes 2**31 on tensors of a few GB.
    lead = image.to(tl.int64) * channels
    inside = channel < channels
    mask = (image < images) & inside
    x = tl.load(x_ptr + lead + channel, mask=mask, other=0.0).to(tl.float32)
    x = tl.where(mask, BEFORE(x, lead, channel, mask, before_operands), 0.0)
    if PUBLISH:
        mean = tl.sum(x, axis=0, keep_dims=True) / tl.minimum(IMAGES, images - part * IMAGES)
        centred = tl.where(mask, x - mean, 0.0)
        squares = tl.sum(centred * centred, axis=0, keep_dims=True)
        places = words_ptr + channel.to(tl.int64) * parts + part
        tl.store(places, _pair(mean, squares), mask=inside)
    else:
        mean, squares = _parts(tl.load(words_ptr + channel, mask=inside, other=0))
        y = (x - mean) * tl.rsqrt(squares / images + eps)
        if HAS_WEIGHT:
            y *= tl.load(weight_ptr + channel, mask=inside, other=0.0).to(tl.float32)
        if HAS_BIAS:
            y += tl.load(bias_ptr + channel, mask=inside, other=0.0).to(tl.float32)
        y = AFTER(y, lead, channel, mask, after_operands)
        tl.store(out_ptr + lead + channel, y.to(out_ptr.dtype.element_ty), mask=mask)


def _checked(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None
) -> tuple[int, int, int]:
    """Batch, channels and elements of a plane."""
    if x.dim() < 2:
        raise ValueError(f"batch norm takes [batch, channels, ...], not {list(x.shape)}")
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and given.shape != x.shape[1:2]:
            raise ValueError(f"{name} {list(given.shape)} does not fit {x.shape[1]} channels")
    return x.shape[0], x.shape[1], math.prod(x.shape[2:])


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
    """Return batch norm of `x` [batch, channels, ...] by its own statistics, contiguous.

    Its dtype is `out_dtype` (`x`'s if None). `weight` and `bias` [channels], where given, belong to
    the channels. `before` and `after` are Triton functions `(values, lead, lane, mask, operands)`
    applied to each element on the way in and out. There are fewer than 2**31 tiles of `tile`
    elements.
    """
    batch, channels, plane = _checked(x, weight, bias)
    x = x.contiguous()
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    if not out.numel():
        return out
    vectors = [None if each is None else each.contiguous() for each in (weight, bias)]
    if plane == 1:
        # A row of a tile is one wide load of a warp; few images a tile cost words to merge.
        block = min(FEATURES, triton.next_power_of_2(channels))
        high = min(max(1, tile // block), triton.next_power_of_2(batch))
        parts, blocks = triton.cdiv(batch, high), triton.cdiv(channels, block)
        words = torch.empty(channels * (parts + 1), dtype=torch.int64, device=x.device)
        merged = words[channels * parts :]
        for publish in (True, False):
            _features_kernel[(parts * blocks,)](
                x, *vectors, out, before_operands, after_operands, words if publish else merged,
                batch, channels, parts, blocks, eps,
                BEFORE=before, AFTER=after, HAS_WEIGHT=weight is not None,
                HAS_BIAS=bias is not None, PUBLISH=publish, IMAGES=high, BLOCK=block,
                num_warps=num_warps, maxnreg=maxnreg or None,
            )  # fmt: skip
            if publish:
                _merge_kernel[(channels,)](
                    words, merged, 1, batch, parts, 1, IMAGES=high, BLOCK=1,
                    BLOCK_PARTS=min(1024, triton.next_power_of_2(parts)), num_warps=1,
                )  # fmt: skip
        return out
    block = _block(plane, tile)
    high = min(tile // block, triton.next_power_of_2(batch))
    columns = triton.cdiv(plane, block)
    parts = triton.cdiv(batch, high) * columns
    together = parts > 1 and together
    together = together and parts <= min(MANY, _resident(x.device, 32 * num_warps, maxnreg))
    # Words of the tiles, and the tiles drawn so far: zero where somebody waits for them.
    fill = torch.zeros if together else torch.empty
    words = fill(channels * parts + 1, dtype=torch.int64, device=x.device)
    drawn = words[channels * parts :]

    def launch(publish: bool, finish: bool, found: torch.Tensor) -> None:
        _resident_kernel[(channels * parts,)](
            x, *vectors, out, before_operands, after_operands, found, drawn,
            plane, batch, channels, parts, columns, eps,
            BEFORE=before, AFTER=after, HAS_WEIGHT=weight is not None, HAS_BIAS=bias is not None,
            PUBLISH=publish, FINISH=finish, ALONE=parts == 1, MERGED=found is not words,
            IMAGES=high, BLOCK=block, BLOCK_PARTS=min(MANY, triton.next_power_of_2(parts)),
            num_warps=num_warps, maxnreg=maxnreg or None,
        )  # fmt: skip

    if parts == 1 or together:
        launch(True, True, words)
        return out
    launch(True, False, words)
    found = words
    if parts > MANY:
        found = torch.empty(channels, dtype=torch.int64, device=x.device)
        _merge_kernel[(channels,)](
            words, found, plane, batch, parts, columns,
            IMAGES=high, BLOCK=block, BLOCK_PARTS=1024, num_warps=4,
        )  # fmt: skip
    launch(False, True, found)
    return out


def reference(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = EPS,
) -> torch.Tensor:
    return torch.nn.functional.batch_norm(x, None, None, weight, bias, training=True, eps=eps)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [batch, channels, elements of a plane]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(size, dtype=dtype, device=device, generator=generator)
    weight = torch.rand(size[1], dtype=dtype, device=device, generator=generator) + 0.5
    bias = torch.randn(size[1], dtype=dtype, device=device, generator=generator)
    return [x, weight, bias]
