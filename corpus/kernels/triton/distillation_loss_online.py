"""
---
slug: distillation-loss-online
title: Kullback-Leibler divergence of a student's softmax from a teacher's in one reading of both
op: distillation-loss
language: triton
techniques: [online-reduction, kernel-fusion, loop-unrolling]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[16, 128], [7, 100], [5, 3], [1, 1000]]
  bench: [8192, 32768]
check_params: {block: 64, unroll: 2}
sources:
  - title: "PyTorch: torch.nn.functional.kl_div"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.kl_div.html
    licence: BSD-3-Clause
  - title: "Hinton, Vinyals, Dean: Distilling the Knowledge in a Neural Network"
    url: https://arxiv.org/abs/1503.02531
    licence: arXiv-nonexclusive
  - title: "Milakov, Gimelshein: Online normalizer calculation for softmax"
    url: https://arxiv.org/abs/1805.02867
    licence: arXiv-nonexclusive
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x32768
  dtype: bfloat16
  baseline: eager
  baseline_ms: 5.341
  measured_ms: 0.2553
  speedup: 20.92
  floor_fraction: 0.9834
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 8192x32768
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.8819
  measured_ms: 0.2553
  speedup: 3.454
  floor_fraction: 0.9834
---

The sum over classes of p * (log p - log q), p and q being the softmax of a teacher's logits t and
of a student's s. Written out it is sum(exp(t - lse(t)) * (t - s)) - lse(t) + lse(s) with lse the
logarithm of the sum of exponentials: three sums and two maxima, all of which one reading of t and s
gives. As separate operations two log-softmaxes are read twice and written once each before the
first product is formed.

Each element of a program's block keeps its own maxima and sums; the sums are scaled whenever a
maximum grows. `unroll` values are taken together, so that the scaling is paid once for them.
Threads meet once, at the end of the row. A row's loss is one number; a second launch sums the rows
in a fixed order.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [256, 512, 1024, 2048], "unroll": [1, 2, 4], "num_warps": [2, 4, 8]}

REDUCTIONS = ("batchmean", "mean", "sum", "none")

# For exp(x) as a power of 2: tl.exp spends further instructions on results below 2**-126.
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _taken(
    student_row, teacher_row, top_s, sum_s, top_t, sum_t, product, start, N, stride_sn, stride_tn,
    FULL: tl.constexpr, UNROLL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Maxima and sums after `UNROLL` more values of both."""
    students, teachers = (), ()
    new_s, new_t = top_s, top_t
    for k in tl.static_range(UNROLL):
        n = start + k * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
        if FULL:
            s = tl.load(student_row + n * stride_sn).to(tl.float32)
            t = tl.load(teacher_row + n * stride_tn).to(tl.float32)
        else:
            low = float("-inf")
            s = tl.load(student_row + n * stride_sn, mask=n < N, other=low).to(tl.float32)
            t = tl.load(teacher_row + n * stride_tn, mask=n < N, other=low).to(tl.float32)
        new_s = tl.maximum(new_s, s)
        new_t = tl.maximum(new_t, t)
        students += (s,)
        teachers += (t,)
    sum_s *= tl.exp2((top_s - new_s) * LOG2_E)
    scale = tl.exp2((top_t - new_t) * LOG2_E)
    sum_t *= scale
    product *= scale
    for k in tl.static_range(UNROLL):
        sum_s += tl.exp2((students[k] - new_s) * LOG2_E)
        power = tl.exp2((teachers[k] - new_t) * LOG2_E)
        sum_t += power
        term = power * (teachers[k] - students[k])
        if not FULL:
            n = start + k * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
            term = tl.where(n < N, term, 0.0)
        product += term
    return new_s, sum_s, new_t, sum_t, product


@triton.jit
def _row_kernel(
    student_ptr, teacher_ptr, losses_ptr, N,
    stride_sm, stride_sn, stride_tm, stride_tn,
    UNROLL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # Row times stride is taken in int64: it passes 2**31 on tensors of a few GB.
    row = tl.program_id(0).to(tl.int64)
    s_row = student_ptr + row * stride_sm
    t_row = teacher_ptr + row * stride_tm
    # The lowest finite number in place of -inf: no -inf minus -inf before the first value.
    top_s = tl.full((BLOCK,), -3.4028234663852886e38, dtype=tl.float32)
    top_t = tl.full((BLOCK,), -3.4028234663852886e38, dtype=tl.float32)
    sum_s = tl.zeros((BLOCK,), dtype=tl.float32)
    sum_t = tl.zeros((BLOCK,), dtype=tl.float32)
    product = tl.zeros((BLOCK,), dtype=tl.float32)
    full = N // (UNROLL * BLOCK) * (UNROLL * BLOCK)
    for start in tl.range(0, full, UNROLL * BLOCK):
        top_s, sum_s, top_t, sum_t, product = _taken(
            s_row, t_row, top_s, sum_s, top_t, sum_t, product, start, N, stride_sn, stride_tn,
            True, UNROLL, BLOCK,
        )  # fmt: skip
    for start in tl.range(full, N, BLOCK):
        top_s, sum_s, top_t, sum_t, product = _taken(
            s_row, t_row, top_s, sum_s, top_t, sum_t, product, start, N, stride_sn, stride_tn,
            False, 1, BLOCK,
        )  # fmt: skip
    high_s = tl.max(top_s, axis=0)
    high_t = tl.max(top_t, axis=0)
    scale = tl.exp2((top_t - high_t) * LOG2_E)
    total_s = tl.sum(sum_s * tl.exp2((top_s - high_s) * LOG2_E), axis=0)
    total_t = tl.sum(sum_t * scale, axis=0)
    apart = tl.sum(product * scale, axis=0) / total_t
    # Differences first: they keep the digits that large logits have in common. Then the sums one by
    # one: what is lost in the logarithm of one must be lost beside it too, so that equal
    # distributions have no divergence.
    loss = (apart - (high_t - high_s) + tl.log(total_s)) - tl.log(total_t)
    tl.store(losses_ptr + row, loss.to(losses_ptr.dtype.element_ty))


@triton.jit
def _sum_kernel(losses_ptr, out_ptr, M, factor, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in tl.range(0, M, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(losses_ptr + i, mask=i < M, other=0.0)
    tl.store(out_ptr, (tl.sum(total, axis=0) * factor).to(out_ptr.dtype.element_ty))


def _checked(student: torch.Tensor, teacher: torch.Tensor, reduction: str) -> None:
    if student.dim() != 2 or student.shape != teacher.shape:
        raise ValueError(
            f"student {list(student.shape)} and teacher {list(teacher.shape)}: both are [rows, "
            "classes]"
        )
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction is one of {', '.join(REDUCTIONS)}, not '{reduction}'")


def kernel_function(
    student: torch.Tensor,
    teacher: torch.Tensor,
    reduction: str = "batchmean",
    out_dtype: torch.dtype | None = None,
    block: int = 512,
    unroll: int = 4,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return the divergence of softmax(`student`) from softmax(`teacher`), logits [rows, classes],
    summed over the classes, in `out_dtype` (the student's if None), for reduction "none" a number a
    row, else their sum, divided by rows ("batchmean") or by all elements ("mean").
    """
    _checked(student, teacher, reduction)
    count, classes = student.shape
    dtype = out_dtype or student.dtype
    whole = reduction == "none"
    empty = torch.empty if classes else torch.zeros
    losses = empty(count, dtype=dtype if whole else torch.float32, device=student.device)
    if student.numel():
        _row_kernel[(count,)](
            student, teacher, losses, classes, *student.stride(), *teacher.stride(),
            UNROLL=unroll, BLOCK=min(block, triton.next_power_of_2(classes)), num_warps=num_warps,
        )  # fmt: skip
    if whole:
        return losses
    parts = {"batchmean": count, "mean": count * classes, "sum": 1}[reduction]
    out = torch.empty((), dtype=dtype, device=student.device)
    factor = 1.0 / parts if parts else float("nan")
    _sum_kernel[(1,)](losses, out, count, factor, BLOCK=16384, num_warps=32)
    return out


def reference(
    student: torch.Tensor, teacher: torch.Tensor, reduction: str = "batchmean"
) -> torch.Tensor:
    # In 16-bit formats a logarithm of some 10 has two digits after the point.
    mine = torch.log_softmax(student.float(), dim=-1)
    theirs = torch.log_softmax(teacher.float(), dim=-1)
    loss = torch.nn.functional.kl_div(mine, theirs, reduction=reduction, log_target=True)
    return (loss.sum(-1) if reduction == "none" else loss).to(student.dtype)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [rows, classes]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    drawn = [torch.randn(size, dtype=dtype, device=device, generator=generator) for _ in range(2)]
    return [*drawn, "batchmean"]
