"""An associative scan of a whole row."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "cumsum", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _cumsum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    start = tl.program_id(0) * columns
    x = tl.load(x_ptr + start + offsets, mask=offsets < columns, other=0)
    tl.store(out_ptr + start + offsets, tl.cumsum(x, axis=0), mask=offsets < columns)


def kernel_function(x):
    rows, columns = x.shape
    out = torch.empty_like(x)
    _cumsum[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns), num_warps=4)
    return out
