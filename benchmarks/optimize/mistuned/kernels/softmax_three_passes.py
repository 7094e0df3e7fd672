"""Softmax in three loops over blocks of 64 with sixteen warps."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "softmax", "constants": {"ROWS": 8192, "COLS": 6144}}


CONFIG = {"BLOCK": 64, "num_warps": 16}


@triton.jit
def _softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    lane = tl.arange(0, BLOCK)
    highest = tl.full((BLOCK,), -float("inf"), tl.float32)
    for start in range(0, columns, BLOCK):
        x = tl.load(x_ptr + row + start + lane, mask=start + lane < columns, other=-float("inf"))
        highest = tl.maximum(highest, x)
    top = tl.max(highest, axis=0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        x = tl.load(x_ptr + row + start + lane, mask=start + lane < columns, other=-float("inf"))
        total += tl.exp(x - top)
    scale = 1.0 / tl.sum(total, axis=0)
    for start in range(0, columns, BLOCK):
        inside = start + lane < columns
        x = tl.load(x_ptr + row + start + lane, mask=inside)
        tl.store(out_ptr + row + start + lane, tl.exp(x - top) * scale, mask=inside)


def kernel_function(x):
    rows, columns = x.shape
    out = torch.empty_like(x)
    _softmax[(rows,)](x, out, columns, **CONFIG)
    return out
