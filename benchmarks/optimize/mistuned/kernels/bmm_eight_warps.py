"""Batched product, 16 x 16 tiles shared by eight warps."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "bmm", "constants": {"BATCH": 64, "SIDE": 512}}


@triton.jit
def _bmm(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    batch = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        depth = start + tl.arange(0, BK)
        a_mask = (row < M)[:, None] & (depth < K)[None, :]
        b_mask = (depth < K)[:, None] & (column < N)[None, :]
        a_at = batch * M * K + row[:, None] * K + depth[None, :]
        b_at = batch * K * N + depth[:, None] * N + column[None, :]
        a = tl.load(a_ptr + a_at, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + b_at, mask=b_mask, other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    c_mask = (row < M)[:, None] & (column < N)[None, :]
    tl.store(c_ptr + batch * M * N + row[:, None] * N + column[None, :], total, mask=c_mask)


def kernel_function(a, b):
    batch, m, k = a.shape
    n = b.shape[2]
    c = torch.empty((batch, m, n), dtype=a.dtype, device=a.device)
    _bmm[(triton.cdiv(m, 16), triton.cdiv(n, 16), batch)](
        a, b, c, m, n, k, BM=16, BN=16, BK=16, num_warps=8
    )
    return c
