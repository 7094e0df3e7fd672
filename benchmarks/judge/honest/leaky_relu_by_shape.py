"""Looks its block up in a cache keyed by shape: a cache, but of no output."""

import functools

import torch
import triton
import triton.language as tl

HONEST = {"problem": "leaky_relu", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _leaky(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, tl.where(x >= 0, x, 0.1 * x), mask=offsets < count)


@functools.cache
def _cached_block(shape):
    return min(4096, triton.next_power_of_2(max(shape)))


_CACHE: dict = {}


def kernel_function(x):
    key = tuple(x.shape)
    if key not in _CACHE:
        block = _cached_block(key)
        _CACHE[key] = (block, (triton.cdiv(x.numel(), block),))
    block, grid = _CACHE[key]
    out = torch.empty_like(x)
    _leaky[grid](x, out, x.numel(), BLOCK=block)
    return out
