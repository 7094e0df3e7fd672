"""Proof that the judge would have refused wrong kernels: deliberate mistakes, case by case.

On the given values of some problems a wrong kernel passes: a bfloat16 dot product of 2²⁰ uniform
numbers is a constant within rounding. So every evaluation tests whether zeros, the mean of the
right answer, and the exact results of a shortened or thinned out computation would be refused. It
tests the given shape and the smaller ones separately, because a kernel can distinguish them.
"""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from judge.evaluate.cases import MORE_TELLING, SEED_BITS, PlannedCase, PlannedShape, further_case
from judge.evaluate.prepared import Prepared
from judge.evaluate.result import PowerCheck
from judge.evaluate.stage import Stage
from judge.worker import messages as m
from judge.worker.buffers import dtype_of

_FLOATS = ("float64", "float32", "float16", "bfloat16", "complex64", "complex128")
# More than any operator has; a problem with hundreds of inputs would take hundreds of oracles.
_MOST_MUTATIONS = 24
# Answers that need no computation.
_CONSTANT = ("zeros", "mean")


@dataclass(slots=True)
class Mistake:
    """One wrong kernel, and whether it is refused."""

    name: str
    detail: str
    mutation: m.Mutation | None = None
    """None for answers that need no computation: zeros and the mean."""
    rejected_by: str | None = None
    tried: bool = False
    """Some case was computed with the mistake."""
    differs: bool = False
    """In some case the mistake changes the exact result."""


@dataclass(slots=True)
class Power:
    """What is proven about one group of shapes, "full" or "smaller"."""

    group: str
    _mistakes: dict[str, Mistake] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether every mistake is refused."""
        return bool(self._mistakes) and all(m.rejected_by for m in self._mistakes.values())

    def checks(self) -> list[PowerCheck]:
        """The results, one a mistake."""
        return [
            PowerCheck(
                mutation=mistake.name,
                detail=f"{mistake.detail}, {self.group} shapes",
                rejected_by=mistake.rejected_by,
                applies=mistake.differs or not mistake.tried,
            )
            for mistake in self._mistakes.values()
            if mistake.tried or mistake.mutation is None
        ]

    def examine(self, stage: Stage, prepared: Prepared) -> None:
        """Try on a prepared, counted case whatever is not yet refused."""
        reference = prepared.reference
        assert reference is not None
        for mistake in mistakes(stage, prepared):
            self._mistakes.setdefault(mistake.name + mistake.detail, mistake)
        unrefused = [mistake for mistake in self._mistakes.values() if mistake.rejected_by is None]
        if not unrefused:
            return
        templates = _templates(prepared)
        for mistake in unrefused:
            changes: bool | None = None  # as far as the outputs show
            if mistake.mutation is None:
                outputs = reference.answer_like(templates, mistake.name)
            elif (answer := stage.mutate(mistake.mutation, templates)) is not None:
                outputs, changes = answer
            else:
                continue
            mistake.tried = True
            checked = reference.check(outputs, prepared.limits, _integers(prepared))
            if checked.problem:
                mistake.rejected_by = f"{stage.shape.label} shape, {prepared.kind.value} values"
            if changes is None:
                changes = any(checked.unequal(i) for i in range(len(outputs)))
            mistake.differs = mistake.differs or bool(checked.problem) or changes


def _integers(prepared: Prepared) -> frozenset[int]:
    """Outputs of integers that eager has right: a candidate has to, if eager always has."""
    assert prepared.reference is not None
    expected = prepared.reference.expected
    return frozenset(i for i in prepared.exact if (e := expected[i]) is not None and e.exact)


def a_constant_passes(prepared: Prepared) -> bool:
    """Whether each output's mean would pass as the output, although that is not constant.

    On such values an earlier result, or one estimated from a few elements, would pass as well. The
    unrounded results decide what is constant: rounded to bfloat16, dot products of 2²⁰ uniform
    numbers are all the same.
    """
    reference = prepared.reference
    if reference is None:
        return False
    varies = any(
        tensor is not None and bool((tensor.values != tensor.values.reshape(-1)[:1]).any())
        for tensor in reference.expected
    )
    if not varies:
        return False
    mean = reference.answer_like(_templates(prepared), "mean")
    return reference.check(mean, prepared.limits).problem is None


def mistakes(stage: Stage, prepared: Prepared) -> list[Mistake]:
    """The wrong kernels that have to be refused on this problem.

    Every input's tail dropped along every dimension, every 27th element of an input dropped, and
    a tap of every parameter that has a window.
    """
    result = [Mistake("zeros", "all outputs zero"), Mistake("mean", "every output its mean")]

    def add(name: Any, detail: str, **change: Any) -> None:
        result.append(Mistake(name, detail, m.Mutation(name=name, **change)))

    for index, spec in enumerate(prepared.inputs):
        if spec.tensor is None or spec.tensor.dtype not in _FLOATS:
            continue
        for dim, size in enumerate(spec.tensor.shape):
            if size > 1:
                detail = f"tail of '{spec.name}' along dimension {dim} dropped"
                add("truncate", detail, index=index, dim=dim)
        if spec.tensor.numel > 1:
            detail = f"every 27th element of '{spec.name}' dropped"
            add("sparse", detail, index=index, seed=stage.settings.refill_seed)
    for parameter in stage.problem.parameters:
        shape = parameter.tensor.shape
        if parameter.tensor.dtype in _FLOATS and len(shape) > 2 and max(shape[2:]) > 1:
            add("tap", f"first tap of '{parameter.name}' dropped", parameter=parameter.name)
    return result[:_MOST_MUTATIONS]


def why_unproven(checks: Sequence[PowerCheck], smaller: Sequence[PowerCheck] = ()) -> str | None:
    """Why the judge could not have refused a wrong kernel, in one line; None where it could.

    Parameters
    ----------
    smaller
        At smaller shapes. A computation's mistake counts as refused if it is refused there: for
        a mean over millions, the given shape can refuse none. Answers that need no computation
        have to be refused at the shape that counts, because a kernel can distinguish shapes.
    """
    proven_smaller = {
        check.mutation + check.detail.rpartition(",")[0] for check in smaller if check.proven
    }
    unrefused = [
        check
        for check in checks
        if not check.proven
        and (
            check.mutation in _CONSTANT
            or check.mutation + check.detail.rpartition(",")[0] not in proven_smaller
        )
    ]
    if not unrefused:
        return None
    first = unrefused[0]
    more = f" and {len(unrefused) - 1} more" if len(unrefused) > 1 else ""
    return (
        f"a wrong kernel would pass every case that counts: {first.mutation} ({first.detail}){more}"
    )


def _templates(prepared: Prepared) -> list[Any]:
    """Memory for a wrong answer, beside the oracle's."""
    assert prepared.reference is not None
    values = [tensor.values for tensor in prepared.reference.expected if tensor is not None]
    device = (values[0] if values else prepared.reference.values).device
    return [
        torch.empty(output.shape, dtype=dtype_of(output.dtype), device=device)
        for output in prepared.outputs
    ]


def with_extra_cases(shape: PlannedShape, power: Power | None) -> Iterator[PlannedCase]:
    """The shape's cases, then others while `power` lacks the refusal of a mistake."""
    yield from shape.cases
    for kind in MORE_TELLING:
        if power is None or power.complete:
            return
        yield further_case(secrets.randbits(SEED_BITS), kind, loose=True)
