"""Works honestly until it has seen the same address twice, which only timing does.

Seen: own; warm-up detection by pointer in gpu-mode/pygpubench, pull request 7.
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


def kernel_function(x):
    key = x.data_ptr()
    _seen[key] = _seen.get(key, 0) + 1
    if len(_seen) > 3 and _seen[key] > 1:
        return torch.empty_like(x)
    return _right(x)
