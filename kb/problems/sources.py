"""Where tensors come from: the operators behind them."""

from typing import Final

from kb.problems.values import Operator, Tensor

LIGHT: Final = frozenset({"elementwise", "copy"})
"""Kinds of work that is done on the way from one operator to another."""


def producer(tensor: Tensor, *names: str) -> Operator | None:
    """Return the operator that made a tensor, if it has one of these names; any where none are."""
    op = tensor.made_by
    return op if op is not None and (not names or op.name in names) else None


def ancestors(tensor: Tensor, kinds: frozenset[str], limit: int = 12) -> list[Operator]:
    """Return operators behind a tensor, through those of some kinds, the nearest first."""
    operators: list[Operator] = []
    waiting = [tensor]
    while waiting and len(operators) < limit:
        producer = waiting.pop(0).made_by
        if producer is None or any(producer is operator for operator in operators):
            continue
        operators.append(producer)
        if producer.kind in kinds:
            waiting += producer.inputs
    return operators


def distinct(operators: list[Operator]) -> list[Operator]:
    """Return operators without those that were there before."""
    return list({id(op): op for op in operators}.values())
