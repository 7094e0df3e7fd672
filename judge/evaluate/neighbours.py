"""Bounds where outputs are few: eager's error on inputs that are nearly the same.

A loss is one number. If eager's roundings cancel in it by chance, twice eager's error is too
strict a bound: the same sums in another order may err more. So eager's error is also taken on a
few neighbours of the inputs before a kernel that is nearly right is called wrong. What it errs by
may be a few roundings of what it is computed from, as in a divergence of two nearly equal
distributions: where that is a small part of the number, it is allowed.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from judge.evaluate.faults import refuse_shortage
from judge.evaluate.prepared import Prepared
from judge.evaluate.result import Case
from judge.evaluate.session import CommandFailedError
from judge.evaluate.stage import FEW, STEPS, Stage

# Of errors that are spread like a normal distribution, the largest of eight exceeds 0.4 standard
# deviations in all but one case of a thousand; a single one in two of three.
_NEIGHBOURS = 8
# Beyond so many times its bound a result is wrong, whatever the neighbours say; but for roundings,
# since eager's error, and the bound with it, can be next to nothing.
_CLOSE = 64.0
# Roundings are allowed without eager's doing the same only where they are so small a part of the
# result: a kernel that writes zero errs by all of it.
_SMALL_PART = 1 / 16
# Roundings of numbers as large as the inputs, or as 1: probabilities are, whatever the inputs.
_ROUNDINGS = 8 * 2.0**-24


def is_close(case: Case, roundings: float) -> bool:
    """Whether a case failed by so little that its bounds deserve a second look.

    `roundings` is the absolute error that roundings explain.
    """
    ratio, worst = case.norm_ratio, case.max_rel
    if case.passed or not case.counted or case.refused or ratio is None or worst is None:
        return False
    norm, element = case.tolerance or 0.0, case.tolerance_max_rel or 0.0
    if ratio <= norm and worst <= element:  # it is for something else that it failed
        return False
    if not math.isfinite(case.max_abs or 0.0):  # NaN or infinities out of place
        return False
    return _is_nearly_right(case) or (case.max_abs or 0.0) <= roundings


def _is_nearly_right(case: Case) -> bool:
    """Whether it errs by a few times its bound, or where zero was to come out."""
    ratio = case.norm_ratio or 0.0
    return math.isinf(ratio) or ratio <= _CLOSE * (case.tolerance or 0.0)


def widen(stage: Stage, prepared: Prepared, case: Case) -> bool:
    """Give a case that failed by little the bounds that eager's errors close by call for.

    Where eager is wrong on neighbouring inputs, the case no longer counts.

    Returns
    -------
    Whether anything changed. Never where all outputs are of `FEW` elements or more, of
    float64 or NVFP4.
    """
    reference = prepared.reference
    if case.passed or reference is None or reference.values is not None:
        return False
    is_few = [
        tensor is not None and tensor.values.numel() < FEW and tensor.dtype != torch.float64
        for tensor in reference.expected
    ]
    if not any(is_few):
        return False
    slack = _ROUNDINGS * max(1.0, _largest(prepared.pristine))
    if not is_close(case, slack):
        return False
    limits = list(prepared.limits)
    if _is_nearly_right(case) or (case.norm_ratio or 0.0) <= _SMALL_PART:
        limits = [
            replace(limit, absolute=max(limit.absolute, slack)) if limit and wide else limit
            for limit, wide in zip(limits, is_few, strict=True)
        ]
    for number in range(_NEIGHBOURS):
        try:
            got, oracle = stage.nearby(prepared, number)
        except CommandFailedError as error:
            refuse_shortage(error)
            return False
        near = reference.at(oracle)
        eager = near.check(got, near.eager_limits())
        if eager.problem:
            prepared.why_not = f"eager itself is wrong on nearby inputs: {eager.problem}"
            return True
        for index, limit in enumerate(near.candidate_limits(eager)):
            previous = limits[index]
            if is_few[index] and limit is not None and previous is not None:
                limits[index] = previous.or_wider(limit)
    changed = limits != prepared.limits
    prepared.limits = limits
    return changed


def _largest(inputs: Sequence[Any]) -> float:
    """The largest finite magnitude among the floating-point inputs."""
    floating = [
        input_
        for input_ in inputs
        if input_ is not None and input_.dtype in STEPS and input_.numel()
    ]
    return max(
        (float(t.abs().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).max()) for t in floating),
        default=0.0,
    )
