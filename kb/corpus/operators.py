"""Operators as questions name them: the kinds of a family, and the parts of what is fused.

The vocabulary is data: `kb/data/operators.yaml`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from kb.patterns import AnyOf, any_of, encoded
from kb.vocabulary import read_data

_WHOLE = re.compile(r"[a-z0-9]+")
_APART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*|\d+")


@dataclass(frozen=True, slots=True)
class _Operator:
    parent: str | None
    parts: tuple[str, ...]
    names: AnyOf | None
    """What names it wherever it stands."""
    within: AnyOf | None
    """What names it beside its parent."""
    general: AnyOf | None
    """What names it in a symbol that names nothing else."""


def operators_asked(text: str, *, symbol: bool = False) -> tuple[str, ...]:
    """Operators that a question asks for, as exactly as it names them.

    A kind stands for its parents, and what is fused for its parts.

    Parameters
    ----------
    symbol
        Whether the text is the name of a kernel, in which a general word says what it computes.

    Returns
    -------
    tuple[str, ...]
        Names of `kb/data/operators.yaml`, in its order; of one family, the closest kind first.
    """
    table, said = _vocabulary(), encoded(_said(text))
    named = {op for op, operator in table.items() if operator.names and operator.names.search(said)}
    if symbol and not named:
        named = {
            op
            for op, operator in table.items()
            if operator.general and operator.general.search(said)
        }
    for op, operator in table.items():  # parents stand before their kinds
        beside = operator.parent is not None and any(
            is_kind(other, operator.parent) for other in named
        )
        if beside and operator.within is not None and operator.within.search(said):
            named.add(op)
    named = _exact(named)
    for op, operator in table.items():
        own = operator.names or operator.within or operator.general
        if operator.parts and not own and named.issuperset(operator.parts):
            named = _exact({*named, op})
    order = {op: place for place, op in enumerate(table)}

    def place(op: str) -> tuple[int, int, int]:
        line = lineage(op)
        return order[line[-1]], -len(line), order[op]

    return tuple(sorted(named, key=place))


def _said(text: str) -> str:
    """The words of a text, then those of its names apart: `RoPE` is one, `addRMSNorm` three."""
    whole, apart = _WHOLE.findall(text.lower()), _APART.findall(text)
    return f"{' '.join(whole)}\n{' '.join(apart).lower()}"


def _exact(named: Iterable[str]) -> set[str]:
    """Without what others of them are kinds of or contain."""
    ops = set(named)
    closest = ops - {each for op in ops for each in lineage(op)[1:]}
    table = _vocabulary()
    parts = {op: {part for each in lineage(op) for part in table[each].parts} for op in closest}
    return {
        op
        for op in closest
        if all(parts[other].isdisjoint(lineage(op)) for other in closest if other != op)
    }


def lineage(op: str) -> tuple[str, ...]:
    """An operator and what it is a kind of, the nearest first; of an unknown one, itself."""
    found = [op]
    table = _vocabulary()
    while (each := table.get(found[-1])) is not None and each.parent is not None:
        found.append(each.parent)
    return tuple(found)


def is_kind(op: str, family: str) -> bool:
    """Whether an operator is of a family, or is it."""
    return family in lineage(op)


@cache
def kinds_of(op: str) -> tuple[str, ...]:
    """An operator, then its kinds in the order of the vocabulary."""
    return (op, *(each for each in _vocabulary() if each != op and is_kind(each, op)))


@cache
def _vocabulary() -> dict[str, _Operator]:
    found = {}
    for op, marks in read_data("operators.yaml").items():
        names = [*marks.get("asked", marks.get("names", ())), *marks.get("spoken", ())]
        found[op] = _Operator(
            marks.get("parent"),
            tuple(marks.get("parts", ())),
            any_of(names),
            any_of(marks.get("within", ())),
            any_of(marks.get("general", ())),
        )
    return found
