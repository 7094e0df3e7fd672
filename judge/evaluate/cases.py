"""Which cases a kernel has to pass: shapes, secret seeds, kinds of values."""

import itertools
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from judge.evaluate.options import LEAST_SEEDS
from judge.evaluate.result import Case
from judge.problem.source import ProblemFile
from judge.problem.variants import INTERPRET_ELEMENTS, REDUCED_ELEMENTS, propose, shorten
from judge.worker.messages import ValueKind

ShapeLabel = Literal["full", "reduced", "variant"]

# 62 bits: what torch.manual_seed takes on every device, and nobody guesses.
SEED_BITS = 62
# Zero-mean values first: they tell most, so a wrong kernel is found by the first case.
EVERY_KIND = (
    ValueKind.NORMAL, ValueKind.GIVEN, ValueKind.LARGE, ValueKind.TINY, ValueKind.ZERO,
    ValueKind.NEGATIVE, ValueKind.INF,
)  # fmt: skip
# What may tell wrong kernels from right ones where zero-mean and given values cannot.
MORE_TELLING = (
    ValueKind.SHIFTED, ValueKind.UNEVEN, ValueKind.LARGE, ValueKind.APART, ValueKind.UNEVEN,
)  # fmt: skip
# Kinds that make sense where no input has values to choose.
OF_INTEGERS = (ValueKind.GIVEN, ValueKind.NORMAL)
# Of so few cases none is without hidden values: each may be a process's second call.
_MANY = 2
# Kinds on which memory that nobody wrote may look like the result.
_SILENT = (ValueKind.ZERO, ValueKind.INF)


@dataclass(frozen=True, slots=True)
class PlannedCase:
    """One case to come."""

    kind: ValueKind
    seed: int
    seed_index: int
    poison: bool
    """Fill free memory and fresh tensors with NaN: some calls with and some without, so that a
    kernel cannot depend on either."""
    observe: bool
    """Watch what runs. Slow, and visible to the kernel: never in all cases."""
    loose: bool = False
    """Compare more loosely: results cancel on such values."""
    hide: bool = True
    """Where Triton is interpreted: hide the inputs' values from the host. Visible to the kernel as
    well: among many cases one is without, and without poison."""


@dataclass(frozen=True, slots=True)
class PlannedShape:
    """One shape and its cases."""

    label: ShapeLabel
    source: str
    """The problem's text with the shape's constants."""
    constants: Mapping[str, int] = field(default_factory=dict)
    cases: tuple[PlannedCase, ...] = ()
    spare: bool = False
    """Judged only while the other smaller shapes leave a deliberate mistake unnoticed."""

    @property
    def changed_constants(self) -> str:
        """The changed constants, to append to the shape's name."""
        changes = ", ".join(f"{name}={value}" for name, value in self.constants.items())
        return f" ({changes})" if changes else ""


def uncalled_case(
    shape: PlannedShape, kind: ValueKind, *, why_not: str | None = None, problem: str | None = None
) -> Case:
    """A case without a call of the kernel, or before it."""
    return Case(
        shape=shape.label,
        kind=kind.value,
        seed_index=0,
        constants=dict(shape.constants),
        counted=why_not is None,
        why_not=why_not,
        passed=False,
        refused=problem is not None,
        problem=problem,
    )


def plan(
    problem: ProblemFile, *, seeds: int = LEAST_SEEDS, tiny: bool = False
) -> list[PlannedShape]:
    """Shapes in the order of judging: small ones first, the given one last.

    Parameters
    ----------
    seeds
        How many secret seeds; at least `LEAST_SEEDS`.
    tiny
        Only sizes for Triton's interpreter. The given shape is then left out where a smaller one
        could be made.

    Notes
    -----
    The first shape without a size of 1 gets every kind of values; the given shape its own
    distribution and zero-mean values (on which the judge can prove its power); the others zero-mean
    values. Where no other shape can be made, the given one gets every kind.
    """
    proposals = propose(
        problem,
        secrets.randbits(SEED_BITS),
        reduced=1 if tiny else 2,
        variants=4 if tiny else 3,
        limit_elements=INTERPRET_ELEMENTS if tiny else REDUCED_ELEMENTS,
    )
    smaller = any(proposal.label == "reduced" for proposal in proposals)
    draw = _Draw(seeds)
    # Of a dimension of one element little depends on the values.
    varied = (i for i, proposal in enumerate(proposals) if 1 not in proposal.constants.values())
    main = next(varied, 0)
    proposed = [proposal.constants for proposal in proposals]
    shorter = shorten(problem) if proposed and not (tiny and smaller) else []
    spare = [variant for variant in shorter if variant.constants not in proposed]
    shapes = [
        PlannedShape(
            proposal.label,
            problem.with_constants(proposal.constants),
            dict(proposal.constants),
            draw.cases(
                EVERY_KIND if number == main else (ValueKind.NORMAL,), observe=number == main
            ),
            spare=number >= len(proposals),
        )
        for number, proposal in enumerate([*proposals, *spare])
    ]
    if tiny and smaller:
        return shapes
    kinds = (ValueKind.NORMAL, ValueKind.GIVEN) if shapes else EVERY_KIND
    # The given distribution at the given shape under a seed of its own, whatever came before.
    return [*shapes, _given(problem, draw, kinds)]


def further_case(
    seed: int, kind: ValueKind = ValueKind.NORMAL, *, loose: bool = False
) -> PlannedCase:
    """A case under a secret seed, beside the planned ones."""
    return PlannedCase(kind, seed, 0, poison=True, observe=False, loose=loose)


class _Draw:
    """Hands out secret seeds in turn, and poison to every second case from a random start."""

    def __init__(self, seeds: int) -> None:
        drawn = [secrets.randbits(SEED_BITS) for _ in range(max(seeds, LEAST_SEEDS))]
        self._seeds = itertools.cycle(enumerate(drawn))
        first = bool(secrets.randbits(1))
        self._poison = itertools.cycle((first, not first))

    def cases(self, kinds: tuple[ValueKind, ...], *, observe: bool) -> tuple[PlannedCase, ...]:
        """One case a kind; the first is observed if any is, and one is left alone."""
        cases = []
        for number, kind in enumerate(kinds):
            index, seed = next(self._seeds)
            poison, watched = next(self._poison), observe and number == 0
            # Of inputs that hardly vary a norm multiplies the roundings of its mean by 300.
            loose = kind is ValueKind.TINY
            cases.append(PlannedCase(kind, seed, index, poison, watched, loose))
        unwatched = [
            number
            for number, case in enumerate(cases)
            if not (case.poison or case.observe) and case.kind not in _SILENT
        ]
        if unwatched and len(cases) > _MANY:
            number = secrets.choice(unwatched)
            cases[number] = replace(cases[number], hide=False)
        return tuple(cases)


def given(problem: ProblemFile, *, seeds: int) -> PlannedShape:
    """The given shape with every kind of values, for where no other can be built."""
    return _given(problem, _Draw(seeds), EVERY_KIND)


def _given(problem: ProblemFile, draw: _Draw, kinds: tuple[ValueKind, ...]) -> PlannedShape:
    return PlannedShape("full", problem.text, {}, draw.cases(kinds, observe=True))
