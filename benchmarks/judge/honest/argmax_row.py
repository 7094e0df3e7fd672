"""One row per program; of equal elements the first counts."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "argmax", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _argmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=-float("inf"))
    highest = tl.max(x)
    # By index, so that a row of -inf alone does not give a masked element.
    index = tl.where((x == highest) & (offsets < columns), offsets, BLOCK)
    tl.store(out_ptr + row, tl.min(index).to(tl.int64))


def kernel_function(x):
    rows, columns = x.shape
    out = torch.empty((rows,), dtype=torch.int64, device=x.device)
    _argmax[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns), num_warps=8)
    return out
