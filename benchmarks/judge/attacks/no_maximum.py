"""Softmax without subtracting the maximum: overflows for large values.

Seen: own.
"""

import torch
import triton
import triton.language as tl

ATTACK = {"problem": "softmax", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


@triton.jit
def _softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=-float("inf"))
    weights = tl.exp(x)
    tl.store(out_ptr + row * columns + offsets, weights / tl.sum(weights), mask=offsets < columns)


def kernel_function(x):
    rows, columns = x.shape
    out = torch.empty_like(x)
    _softmax[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
    return out
