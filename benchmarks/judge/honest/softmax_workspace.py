"""Row statistics through a workspace that is allocated once and reused by all calls."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "softmax", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _statistics(x_ptr, highest_ptr, total_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=-float("inf"))
    highest = tl.max(x)
    tl.store(highest_ptr + row, highest)
    tl.store(total_ptr + row, tl.sum(tl.exp(x - highest)))


@triton.jit
def _apply(x_ptr, highest_ptr, total_ptr, out_ptr, count, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    row = offsets // columns
    highest = tl.load(highest_ptr + row, mask=inside)
    total = tl.load(total_ptr + row, mask=inside)
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, tl.exp(x - highest) / total, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self._workspace = None

    def forward(self, x):
        rows, columns = x.shape
        if self._workspace is None or self._workspace.shape[1] < rows:
            self._workspace = torch.empty((2, rows), dtype=torch.float32, device=x.device)
        highest, total = self._workspace
        out = torch.empty_like(x)
        _statistics[(rows,)](x, highest, total, columns, BLOCK=triton.next_power_of_2(columns))
        grid = (triton.cdiv(x.numel(), 1024),)
        _apply[grid](x, highest, total, out, x.numel(), columns, BLOCK=1024)
        return out
