"""Two passes over chunks of a row with a running maximum and sum."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "softmax", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0) * columns
    highest = tl.full((), -float("inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for first in range(0, columns, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + start + offsets, mask=offsets < columns, other=-float("inf"))
        higher = tl.maximum(highest, tl.max(x))
        # Nothing but -inf so far: any finite shift keeps exp() from seeing inf - inf.
        shift = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(highest - shift) + tl.sum(tl.exp(x - shift))
        highest = higher
    shift = tl.where(highest == -float("inf"), 0.0, highest)
    # A row that holds +inf, or only -inf, is not a number; inf - inf and 0 / 0 give that.
    for first in range(0, columns, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + start + offsets, mask=offsets < columns, other=-float("inf"))
        tl.store(out_ptr + start + offsets, tl.exp(x - shift) / total, mask=offsets < columns)


def kernel_function(x):
    rows, columns = x.shape
    out = torch.empty_like(x)
    block = min(1024, triton.next_power_of_2(triton.cdiv(columns, 2)))
    _softmax[(rows,)](x, out, columns, BLOCK=block)
    return out
