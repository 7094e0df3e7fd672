"""
---
slug: moe-route-groups
title: Short router of experts, sigmoid or softmax scores, best groups, top-k by repeated maxima
op: moe-routing
language: triton
techniques: [kernel-fusion, register-caching]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[40, 16, 4, 2, 3], [37, 20, 1, 1, 3], [5, 21, 3, 2, 4], [33, 6, 6, 3, 2]]
  bench: [65536, 256, 8, 4, 8]
check_params: {block_t: 8}
sources:
  - title: "DeepSeek-AI: DeepSeek-V3 technical report"
    url: https://arxiv.org/abs/2412.19437
    licence: proprietary
  - title: "Shazeer et al.: Outrageously large neural networks, the sparsely-gated MoE layer"
    url: https://arxiv.org/abs/1701.06538
    licence: proprietary
---

The router of DeepSeek-V3: scores are sigmoids, or a softmax, of the logits. Experts are chosen by
score plus a bias, which balances their load, and only in the best groups, which are ranked by the
sum of their two best experts. The weights are the scores without the bias, scaled to a given sum.
PyTorch does this in some twenty launches on tensors of a few MB, most of which is latency.

One launch here. A program holds the scores of a few tokens in registers. A group's two best, the
best groups and the k experts are all found in the same way: take the maximum, note which it is, put
-inf in its place. Of equal values the first one is taken. That is a pass over registers for each,
which is right for a k of up to 8 or so.

How often each expert was chosen is counted by one atomic addition for each program and expert: sums
of integers do not depend on the order. A stable order of the choices by expert, as a grouped
product needs it, is what `moe-route-topk` finds as well, in more than twice the code.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "block_t": [2, 4, 8, 16],
    "num_warps": [1, 2, 4],
}


@triton.jit
def _take_best(x, number):
    """The largest of each row, the lowest number beside it, and x without what has that number."""
    best = tl.max(x, axis=1, keep_dims=True)
    first = tl.min(tl.where(x == best, number, 2147483647), axis=1, keep_dims=True)
    return best, first, tl.where(number == first, float("-inf"), x)


@triton.jit
def _route_kernel(
    logits_ptr, bias_ptr, weights_ptr, ids_ptr, counts_ptr, T, E, SIZE, scale,
    SOFTMAX: tl.constexpr, GROUPS: tl.constexpr, KEPT: tl.constexpr, K: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    token = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)).to(tl.int64)[:, None]
    expert = tl.arange(0, BLOCK_E)[None, :]
    there = (token < T) & (expert < E)
    x = tl.load(logits_ptr + token * E + expert, mask=there, other=float("-inf")).to(tl.float32)
    if SOFTMAX:
        score = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
        score /= tl.sum(score, axis=1, keep_dims=True)
    else:
        score = tl.sigmoid(x)
    bias = tl.load(bias_ptr + expert, mask=expert < E, other=0.0)
    choice = tl.where(there, score + bias, float("-inf"))
    if KEPT < GROUPS:
        group = expert // SIZE
        rank = choice
        for g in tl.range(GROUPS):
            best, first, rest = _take_best(tl.where(group == g, choice, float("-inf")), expert)
            second = tl.max(rest, axis=1, keep_dims=True)
            rank = tl.where(group == g, best + tl.where(second > float("-inf"), second, 0.0), rank)
        kept = choice > float("inf")  # none
        for _i in tl.range(KEPT):
            best, first, rank = _take_best(rank, group)
            kept |= group == first
        choice = tl.where(kept, choice, float("-inf"))
    slot = tl.arange(0, BLOCK_K)[None, :]
    weights = tl.zeros((BLOCK_T, BLOCK_K), tl.float32)
    ids = tl.zeros((BLOCK_T, BLOCK_K), tl.int32)
    count = tl.zeros((BLOCK_T, BLOCK_E), tl.int32)
    for j in tl.range(K):
        best, first, choice = _take_best(choice, expert)
        chosen = expert == first
        weight = tl.sum(tl.where(chosen, score, 0.0), axis=1, keep_dims=True)
        weights = tl.where(slot == j, weight, weights)
        ids = tl.where(slot == j, first, ids)
        count += (chosen & there).to(tl.int32)
    weights *= scale / (tl.sum(weights, axis=1, keep_dims=True) + 1e-20)
    mask = (token < T) & (slot < K)
    tl.store(weights_ptr + token * K + slot, weights, mask=mask)
    tl.store(ids_ptr + token * K + slot, ids, mask=mask)
    count = tl.sum(count, axis=0, keep_dims=True)
    tl.atomic_add(counts_ptr + expert, count, mask=count > 0)


def kernel_function(
    logits: torch.Tensor,
    bias: torch.Tensor,
    k: int,
    groups: int = 1,
    kept: int = 1,
    scale: float = 1.0,
    softmax: bool = False,
    block_t: int = 8,
    num_warps: int = 4,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Route T tokens to `k` of E experts by `logits` [T, E] -> weights float32 [T, k], experts
    int32 [T, k], and counts int32 [E], how often each expert was chosen.

    Scores are sigmoids of the logits, or with `softmax` their softmax. Experts are ranked by score
    plus `bias` float32 [E], in falling order, of equal ones the lower one first. The experts are
    `groups` groups of neighbours, of which only the `kept` ones count whose two best experts have
    the largest sum. Weights are scores, scaled to a sum of `scale`. E is at most 1024. Logits that
    are not contiguous are copied.
    """
    t, e = logits.shape
    if bias.shape != (e,) or e > 1024 or e % groups or not 0 < k <= kept * (e // groups) <= e:
        raise ValueError(f"{e} experts in {groups} groups, {kept} kept, k = {k}: they do not fit")
    weights = torch.empty((t, k), dtype=torch.float32, device=logits.device)
    ids = torch.empty((t, k), dtype=torch.int32, device=logits.device)
    counts = torch.zeros(e, dtype=torch.int32, device=logits.device)
    _route_kernel[(triton.cdiv(t, block_t),)](
        logits.contiguous(), bias.contiguous(), weights, ids, counts, t, e, e // groups, scale,
        SOFTMAX=softmax, GROUPS=groups, KEPT=kept, K=k, BLOCK_T=block_t,
        BLOCK_E=triton.next_power_of_2(e), BLOCK_K=triton.next_power_of_2(k), num_warps=num_warps,
    )  # fmt: skip
    return weights, ids, counts


def reference(
    logits: torch.Tensor,
    bias: torch.Tensor,
    k: int,
    groups: int = 1,
    kept: int = 1,
    scale: float = 1.0,
    softmax: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    scores = logits.float().softmax(-1) if softmax else logits.float().sigmoid()
    choice = scores + bias
    parts = choice.unflatten(1, (groups, -1))
    rank = parts.topk(min(2, parts.shape[2]), dim=-1).values.sum(-1)
    # Of equal values PyTorch's topk takes any; a stable sort takes the first.
    best = torch.sort(rank, dim=-1, descending=True, stable=True).indices[:, :kept]
    allowed = torch.zeros_like(rank, dtype=torch.bool).scatter_(1, best, True)
    choice = parts.masked_fill(~allowed[..., None], float("-inf")).flatten(1)
    ids = torch.sort(choice, dim=-1, descending=True, stable=True).indices[:, :k]
    weights = scores.gather(1, ids)
    weights = weights * (scale / (weights.sum(-1, keepdim=True) + 1e-20))
    counts = torch.bincount(ids.flatten(), minlength=logits.shape[1])
    return weights, ids.to(torch.int32), counts.to(torch.int32)


def agrees(actual: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> str | None:
    """Rounding may exchange experts of nearly equal scores, in a token of some thousand; in fewer
    than 1000 tokens it must not happen."""
    wrong = (actual[1] != expected[1]).any(dim=1)
    allowed = wrong.numel() // 1000
    if int(wrong.sum()) > allowed:
        return f"{int(wrong.sum())} tokens have other experts, at most {allowed} may"
    if not torch.allclose(actual[0][~wrong], expected[0][~wrong], rtol=1e-4, atol=1e-6):
        return "the weights differ"
    moved = int((actual[2] - expected[2]).abs().sum())
    return "the counts differ" if moved > 2 * int(wrong.sum()) * expected[1].shape[1] else None


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [tokens, experts, groups, groups kept, k]."""
    t, e, groups, kept, k = size
    generator = torch.Generator(device=device).manual_seed(seed)
    logits = (torch.randn((t, e), device=device, generator=generator) * 1.5).to(dtype)
    bias = torch.randn(e, device=device, generator=generator) * 0.05
    return [logits, bias, k, groups, kept, 2.5]
