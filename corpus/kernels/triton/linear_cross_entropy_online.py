"""
---
slug: linear-cross-entropy-online
title: Cross entropy of a linear layer's outputs, the logits never written to memory
op: fused-linear-cross-entropy
language: triton
techniques: [online-reduction, kernel-fusion, tensor-cores, tma-host-descriptor]
architectures: [sm_90]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[40, 48, 100], [33, 20, 130], [1, 16, 7]]
  bench: [4096, 2048, 32768]
check_params: {block_m: 32, block_v: 32, block_k: 32, steps: 2, programs: 2}
sources:
  - title: "Wijmans et al.: Cut your losses in large-vocabulary language models"
    url: https://arxiv.org/abs/2411.09009
    licence: proprietary
  - title: "Milakov, Gimelshein: Online normalizer calculation for softmax"
    url: https://arxiv.org/abs/1805.02867
    licence: arXiv-nonexclusive
  - title: "PyTorch: torch.nn.functional.cross_entropy"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cross_entropy.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 4096x2048x32768
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.511
  measured_ms: 0.7533
  speedup: 2.006
  floor_fraction: 0.9096
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 4096x2048x32768
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.8809
  measured_ms: 0.7533
  speedup: 1.169
  floor_fraction: 0.9096
---

The loss after a language model's last layer (lm_head), without materializing the logits. The loss
of a token is logsumexp(h W^T) - h W[target]: of a vocabulary's worth of logits two numbers matter.
Written out, the logits of 16,384 tokens and 128,000 words are 4 GB in bfloat16, and the loss reads
them again, often in float32.

A program computes tiles of logits on tensor cores, both operands loaded by TMA, for a block of
tokens and `steps` neighbouring blocks of the vocabulary. It keeps for each token the largest logit
so far and the sum of exponentials below it, and picks the target's logit from the tile that holds
it. The vocabulary is so split over programs: a few tokens fill the GPU as well. The parts are
merged by a second launch and the losses added up by a third, in a fixed order.

The products are those of an ordinary matrix product, whose time this cannot go below: the gain is
the memory, and one writing and some readings of the logits. There is no gain where hidden states
are long (K over some 8,192) and memory suffices. The logits are not rounded to 16 bits before the
loss. For gradients the logits have to be computed again.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

TUNABLES = {
    "block_m": [64, 128],
    "block_v": [128, 256],
    "block_k": [32, 64],
    "steps": [1, 2, 4, 8],
    "programs": [528, 1024],
    "num_warps": [4, 8],
    "num_stages": [3, 4],
}

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
# Stands for "no logit yet": finite, so that differences are numbers.
LOWEST = tl.constexpr(-3.0e38)
# Rows that a program of the second launch merges, and losses that the third one takes at a time.
MERGED = 16
ADDED = 4096
REDUCTIONS = ("none", "mean", "sum")


@triton.jit
def _parts_kernel(
    hidden_desc, weight_desc, target_ptr, top_ptr, below_ptr, own_ptr,
    T, V, K, steps,
    BLOCK_M: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Largest logit, sum of exponentials below it, and the target's logit, [parts, T] each; logits
    times log2(e)."""
    blocks = tl.cdiv(T, BLOCK_M)
    # Neighbouring programs read the same part of the weight, the larger matrix.
    row = tl.program_id(0) % blocks * BLOCK_M
    part = tl.program_id(0) // blocks
    rows = row + tl.arange(0, BLOCK_M)
    target = tl.load(target_ptr + rows, mask=rows < T, other=-1)
    largest = tl.full((BLOCK_M,), LOWEST, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    own = tl.zeros((BLOCK_M,), dtype=tl.float32)
    first = part * steps * BLOCK_V
    for col in tl.range(first, tl.minimum(first + steps * BLOCK_V, V), BLOCK_V):
        acc = tl.zeros((BLOCK_M, BLOCK_V), dtype=tl.float32)
        for k in tl.range(0, K, BLOCK_K):
            hidden = hidden_desc.load([row, k])
            weight = weight_desc.load([col, k])
            # float32 operands: three TF32 products keep float32 accuracy on tensor cores.
            acc = tl.dot(hidden, weight.trans(), acc, input_precision="tf32x3")
        cols = col + tl.arange(0, BLOCK_V)
        logits = tl.where((cols < V)[None, :], acc * LOG2_E, LOWEST)
        mine = cols[None, :] == target[:, None]
        own += tl.sum(tl.where(mine, logits, 0.0), axis=1)
        new_max = tl.maximum(largest, tl.max(logits, axis=1))
        total = total * tl.exp2(largest - new_max)
        total += tl.sum(tl.exp2(logits - new_max[:, None]), axis=1)
        largest = new_max
    place = part.to(tl.int64) * T + rows
    tl.store(top_ptr + place, largest, mask=rows < T)
    tl.store(below_ptr + place, total, mask=rows < T)
    tl.store(own_ptr + place, own, mask=rows < T)


@triton.jit
def _merge_kernel(
    top_ptr, below_ptr, own_ptr, target_ptr, loss_ptr, T, V, parts, ignore_index,
    PARTS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    in_t = rows < T
    highest = tl.full((ROWS,), LOWEST, dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    own = tl.zeros((ROWS,), dtype=tl.float32)
    for start in tl.range(0, parts, PARTS):
        part = start + tl.arange(0, PARTS)
        at = part.to(tl.int64)[:, None] * T + rows[None, :]
        mask = (part < parts)[:, None] & in_t[None, :]
        top = tl.load(top_ptr + at, mask=mask, other=LOWEST)
        below = tl.load(below_ptr + at, mask=mask, other=0.0)
        own += tl.sum(tl.load(own_ptr + at, mask=mask, other=0.0), axis=0)
        new_max = tl.maximum(highest, tl.max(top, axis=0))
        total = total * tl.exp2(highest - new_max)
        total += tl.sum(below * tl.exp2(top - new_max[None, :]), axis=0)
        highest = new_max
    target = tl.load(target_ptr + rows, mask=in_t, other=0)
    loss = (highest + tl.log2(total) - own) * LN_2
    # A target out of range has no logit: NaN says so instead of a wrong loss.
    loss = tl.where((target >= 0) & (target < V), loss, float("nan"))
    loss = tl.where(target == ignore_index, 0.0, loss)
    tl.store(loss_ptr + rows, loss, mask=in_t)


@triton.jit
def _total_kernel(
    loss_ptr, target_ptr, out_ptr, T, ignore_index, MEAN: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    count = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in tl.range(0, T, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        total += tl.load(loss_ptr + rows, mask=rows < T, other=0.0)
        target = tl.load(target_ptr + rows, mask=rows < T, other=ignore_index)
        count += (target != ignore_index).to(tl.int32)
    result = tl.sum(total, axis=0)
    if MEAN:
        result = result / tl.sum(count, axis=0).to(tl.float32)
    tl.store(out_ptr, result)


def _for_tma(x: torch.Tensor) -> torch.Tensor:
    """`x` [R, K] as TMA can address it: a copy with padded rows where it cannot."""
    unit = 16 // x.element_size()
    stride = x.stride(0) if x.shape[0] > 1 else triton.cdiv(x.shape[1], unit) * unit
    if x.stride(1) == 1 and stride >= x.shape[1] and stride % unit == 0 and not x.data_ptr() % 16:
        return x.as_strided(x.shape, (stride, 1))
    padded = triton.cdiv(x.shape[1], unit) * unit
    copy = torch.empty((x.shape[0], padded), dtype=x.dtype, device=x.device)
    return copy[:, : x.shape[1]].copy_(x)


def kernel_function(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    reduction: str = "mean",
    ignore_index: int = -100,
    block_m: int = 128,
    block_v: int = 256,
    block_k: int = 64,
    steps: int = 4,
    programs: int = 1024,
    num_warps: int = 8,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return the cross entropy of the logits `hidden @ weight.T` against `target` [T], float32: for
    reduction "none" a loss a token, [T], else one number.

    `hidden` is [T, K] and `weight` [V, K], of one dtype. Targets are integers in [0, V) or
    `ignore_index`, whose loss is 0 and who do not count in the mean; other targets give NaN.
    A program takes `steps` blocks of words, or fewer until `programs` programs run.
    `block_k` is cut to 128 bytes a row, the widest swizzle that TMA knows.
    """
    if hidden.ndim != 2 or weight.ndim != 2 or hidden.shape[1] != weight.shape[1]:
        raise ValueError(f"hidden {list(hidden.shape)} and weight {list(weight.shape)} do not fit")
    if hidden.dtype != weight.dtype or not weight.numel():
        raise ValueError("hidden and weight must have one dtype, and weight must not be empty")
    if tuple(target.shape) != (hidden.shape[0],) or target.is_floating_point():
        raise ValueError(f"target must be integers [{hidden.shape[0]}], not {list(target.shape)}")
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction is one of {', '.join(REDUCTIONS)}, not '{reduction}'")
    (tokens, k), words = hidden.shape, weight.shape[0]
    target = target.contiguous()
    loss = torch.empty(tokens, dtype=torch.float32, device=hidden.device)
    if tokens:
        if hidden.dtype == torch.bfloat16 and not hidden.is_cuda:
            # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
            hidden, weight = hidden.float(), weight.float()
        block_k = min(block_k, 128 // hidden.element_size())
        if hidden.element_size() > 2:  # three products of each: registers for half the columns
            block_v = min(block_v, 128)
        hidden, weight = _for_tma(hidden), _for_tma(weight)
        blocks, tiles = triton.cdiv(tokens, block_m), triton.cdiv(words, block_v)
        steps = max(1, min(steps, blocks * tiles // programs))
        parts = triton.cdiv(tiles, steps)
        top, below, own = torch.empty((3, parts, tokens), dtype=torch.float32, device=loss.device)
        _parts_kernel[(blocks * parts,)](
            TensorDescriptor.from_tensor(hidden, [block_m, block_k]),
            TensorDescriptor.from_tensor(weight, [block_v, block_k]),
            target, top, below, own,
            tokens, words, k, steps,
            BLOCK_M=block_m, BLOCK_V=block_v, BLOCK_K=block_k,
            num_warps=num_warps, num_stages=num_stages,
        )  # fmt: skip
        _merge_kernel[(triton.cdiv(tokens, MERGED),)](
            top, below, own, target, loss, tokens, words, parts, ignore_index,
            PARTS=min(128, triton.next_power_of_2(parts)), ROWS=MERGED, num_warps=4,
        )  # fmt: skip
    if reduction == "none":
        return loss
    out = torch.empty((), dtype=torch.float32, device=loss.device)
    _total_kernel[(1,)](
        loss, target, out, tokens, ignore_index,
        MEAN=reduction == "mean", BLOCK=ADDED, num_warps=8,
    )  # fmt: skip
    return out


def reference(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> torch.Tensor:
    # Models compute the loss of 16-bit logits in float32.
    logits = (hidden @ weight.T).float()
    return torch.nn.functional.cross_entropy(
        logits, target, reduction=reduction, ignore_index=ignore_index
    )


def agrees(actual: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> str | None:
    """Losses differ by more than float32 sums do: the reference rounds logits to 16 bits."""
    (loss,), (wanted,) = actual, expected
    if not torch.equal(loss == 0, wanted == 0) and wanted.ndim:
        return "other tokens are ignored than in the reference"
    error = float((loss - wanted).norm() / wanted.norm().clamp_min(1e-3))
    return None if error < 5e-3 else f"relative error {error:.2g} (allowed 5e-03)"


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [tokens, K, words]; one target in seven is ignored."""
    tokens, k, words = size
    generator = torch.Generator(device=device).manual_seed(seed)
    hidden = torch.randn((tokens, k), dtype=dtype, device=device, generator=generator)
    weight = torch.randn((words, k), dtype=dtype, device=device, generator=generator) * k**-0.5
    target = torch.randint(0, words, (tokens,), device=device, generator=generator)
    target[3::7] = -100
    return [hidden, 2 * weight, target, "none"]
