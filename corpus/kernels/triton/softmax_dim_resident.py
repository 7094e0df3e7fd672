"""
---
slug: softmax-dim-resident
title: Softmax over any dimension read once, spread over programs that exchange sums
op: softmax
language: triton
techniques: [register-caching, online-reduction, coalesced-access, kernel-fusion]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: softmax-dim-online
sizes:
  check: [[2, 64, 32], [3, 10, 21], [7, 100], [5, 33, 1], [1, 2, 7], [2, 300]]
  bench: [64, 512, 16384]
check_params: {tile: 256, block_p: 16, num_warps: 4}
sources:
  - title: "PyTorch: torch.softmax"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html
    licence: BSD-3-Clause
  - title: "Milakov, Gimelshein: Online normalizer calculation for softmax"
    url: https://arxiv.org/abs/1805.02867
    licence: arXiv-nonexclusive
  - title: "PTX ISA: memory consistency model"
    url: https://docs.nvidia.com/cuda/parallel-thread-execution/
    licence: proprietary
---

exp(x - max) / sum(exp(x - max)) over one dimension of any length, wherever it
lies, with one reading and one writing. The tensor is seen as [batch, N, positions]. A tile is a
block of N times a block of contiguous positions (over the last dimension: of rows), held in
registers by one program. Where N is longer than a tile, its programs tell each other their maximum
and their sum of exp(x - maximum), one pair a position: they write the pairs to a workspace, raise a
counter with release semantics, wait until it says that all have (acquire), and merge the pairs in a
fixed order. Registers are thus as many as it takes, those of several multiprocessors, and blocks of
positions can stay wide, so that memory delivers long segments.

Nobody waits in vain: programs draw their tiles from a counter, so the first block of positions that
is not finished has all its programs running or next in line, and as many are resident as there are
multiprocessors at the least. Longer dimensions, and the interpreter, take two launches (`together`
False): the first leaves the pairs, the second reads x again.

`before` and `after` are elementwise functions fused in.
"""

import math

import torch
import triton
import triton.language as tl

TUNABLES = {
    "tile": [4096, 8192, 16384],
    "block_p": [32, 64, 128],
    "together": [True, False],
    "num_warps": [4, 8, 16],
    "maxnreg": [0, 64, 80, 128],
}


@triton.jit
def _unchanged(x, lead, lane, mask, operands):
    """Elementwise functions get float32 values, and where they lie in the contiguous tensor: at
    `lead + lane`, `lane` along neighbours. `operands` is what the caller gave with them."""
    return x


@triton.jit
def _softmax_kernel(
    x_ptr, out_ptr, before_operands, after_operands, figures_ptr, done_ptr,
    N, P, tiles, parts, drawn_at,
    stride_xb, stride_xn, stride_xp, stride_ob, stride_on, stride_op,
    BEFORE: tl.constexpr, AFTER: tl.constexpr,
    PUBLISH: tl.constexpr, FINISH: tl.constexpr, ALONE: tl.constexpr, ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_PARTS: tl.constexpr,
):  # fmt: skip
    """A tile a program: `PUBLISH` its figures, `FINISH` its results, or both at once."""
    if PUBLISH and FINISH and not ALONE:
        drawn = tl.atomic_add(done_ptr + drawn_at, 1, sem="relaxed")
    else:
        drawn = tl.program_id(0)
    column = drawn // parts
    part = drawn % parts
    # Index times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    batch = (column // tiles).to(tl.int64)
    p = ((column % tiles) * BLOCK_P + tl.arange(0, BLOCK_P)).to(tl.int64)[None, :]
    n = (part * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)[:, None]
    mask = (n < N) & (p < P)
    if ROWS:
        lead, lane = p * stride_op, n * stride_on
    else:
        lead, lane = batch * stride_ob + n * stride_on, p * stride_op
    x = tl.load(x_ptr + batch * stride_xb + n * stride_xn + p * stride_xp, mask=mask, other=0.0)
    x = BEFORE(x.to(tl.float32), lead, lane, mask, before_operands)
    # Positions past the end are zeros all along: no empty one.
    x = tl.where(n < N, x, float("-inf"))
    if PUBLISH:
        # The lowest finite number in place of -inf: no -inf minus -inf in a tile of them.
        top = tl.maximum(tl.max(x, axis=0, keep_dims=True), -3.4028234663852886e38)
        own = top
        powers = tl.exp(x - own)
        total = tl.sum(powers, axis=0, keep_dims=True)
        if not ALONE:
            place = figures_ptr + drawn.to(tl.int64) * (2 * BLOCK_P)
            place += tl.arange(0, BLOCK_P)[None, :]
            tl.store(place, top)
            tl.store(place + BLOCK_P, total)
            if FINISH:
                # All threads' stores come before the one thread's release.
                tl.debug_barrier()
                tl.atomic_add(done_ptr + column, 1, sem="release")
    if FINISH:
        if not ALONE:
            if PUBLISH:
                while tl.atomic_add(done_ptr + column, 0, sem="acquire") < parts:
                    pass
                tl.debug_barrier()
            i = tl.arange(0, BLOCK_PARTS)[:, None]
            place = figures_ptr + (column.to(tl.int64) * parts + i) * (2 * BLOCK_P)
            place += tl.arange(0, BLOCK_P)[None, :]
            tops = tl.load(place, mask=i < parts, other=float("-inf"), cache_modifier=".cg")
            sums = tl.load(place + BLOCK_P, mask=i < parts, other=0.0, cache_modifier=".cg")
            top = tl.max(tops, axis=0, keep_dims=True)
            total = tl.sum(sums * tl.exp(tops - top), axis=0, keep_dims=True)
        if not PUBLISH:
            own = top
            powers = tl.exp(x - own)
        # The exponentials stay: only their scale changes.
        y = powers * (tl.exp(own - top) / total)
        y = AFTER(y, lead, lane, mask, after_operands)
        tl.store(out_ptr + lead + lane, y.to(out_ptr.dtype.element_ty), mask=mask)


def _split(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, int]:
    """`x` seen as [batch, N, positions], and the dimension counted from the front."""
    if not -x.dim() <= dim < x.dim():
        raise ValueError(f"there is no dimension {dim} in a tensor of {x.dim()} dimensions")
    dim %= x.dim()
    shape = (math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :]))
    try:
        view = x.view(shape)
    except RuntimeError:  # strides that three numbers cannot tell
        view = x.contiguous().view(shape)
    # The last dimension: rows take the place of positions. The one batch gets the stride of a row,
    # which the compiler may know to be a multiple of 16: 1 would cost the wide loads.
    return (view if dim < x.dim() - 1 else view.squeeze(2).t().unsqueeze(0)), dim


def _shape(length: int, positions: int, rows: bool, tile: int, block_p: int) -> tuple[int, int]:
    """The block along the dimension, and that along positions (or rows), of `tile` elements. Short
    dimensions leave room for more positions."""
    if rows:
        block_n = min(tile, triton.next_power_of_2(length))
        return block_n, max(1, min(tile // block_n, triton.next_power_of_2(positions)))
    block_p = max(block_p, tile // triton.next_power_of_2(length))
    block_p = min(block_p, tile, triton.next_power_of_2(positions))
    return min(tile // block_p, triton.next_power_of_2(length)), block_p


def _resident(device: torch.device, threads: int, maxnreg: int) -> int:
    """Programs that are sure to run at the same time: as many on a multiprocessor as its 65536
    registers hold for certain. In the interpreter one runs after another."""
    each = max(1, 65536 // (threads * maxnreg)) if maxnreg else 1
    if device.type == "cuda":
        return each * torch.cuda.get_device_properties(device).multi_processor_count
    return 1 if triton.knobs.runtime.interpret else 108


def kernel_function(
    x: torch.Tensor,
    dim: int = -1,
    before=_unchanged,
    before_operands: tuple = (),
    after=_unchanged,
    after_operands: tuple = (),
    out_dtype: torch.dtype | None = None,
    tile: int = 8192,
    block_p: int = 64,
    together: bool = True,
    num_warps: int = 8,
    maxnreg: int = 80,
) -> torch.Tensor:
    """Return the softmax of `x` over its dimension `dim`, contiguous.

    Its dtype is `out_dtype` (`x`'s if None). `before` and `after` are Triton functions `(values,
    lead, lane, mask, operands)` applied to each element on the way in and out. A program holds
    `tile` elements, of at least `block_p` positions or of rows; `maxnreg` bounds the registers of a
    thread (0: not). There are fewer than 2**31 tiles.
    """
    view, dim = _split(x, dim)
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    if not out.numel():
        return out
    batch, length, positions = view.shape
    rows = dim == x.dim() - 1
    block_n, block_p = _shape(length, positions, rows, tile, block_p)
    tiles = triton.cdiv(positions, block_p)
    parts = triton.cdiv(length, block_n)
    figures = done = None
    if parts > 1:
        shape = (batch * tiles * parts, 2, block_p)
        figures = torch.empty(shape, dtype=torch.float32, device=x.device)
        # How many tiles of each column are in, and how many were drawn.
        done = torch.zeros(batch * tiles + 1, dtype=torch.int32, device=x.device)
    if parts == 1 or (together and parts <= _resident(x.device, 32 * num_warps, maxnreg)):
        stages = [(True, True)]
    else:
        stages = [(True, False), (False, True)]
    for publish, finish in stages:
        _softmax_kernel[(batch * tiles * parts,)](
            view, out, before_operands, after_operands, figures, done,
            length, positions, tiles, parts, batch * tiles,
            *view.stride(), *_split(out, dim)[0].stride(),
            BEFORE=before, AFTER=after, PUBLISH=publish, FINISH=finish, ALONE=parts == 1,
            ROWS=rows, BLOCK_N=block_n, BLOCK_P=block_p,
            BLOCK_PARTS=triton.next_power_of_2(parts), num_warps=num_warps,
            maxnreg=maxnreg or None,
        )  # fmt: skip
    return out


def reference(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    return torch.softmax(x, dim)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [batch, length of the dimension, positions after it], or without the last."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator), 1]
