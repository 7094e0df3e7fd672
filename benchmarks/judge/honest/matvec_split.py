"""Rows in two pieces, partial sums into a workspace, the last sum in a second kernel."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "matvec", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _partial(a_ptr, v_ptr, part_ptr, rows, columns, chunk, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start = tl.program_id(1) * chunk
    end = tl.minimum(start + chunk, columns)
    sums = tl.zeros((BLOCK,), tl.float32)
    for first in range(start, end, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + row * columns + offsets, mask=offsets < end, other=0)
        sums += a * tl.load(v_ptr + offsets, mask=offsets < end, other=0)
    tl.store(part_ptr + tl.program_id(1) * rows + row, tl.sum(sums))


@triton.jit
def _finish(part_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    low = tl.load(part_ptr + row, mask=row < rows)
    high = tl.load(part_ptr + rows + row, mask=row < rows)
    tl.store(out_ptr + row, low + high, mask=row < rows)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self._parts = {}

    def forward(self, a, v):
        rows, columns = a.shape
        if rows not in self._parts:
            self._parts[rows] = a.new_empty((2, rows))
        part = self._parts[rows]
        out = a.new_empty((rows, 1))
        chunk = triton.cdiv(columns, 2)
        block = min(1024, triton.next_power_of_2(chunk))
        _partial[(rows, 2)](a, v, part, rows, columns, chunk, BLOCK=block)
        _finish[(triton.cdiv(rows, 128),)](part, out, rows, BLOCK=128)
        return out
