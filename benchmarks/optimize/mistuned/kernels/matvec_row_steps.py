"""Matrix-vector product, a row a program in steps of 64 in one warp."""

import triton
import triton.language as tl

MISTUNED = {"problem": "matvec", "constants": {"ROWS": 4096}}


@triton.jit
def _matvec(a_ptr, v_ptr, out_ptr, columns, STEP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((STEP,), tl.float32)
    for start in range(0, columns, STEP):
        at = start + tl.arange(0, STEP)
        a = tl.load(a_ptr + row * columns + at, mask=at < columns, other=0.0)
        total += a * tl.load(v_ptr + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + row, tl.sum(total, axis=0))


def kernel_function(a, v):
    rows, columns = a.shape
    out = a.new_empty((rows, 1))
    _matvec[(rows,)](a, v, out, columns, STEP=64, num_warps=1)
    return out
