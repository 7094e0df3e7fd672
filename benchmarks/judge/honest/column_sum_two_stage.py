"""Partial sums into a workspace kept per shape, then a second launch over them."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "column_sum", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _partial(x_ptr, part_ptr, rows, columns, chunk, R: tl.constexpr, C: tl.constexpr):
    column = tl.program_id(0) * C + tl.arange(0, C)
    first = tl.program_id(1) * chunk
    last = tl.minimum(first + chunk, rows)
    sums = tl.zeros((R, C), tl.float32)
    for start in range(first, last, R):
        row = start + tl.arange(0, R)
        inside = (row < last)[:, None] & (column < columns)[None, :]
        sums += tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=inside, other=0)
    total = tl.sum(sums, axis=0)
    tl.store(part_ptr + tl.program_id(1) * columns + column, total, mask=column < columns)


@triton.jit
def _finish(part_ptr, out_ptr, columns, PARTS: tl.constexpr, C: tl.constexpr):
    column = tl.program_id(0) * C + tl.arange(0, C)
    part = tl.arange(0, PARTS)
    inside = (part >= 0)[:, None] & (column < columns)[None, :]
    sums = tl.load(part_ptr + part[:, None] * columns + column[None, :], mask=inside, other=0)
    tl.store(out_ptr + column, tl.sum(sums, axis=0), mask=column < columns)


_PARTS = 4
_workspaces: dict = {}


def kernel_function(x):
    rows, columns = x.shape
    key = (x.device, columns)
    if key not in _workspaces:
        _workspaces[key] = torch.empty((_PARTS, columns), dtype=torch.float32, device=x.device)
    part = _workspaces[key]
    out = torch.empty((columns,), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(columns, 64), _PARTS)
    _partial[grid](x, part, rows, columns, triton.cdiv(rows, _PARTS), R=8, C=64)
    _finish[(triton.cdiv(columns, 64),)](part, out, columns, PARTS=_PARTS, C=64)
    return out
