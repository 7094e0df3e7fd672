"""Attention with an online softmax over blocks of keys."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "attention", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _attention(
    q_ptr, k_ptr, v_ptr, out_ptr, tokens, width, scale, T: tl.constexpr, W: tl.constexpr
):
    base = tl.program_id(1).to(tl.int64) * tokens * width
    query = tl.program_id(0) * T + tl.arange(0, T)
    lane = tl.arange(0, W)
    inside = (query < tokens)[:, None] & (lane < width)[None, :]
    q = tl.load(q_ptr + base + query[:, None] * width + lane[None, :], mask=inside, other=0)
    highest = tl.full((T,), -float("inf"), tl.float32)
    total = tl.zeros((T,), tl.float32)
    sums = tl.zeros((T, W), tl.float32)
    for first in range(0, tokens, T):
        key = first + tl.arange(0, T)
        held = (key < tokens)[:, None] & (lane < width)[None, :]
        k = tl.load(k_ptr + base + key[:, None] * width + lane[None, :], mask=held, other=0)
        v = tl.load(v_ptr + base + key[:, None] * width + lane[None, :], mask=held, other=0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where((key < tokens)[None, :], scores, -float("inf"))
        higher = tl.maximum(highest, tl.max(scores, axis=1))
        weights = tl.exp(scores - higher[:, None])
        fade = tl.exp(highest - higher)
        total = total * fade + tl.sum(weights, axis=1)
        sums = tl.dot(weights, v, sums * fade[:, None], input_precision="ieee")
        highest = higher
    result = sums / total[:, None]
    tl.store(out_ptr + base + query[:, None] * width + lane[None, :], result, mask=inside)


def kernel_function(q, k, v):
    batch, heads, tokens, width = q.shape
    out = torch.empty_like(q)
    block = max(16, triton.next_power_of_2(width))
    grid = (triton.cdiv(tokens, 32), batch * heads)
    _attention[grid](q, k, v, out, tokens, width, width**-0.5, T=32, W=block)
    return out
