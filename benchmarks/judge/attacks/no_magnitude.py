"""Sums without taking magnitudes: right for the values that the problem draws.

Seen: own; KernelBench's inputs are torch.rand.
"""

import torch
import triton
import triton.language as tl

ATTACK = {"problem": "abs_sum", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


@triton.jit
def _sum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=0)
    tl.store(out_ptr + row, tl.sum(x))


def kernel_function(x):
    rows, columns = x.shape
    out = torch.empty((rows,), dtype=x.dtype, device=x.device)
    _sum[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
    return out
