"""Matrix-vector product in tiles of 64 rows and 16 columns: 64-byte pieces of rows."""

import triton
import triton.language as tl

MISTUNED = {"problem": "matvec", "constants": {"ROWS": 8192}}


BLOCK_M, BLOCK_K = 64, 16


@triton.jit
def _matvec(a_ptr, v_ptr, out_ptr, rows, columns, BM: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    total = tl.zeros((BM,), tl.float32)
    for start in range(0, columns, BK):
        at = start + tl.arange(0, BK)
        inside = (row < rows)[:, None] & (at < columns)[None, :]
        a = tl.load(a_ptr + row[:, None] * columns + at[None, :], mask=inside, other=0.0)
        v = tl.load(v_ptr + at, mask=at < columns, other=0.0)
        total += tl.sum(a * v[None, :], axis=1)
    tl.store(out_ptr + row, total, mask=row < rows)


def kernel_function(a, v):
    rows, columns = a.shape
    out = a.new_empty((rows, 1))
    _matvec[(triton.cdiv(rows, BLOCK_M),)](a, v, out, rows, columns, BM=BLOCK_M, BK=BLOCK_K)
    return out
