"""Loops over time steps in a module's text: each step needs the one before, with the same weights.

A module that writes its recurrence out so has PyTorch launch every operator of every step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from kb.problems.values import Operator
from kb.problems.vocabulary import PRODUCTS

# What puts results of steps together in any order.
_SUMS: Final = frozenset({"add", "sub", "maximum", "minimum", "cat", "stack"})
# Seconds from one launch to the next, where PyTorch launches operators one by one.
_LAUNCH: Final = 4e-6
# Fewer steps are written out for other reasons: stages of a network, Newton iterations.
_MIN_STEPS: Final = 8


@dataclass(frozen=True, slots=True)
class TimeLoop:
    """A loop that was read to its end."""

    steps: int
    operators: tuple[Operator, ...]
    """Of one step, in order."""
    has_product: bool
    """Whether what a step hands to the next is multiplied by a matrix."""


def time_loop(
    operators: Sequence[Operator], places: Sequence[int], *, cut: bool = False
) -> TimeLoop | None:
    """The loop whose steps begin and end at these places of all operators; None where steps differ,
    have weights of their own (the layers of a network), or need nothing of the step before.

    The first step may differ, which often makes the state. `cut`: the last operators are missing.
    """
    if len(places) <= _MIN_STEPS or places[1] == places[2]:
        return None
    steps = [tuple(operators[start:end]) for start, end in pairwise(places[1:])]
    if cut:
        steps = [step for step in steps if len(step) == len(steps[0])]
    if len({tuple(op.name for op in step) for step in steps}) > 1:
        return None
    if len({tuple(_weights(step)) for step in steps}) > 1:
        return None
    if not all(_needs(step, before) for before, step in pairwise(steps)):
        return None
    loop = TimeLoop(len(places) - 1, steps[0], _hands_on_products(*steps[:2]))
    # What stays on chip are weights; repeated products of other data are products.
    return None if loop.has_product and not _weights(steps[0]) else loop


def _hands_on_products(step: Sequence[Operator], following: Sequence[Operator]) -> bool:
    """Whether a product is behind what a step hands to the following one."""
    waiting = [t.made_by for op in following for t in op.inputs]
    own, behind = {id(op) for op in step}, dict[int, Operator]()
    while waiting:
        op = waiting.pop()
        if op is not None and id(op) in own and id(op) not in behind:
            behind[id(op)] = op
            waiting += [tensor.made_by for tensor in op.inputs]
    return any(op.kind in PRODUCTS for op in behind.values())


def longest(loops: Sequence[TimeLoop], seconds: Mapping[int, float]) -> TimeLoop | None:
    """The loop that takes most of a module's time, launches included; None where none takes half.

    Parameters
    ----------
    seconds
        The module's operators, by `id` → what each takes beside its launch.
    """

    def time(loop: TimeLoop) -> float:
        return loop.steps * sum(max(seconds.get(id(op), 0.0), _LAUNCH) for op in loop.operators)

    best = max(loops, key=time, default=None)
    recorded = sum(max(value, _LAUNCH) for value in seconds.values())
    return best if best is not None and 2 * time(best) >= recorded else None


def _weights(step: Sequence[Operator]) -> list[tuple[int, tuple[str, ...]]]:
    return [(t.number, t.part) for op in step for t in op.inputs if t.origin == "parameter"]


def _needs(step: Sequence[Operator], before: Sequence[Operator]) -> bool:
    """Whether a step's work needs a result of the step before. Products that are only added up
    do not wait for one another."""
    results = {id(op) for op in before}
    summed = False
    for op in step:
        if any(id(t.made_by) in results for t in op.inputs if t.made_by is not None):
            if op.name not in _SUMS:
                return True
            summed = True
            results.add(id(op))
    return summed and not any(op.kind in PRODUCTS for op in step)
