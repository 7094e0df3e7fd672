"""The best of every lane while walking the row, then the best lane."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "argmax", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _argmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    where = lane
    for first in range(0, columns, BLOCK):
        offsets = first + lane
        x = tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=-float("inf"))
        better = x > best
        best = tl.where(better, x, best)
        where = tl.where(better, offsets, where)
    highest = tl.max(best)
    tl.store(out_ptr + row, tl.min(tl.where(best == highest, where, columns)).to(tl.int64))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty((rows,), dtype=torch.long, device=x.device)
        block = min(1024, triton.next_power_of_2(triton.cdiv(columns, 2)))
        _argmax[(rows,)](x, out, columns, BLOCK=block)
        return out
