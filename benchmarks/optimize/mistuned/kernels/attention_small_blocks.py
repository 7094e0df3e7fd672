"""Attention with blocks of 16 queries and 16 keys, eight warps for each."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "attention", "constants": {"HEADS": 16, "TOKENS": 1024}}


@triton.jit
def _attention(
    q_ptr, k_ptr, v_ptr, out_ptr, tokens, width, scale,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    base = tl.program_id(1).to(tl.int64) * tokens * width
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    lane = tl.arange(0, WIDTH)
    q_mask = (query < tokens)[:, None] & (lane < width)[None, :]
    q = tl.load(q_ptr + base + query[:, None] * width + lane[None, :], mask=q_mask, other=0.0)
    top = tl.full((QUERIES,), -float("inf"), tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    result = tl.zeros((QUERIES, WIDTH), tl.float32)
    for start in range(0, tokens, KEYS):
        key = start + tl.arange(0, KEYS)
        mask = (key < tokens)[:, None] & (lane < width)[None, :]
        at = base + key[:, None] * width + lane[None, :]
        k = tl.load(k_ptr + at, mask=mask, other=0.0)
        v = tl.load(v_ptr + at, mask=mask, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where((key < tokens)[None, :], scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, axis=1))
        weights = tl.exp(scores - higher[:, None])
        shrink = tl.exp(top - higher)
        total = total * shrink + tl.sum(weights, axis=1)
        result = tl.dot(weights, v, result * shrink[:, None], input_precision="ieee")
        top = higher
    out = base + query[:, None] * width + lane[None, :]
    tl.store(out_ptr + out, result / total[:, None], mask=q_mask)


def kernel_function(q, k, v):
    batch, heads, tokens, width = q.shape
    out = torch.empty_like(q)
    grid = (triton.cdiv(tokens, 16), batch * heads)
    _attention[grid](
        q, k, v, out, tokens, width, width**-0.5,
        QUERIES=16, KEYS=16, WIDTH=triton.next_power_of_2(width), num_warps=8,
    )  # fmt: skip
    return out
