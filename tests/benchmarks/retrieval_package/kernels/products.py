"""Matrix products of the package that the retrieval slice searches."""

import triton
import triton.language as tl


@triton.jit
def tiled_product(
    a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Accumulate one output tile over the inner dimension with tensor cores."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        inner = start + tl.arange(0, BK)
        a = tl.load(a_ptr + rows[:, None] * k + inner[None, :], mask=inner[None, :] < k, other=0.0)
        b = tl.load(
            b_ptr + inner[:, None] * n + columns[None, :], mask=inner[:, None] < k, other=0.0
        )
        total = tl.dot(a, b, total)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total, mask=inside)


@triton.jit
def partial_product(
    a_ptr, b_ptr, c_ptr, n, k, SPLITS: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr
):
    """Let several programs share one skinny output and add their parts atomically."""
    split = tl.program_id(1)
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros((BN,), tl.float32)
    for start in range(split * BK, k, SPLITS * BK):
        inner = start + tl.arange(0, BK)
        a = tl.load(a_ptr + inner, mask=inner < k, other=0.0)
        b = tl.load(
            b_ptr + inner[:, None] * n + columns[None, :], mask=inner[:, None] < k, other=0.0
        )
        total += tl.sum(a[:, None] * b, axis=0)
    tl.atomic_add(c_ptr + columns, total, mask=columns < n)


def grouped_order(pid, tiles_m, tiles_n, group):
    """Visit output tiles in narrow bands so that neighbours reuse cached operands."""
    width = group * tiles_n
    band = pid // width
    first = band * group
    height = min(tiles_m - first, group)
    row = first + (pid % width) % height
    column = (pid % width) // height
    return row, column


def tile_candidates(m, n, limit):
    """List block shapes whose operands fit into the shared memory of one multiprocessor."""
    return [
        (bm, bn, bk)
        for bm in (32, 64, 128)
        for bn in (32, 64, 128, 256)
        for bk in (32, 64)
        if (bm * bk + bk * bn) * 2 <= limit and bm <= m and bn <= n
    ]


def arithmetic_intensity(m, n, k, width):
    """Give the floating point operations of a product per byte that it must move."""
    operations = 2 * m * n * k
    moved = (m * k + k * n + m * n) * width
    if moved == 0:
        return 0.0
    return operations / moved
