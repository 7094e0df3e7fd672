"""A result's score in its parts, each with its meaning."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kb.search.ranking import HIGHEST
from kb.vocabulary import read_data

# Of the answer as a whole: whether there is one, and what the query was read as.
_OF_THE_ANSWER = frozenset({"relevance", "read as"})


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a score."""

    name: str
    value: float
    meaning: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a score came about: `score` is `total` over `highest`, in [0, 1]."""

    ranks: list[Part]
    added: list[Part]
    total: float
    highest: float = HIGHEST


def explain_score(parts: Mapping[str, Any]) -> Explanation:
    """The explanation of a search result, sorted and in words."""
    meanings = _meanings()
    ranks = [
        Part(name, parts[name], meaning)
        for name, meaning in meanings["ranks"].items()
        if name in parts
    ]
    rest = [name for name in parts if name not in meanings["ranks"] and name not in _OF_THE_ANSWER]
    added = [Part(name, float(parts[name]), meanings["added"].get(name, "")) for name in rest]
    total = sum(part.value for part in added)
    return Explanation(ranks, added, max(total, 0.0))


def legend(names: Iterable[str]) -> list[tuple[str, str]]:
    """What each part means, of those that have a meaning, in the order given."""
    meanings = _meanings()
    meaning_of = {**meanings["ranks"], **meanings["added"]}
    return [(name, meaning_of[name]) for name in names if name in meaning_of]


@cache
def _meanings() -> dict[str, dict[str, str]]:
    meanings: dict[str, dict[str, str]] = read_data("score_parts.yaml")
    return meanings
