"""A loss per row, then their mean by one program."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "cross_entropy", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _losses(logits_ptr, target_ptr, loss_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(logits_ptr + row * columns + offsets, mask=offsets < columns, other=-float("inf"))
    chosen = tl.load(logits_ptr + row * columns + tl.load(target_ptr + row))
    highest = tl.max(x)
    tl.store(loss_ptr + row, highest + tl.log(tl.sum(tl.exp(x - highest))) - chosen)


@triton.jit
def _mean(loss_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    loss = tl.load(loss_ptr + offsets, mask=offsets < rows, other=0)
    tl.store(out_ptr, tl.sum(loss) / rows)


def kernel_function(logits, target):
    rows, columns = logits.shape
    loss = torch.empty((rows,), dtype=torch.float32, device=logits.device)
    out = torch.empty((), dtype=logits.dtype, device=logits.device)
    _losses[(rows,)](logits, target, loss, columns, BLOCK=triton.next_power_of_2(columns))
    _mean[(1,)](loss, out, rows, BLOCK=triton.next_power_of_2(rows))
    return out
