"""A query, its answers, and the half of the benchmark that it belongs to."""

import hashlib
from dataclasses import dataclass, field
from typing import Literal

from kb.records import Kind

Half = Literal["dev", "test"]
HALVES: tuple[Half, ...] = ("dev", "test")


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer to a query: any of its units, which have the same content."""

    name: str
    units: frozenset[str]
    grade: int = 1
    """1 related, 2 useful, 3 the full answer; 1 throughout where relevance is not graded."""


@dataclass(frozen=True, slots=True)
class Case:
    """One query and its judgement."""

    id: str
    query: str
    answers: tuple[Answer, ...]
    """Empty for a query that nothing answers."""
    labels: dict[str, str] = field(default_factory=dict)
    """Category → value, for the tables of where it fails."""
    excluded: frozenset[int] = frozenset()
    """Rows that are not to be found, as the query itself."""
    group: str = ""
    """Cases of one group are in one half; the id where there is none."""

    @property
    def half(self) -> Half:
        """By a hash, so that adding queries moves none."""
        return half_of(self.group or self.id)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the benchmark: cases over one index."""

    name: str
    title: str
    cases: tuple[Case, ...]
    kinds: frozenset[Kind] = frozenset()
    """Kinds of chunks that are searched; empty for all."""


def half_of(key: str) -> Half:
    """`dev` may be looked at while tuning; `test` is scored and not looked at."""
    return HALVES[hashlib.blake2b(key.encode(), digest_size=8).digest()[0] & 1]
