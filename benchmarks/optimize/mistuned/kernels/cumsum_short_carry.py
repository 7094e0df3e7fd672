"""Running sums carried over blocks of 32."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "cumsum", "constants": {"ROWS": 16384}}


@triton.jit
def _cumsum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    carry = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + at, mask=at < columns, other=0.0)
        tl.store(out_ptr + row + at, tl.cumsum(x, axis=0) + carry, mask=at < columns)
        carry += tl.sum(x, axis=0)


def kernel_function(x):
    rows, columns = x.shape
    out = torch.empty_like(x)
    _cumsum[(rows,)](x, out, columns, BLOCK=32)
    return out
