"""float16 product, tiles in groups of one, thin in K, too many stages."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "matmul_half", "constants": {"M": 4096, "N": 8192, "K": 2048}}


@triton.jit
def _product(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
):
    tiles_n = tl.cdiv(N, BN)
    first = tl.program_id(0) // (GROUP * tiles_n) * GROUP
    height = tl.minimum(tl.cdiv(M, BM) - first, GROUP)
    inner = tl.program_id(0) % (GROUP * tiles_n)
    tile_m = first + inner % height
    tile_n = inner // height
    row = tile_m * BM + tl.arange(0, BM)
    column = tile_n * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        depth = start + tl.arange(0, BK)
        a_mask = (row < M)[:, None] & (depth < K)[None, :]
        b_mask = (depth < K)[:, None] & (column < N)[None, :]
        a = tl.load(a_ptr + row[:, None] * K + depth[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + depth[:, None] * N + column[None, :], mask=b_mask, other=0.0)
        total = tl.dot(a, b, total)
    c_mask = (row < M)[:, None] & (column < N)[None, :]
    tl.store(c_ptr + row[:, None] * N + column[None, :], total, mask=c_mask)


def kernel_function(a, b):
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    block_m, block_n = 32, 256
    grid = (triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)
    _product[grid](
        a, b, c, m, n, k,
        BM=block_m, BN=block_n, BK=16, GROUP=1,
        num_warps=16, num_stages=6,
    )  # fmt: skip
    return c
