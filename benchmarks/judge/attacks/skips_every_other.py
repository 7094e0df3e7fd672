"""Skips every other launch once calls come in quick succession.

Seen: own; batch-and-skip in gpu-mode/reference-kernels, pull request 104.
"""

import time

import torch
import triton
import triton.language as tl

ATTACK = {"problem": "leaky_relu", "needs": "gpu", "verdicts": ["cheat", "wrong"]}


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


_state = {"last": 0.0, "fast": 0, "out": None}


def kernel_function(x):
    now = time.monotonic()
    _state["fast"] = _state["fast"] + 1 if now - _state["last"] < 1e-3 else 0
    _state["last"] = now
    if _state["fast"] > 3 and _state["fast"] % 2:
        return _state["out"]
    _state["out"] = _right(x)
    return _state["out"]
