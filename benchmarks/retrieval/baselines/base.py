"""The interface of every contender."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kb.records import Kind

DEPTH = 100
"""Chunks of a ranking: enough to fill the largest token budget."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A contender's answer to one query."""

    rows: list[int]
    """Chunks, best first, at most `DEPTH`; empty where it abstained."""
    top: list[int] | None = None
    """Its ten results, where they are not the head of `rows`."""
    abstained: bool = False
    unjudged: list[int] | None = None
    """Its ranking without abstention."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of an index that is searched."""

    mask: NDArray[np.bool_]
    """Chunks that may be found, (n,)."""
    kinds: tuple[Kind, ...] = ()
    """The filter on kinds that makes this mask; empty for none."""
    allowed: NDArray[np.bool_] | None = None
    """All chunks but those excluded beside the filter, such as the query's own, (n,)."""


class Contender(Protocol):
    """Ranks the chunks of one index; made of a corpus and the embedder of its index."""

    title: str

    def rank(self, query: str, scope: Scope) -> Ranked:
        """Rank the chunks of the scope. The call is timed."""

    def deepen(self, _query: str, _scope: Scope, ranked: Ranked) -> Ranked:
        """The ranking extended to `DEPTH`, where `rank` stops before; not timed."""
        return ranked
