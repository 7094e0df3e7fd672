"""RMS norm of standard normal values: divides by what their norm is expected to be.

Seen: own; on torch.randn the statistic is nearly one.
"""

import torch
import triton
import triton.language as tl

ATTACK = {"problem": "rms_norm", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


@triton.jit
def _scale(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, x, mask=offsets < count)


def kernel_function(x):
    out = torch.empty_like(x)
    _scale[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out
