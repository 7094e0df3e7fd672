"""Operators as questions name them: the kinds of a family, and the parts of what is fused.

The vocabulary is data: `kb/data/operators.yaml`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from kb.patterns import AnyOf, Screen, any_of, encoded
from kb.vocabulary import read_data

_WORD = re.compile(r"[a-z0-9]+")
_SUBWORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*|\d+")


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
    table, words = _vocabulary(), encoded(_normalized_words(text))
    named, screen = _named_anywhere()
    candidates = (named[place] for place in screen.candidates(words))
    ops = {op for op, names in candidates if names.search(words)}
    if symbol and not ops:
        ops = {
            op
            for op, operator in table.items()
            if operator.general and operator.general.search(words)
        }
    for op, operator in table.items():  # parents stand before their kinds
        beside = operator.parent is not None and any(
            is_kind(other, operator.parent) for other in ops
        )
        if beside and operator.within is not None and operator.within.search(words):
            ops.add(op)
    ops = _most_specific(ops)
    for op, operator in table.items():
        own = operator.names or operator.within or operator.general
        if operator.parts and not own and ops.issuperset(operator.parts):
            ops = _most_specific({*ops, op})
    order = {op: place for place, op in enumerate(table)}

    def place(op: str) -> tuple[int, int, int]:
        line = lineage(op)
        return order[line[-1]], -len(line), order[op]

    return tuple(sorted(ops, key=place))


def _normalized_words(text: str) -> str:
    """The words of a text, then those of its names apart: `RoPE` is one, `addRMSNorm` three."""
    return f"{' '.join(_WORD.findall(text.lower()))}\n{subwords(text)}"


def subwords(text: str) -> str:
    """Return the words of names apart, in lower case: `addRMSNorm` as add rms norm."""
    return " ".join(_SUBWORD.findall(text)).lower()


def _most_specific(candidates: Iterable[str]) -> set[str]:
    """Without what others of them are kinds of or contain."""
    ops = set(candidates)
    closest = ops - {name for op in ops for name in lineage(op)[1:]}
    table = _vocabulary()
    parts = {op: {part for name in lineage(op) for part in table[name].parts} for op in closest}
    return {
        op
        for op in closest
        if all(parts[other].isdisjoint(lineage(op)) for other in closest if other != op)
    }


def lineage(op: str) -> tuple[str, ...]:
    """An operator and what it is a kind of, the nearest first; of an unknown one, itself."""
    chain = [op]
    table = _vocabulary()
    while (operator := table.get(chain[-1])) is not None and operator.parent is not None:
        chain.append(operator.parent)
    return tuple(chain)


def is_kind(op: str, family: str) -> bool:
    """Whether an operator is of a family, or is it."""
    return family in lineage(op)


@cache
def kinds_of(op: str) -> tuple[str, ...]:
    """An operator, then its kinds in the order of the vocabulary."""
    return (op, *(kind for kind in _vocabulary() if kind != op and is_kind(kind, op)))


@cache
def _vocabulary() -> dict[str, _Operator]:
    operators = {}
    for op, marks in read_data("operators.yaml").items():
        names = [*marks.get("asked", marks.get("names", ())), *marks.get("spoken", ())]
        operators[op] = _Operator(
            marks.get("parent"),
            tuple(marks.get("parts", ())),
            any_of(names),
            any_of(marks.get("within", ())),
            any_of(marks.get("general", ())),
        )
    return operators


@cache
def _named_anywhere() -> tuple[list[tuple[str, AnyOf]], Screen]:
    """Operators with what names them wherever it stands, and which of these may match a text."""
    named = [(op, operator.names) for op, operator in _vocabulary().items() if operator.names]
    return named, Screen([names.source for _, names in named])
