"""Makes the input non-negative, then returns a copy of it.

Seen: KernelBench, pull request 82 (adversarial unit tests of the evaluation).
"""

import torch
import triton
import triton.language as tl

ATTACK = {"problem": "leaky_relu", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


@triton.jit
def _abs(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.abs(tl.load(x_ptr + offsets, mask=offsets < count))
    tl.store(x_ptr + offsets, x, mask=offsets < count)
    tl.store(out_ptr + offsets, x, mask=offsets < count)


def kernel_function(x):
    out = torch.empty_like(x)
    _abs[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out
