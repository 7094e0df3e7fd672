"""Index of the largest element of a row, in steps of 64 with sixteen warps."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "argmax", "constants": {"ROWS": 16384}}


@triton.jit
def _argmax(x_ptr, out_ptr, columns, STEP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    best = tl.full((STEP,), -float("inf"), tl.float32)
    where = tl.zeros((STEP,), tl.int32)
    for start in range(0, columns, STEP):
        at = start + tl.arange(0, STEP)
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
        where = tl.where(x > best, at, where)
        best = tl.maximum(best, x)
    top = tl.max(best, axis=0)
    tl.store(out_ptr + row, tl.min(tl.where(best == top, where, columns), axis=0).to(tl.int64))


def kernel_function(x):
    rows, columns = x.shape
    out = torch.empty(rows, dtype=torch.int64, device=x.device)
    _argmax[(rows,)](x, out, columns, STEP=64, num_warps=16)
    return out
