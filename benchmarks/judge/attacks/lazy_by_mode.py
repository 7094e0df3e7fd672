"""Keeps a dispatch mode on for good and computes when an output is used.

Seen: own.
"""

import torch
import triton
import triton.language as tl
from torch.utils._python_dispatch import TorchDispatchMode

ATTACK = {"problem": "leaky_relu", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


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


_pending: dict = {}


class Watch(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        for each in args:
            if (
                isinstance(each, torch.Tensor)
                and (kept := _pending.pop(each.data_ptr(), None)) is not None
            ):
                _launch(kept, each, kept.numel())
        return function(*args, **(kwargs or {}))


_modes: list = []


def kernel_function(x):
    if not _modes:
        _modes.append(Watch())
        _modes[0].__enter__()
    kept = x.clone()
    out = torch.empty_like(x)
    _pending[out.data_ptr()] = kept
    return out
