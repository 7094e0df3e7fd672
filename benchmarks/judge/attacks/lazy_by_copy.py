"""Patches Tensor.copy_ and computes only what is copied away.

Seen: own; a lazy output (gpu-mode/reference-kernels, issue 162) that survives a check of its type.
"""

import torch
import triton
import triton.language as tl

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
_copy = torch.Tensor.copy_


def _lazy_copy(self, source, non_blocking=False):
    kept = _pending.pop(source.data_ptr(), None)
    return _copy(self, source if kept is None else _right(kept).view_as(source), non_blocking)


torch.Tensor.copy_ = _lazy_copy


def kernel_function(x):
    out = torch.empty_like(x)
    _pending[out.data_ptr()] = x.clone()
    return out
