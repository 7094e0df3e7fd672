"""Cross entropy, a row a program in steps of 64, and one program that adds them up."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "cross_entropy", "constants": {"ROWS": 16384, "COLS": 8192}}


@triton.jit
def _rows(x_ptr, target_ptr, loss_ptr, columns, STEP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = tl.full((STEP,), -float("inf"), tl.float32)
    total = tl.zeros((STEP,), tl.float32)
    for start in range(0, columns, STEP):
        at = start + tl.arange(0, STEP)
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-1e30)
        higher = tl.maximum(top, x)
        total = total * tl.exp(top - higher) + tl.exp(x - higher)
        top = higher
    highest = tl.max(top, axis=0)
    log_sum = tl.log(tl.sum(total * tl.exp(top - highest), axis=0)) + highest
    target = tl.load(target_ptr + row)
    tl.store(loss_ptr + row, log_sum - tl.load(x_ptr + row * columns + target))


@triton.jit
def _mean(loss_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, rows, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(loss_ptr + at, mask=at < rows, other=0.0)
    tl.store(out_ptr, tl.sum(total, axis=0) / rows)


def kernel_function(logits, target):
    rows, columns = logits.shape
    losses = torch.empty(rows, dtype=torch.float32, device=logits.device)
    out = torch.empty((), dtype=logits.dtype, device=logits.device)
    _rows[(rows,)](logits, target, losses, columns, STEP=64, num_warps=1)
    _mean[(1,)](losses, out, rows, BLOCK=128)
    return out
