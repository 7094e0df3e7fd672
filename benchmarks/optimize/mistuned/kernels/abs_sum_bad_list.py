"""Sums of magnitudes, autotuned over a list that holds nothing good."""

import triton
import triton.language as tl

MISTUNED = {"problem": "abs_sum", "constants": {"ROWS": 16384}}


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": block}, num_warps=warps) for block in (32, 64) for warps in (8, 16)
    ],
    key=["columns"],
)
@triton.jit
def _abs_sum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.abs(tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0))
    tl.store(out_ptr + row, tl.sum(total, axis=0))


def kernel_function(x):
    rows, columns = x.shape
    out = x.new_empty(rows)
    _abs_sum[(rows,)](x, out, columns)
    return out
