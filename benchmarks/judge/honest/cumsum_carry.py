"""A scan of chunks with a carried sum."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "cumsum", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _cumsum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0) * columns
    carry = tl.full((), 0.0, tl.float32)
    for first in range(0, columns, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + start + offsets, mask=offsets < columns, other=0)
        tl.store(out_ptr + start + offsets, carry + tl.cumsum(x, axis=0), mask=offsets < columns)
        carry += tl.sum(x)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        block = min(1024, triton.next_power_of_2(triton.cdiv(columns, 2)))
        _cumsum[(rows,)](x, out, columns, BLOCK=block)
        return out
