"""Mean and variance of rows in steps of 32 with eight warps."""

import triton
import triton.language as tl

MISTUNED = {"problem": "moments", "constants": {"ROWS": 16384}}


@triton.jit
def _moments(x_ptr, mean_ptr, variance_ptr, columns, STEP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, STEP)
    total = tl.zeros((STEP,), tl.float32)
    for start in range(0, columns, STEP):
        inside = start + lane < columns
        total += tl.load(x_ptr + row * columns + start + lane, mask=inside, other=0.0)
    mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros((STEP,), tl.float32)
    for start in range(0, columns, STEP):
        inside = start + lane < columns
        x = tl.load(x_ptr + row * columns + start + lane, mask=inside, other=0.0)
        gap = tl.where(inside, x - mean, 0.0)
        squares += gap * gap
    tl.store(mean_ptr + row, mean)
    tl.store(variance_ptr + row, tl.sum(squares, axis=0) / columns)


def kernel_function(x):
    rows, columns = x.shape
    mean, variance = x.new_empty(rows), x.new_empty(rows)
    _moments[(rows,)](x, mean, variance, columns, STEP=32, num_warps=8)
    return mean, variance
