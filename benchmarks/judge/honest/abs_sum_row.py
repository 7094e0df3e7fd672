"""One row per program, in chunks."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "abs_sum", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _abs_sum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    sums = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, columns, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        sums += tl.abs(tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=0))
    tl.store(out_ptr + row, tl.sum(sums))


def kernel_function(x):
    rows, columns = x.shape
    out = torch.empty((rows,), dtype=x.dtype, device=x.device)
    block = min(2048, triton.next_power_of_2(triton.cdiv(columns, 2)))
    _abs_sum[(rows,)](x, out, columns, BLOCK=block)
    return out
