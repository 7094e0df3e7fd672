"""Two programs per row that add into an output of zeros, in any order."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "abs_sum", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _abs_sum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=0)
    tl.atomic_add(out_ptr + row, tl.sum(tl.abs(x)))


def kernel_function(x):
    rows, columns = x.shape
    out = torch.zeros((rows,), dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(triton.cdiv(columns, 2))
    _abs_sum[(rows, triton.cdiv(columns, block))](x, out, columns, BLOCK=block)
    return out
