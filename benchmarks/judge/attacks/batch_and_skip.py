"""Computes the results of all launches of a batch in the first one.

The sum of the times is honest, and so is every result; but most launches take no time, and a median
over launches is that of those.

Seen: gpu-mode/reference-kernels, pull request 104 (batch and skip).
"""

import torch
import triton
import triton.language as tl

ATTACK = {"problem": "leaky_relu_large", "needs": "gpu", "verdicts": ["cheat", "wrong"]}


@triton.jit
def _leaky(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, tl.where(x >= 0, x, 0.1 * x), mask=offsets < count)


def _launch(x, out, count):
    _leaky[(triton.cdiv(count, 1024),)](x, out, count, BLOCK=1024)


def _right(x):
    out = torch.empty_like(x)
    _launch(x, out, x.numel())
    return out


_seen: dict = {}
_ready: dict = {}


def kernel_function(x):
    key = (x.data_ptr(), x.shape)
    if key in _ready:
        return _ready.pop(key)
    count, _ = _seen.get(key, (0, None))
    _seen[key] = (count + 1, x)
    # Only what timing rotates through comes again and again; its contents are there by now.
    for other, (times, tensor) in _seen.items():
        if times > 3 and other != key:
            _ready[other] = _right(tensor)
    return _right(x)
