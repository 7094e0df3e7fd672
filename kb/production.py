"""Production code that shows a technique: how much there is, and which is worth reading first.

It is what ingest tagged; entries list their own kernels, which are verified and come before it.
"""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from kb.architectures import any_runs_on
from kb.index.reader import Generation
from kb.index.tokens import tokenize

# The body of a kernel shows a technique; device code shows a part of one, host code configures it.
_ROLE_RANK = {"kernel": 0, "device": 1, "host": 2, "type": 3, "other": 4}
# Of one source at most, so that the largest does not fill the list.
_PER_SOURCE = 2

_tagged_rows: WeakKeyDictionary[Generation, dict[str, NDArray[np.intp]]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Traits:
    """What a reader asks for beside a technique."""

    language: str | None = None
    device: str | None = None
    """Architecture that it must run on."""
    ops: frozenset[str] = frozenset()
    dtypes: frozenset[str] = frozenset()

    def fit(self, language: str, ops: tuple[str, ...], dtypes: tuple[str, ...]) -> int:
        """How many of the operator, dtype and language asked for something has, in [0, 3]."""
        return (
            (self.language is not None and self.language == language)
            + (not self.ops.isdisjoint(ops))
            + (not self.dtypes.isdisjoint(dtypes))
        )


def technique_rows(generation: Generation, slug: str) -> NDArray[np.intp]:
    """Rows of the ingested code that is tagged with a technique."""
    if generation not in _tagged_rows:
        column = generation.columns["techniques"]
        code = np.flatnonzero(generation.columns["kinds"].mask(lambda values: values == ("code",)))
        codes = column.codes[code]
        _tagged_rows[generation] = {
            key: code[np.isin(codes, numbers)] for key, numbers in column.codes_by_value.items()
        }
    return _tagged_rows[generation].get(slug, np.zeros(0, np.intp))


def best_rows(
    generation: Generation, slug: str, limit: int, traits: Traits | None = None
) -> list[int]:
    """The rows worth reading first, at most `limit`, without copies of each other.

    First what has more of the traits asked for; then kernels before device code before host code,
    what is named by the technique, and the better source.
    """
    wishes = traits or Traits()
    columns = generation.columns
    quality = {name: source.quality for name, source in generation.sources.items()}
    words = frozenset(tokenize(slug.replace("-", " ")))

    def rank(row: int) -> tuple[float, ...]:
        role = next(iter(columns["roles"].of(row)), "")
        symbol = " ".join(columns["symbols"].of(row))
        has_name = words <= frozenset(tokenize(symbol))
        language, ops = columns["languages"].of(row)[0], columns["ops"].of(row)
        fit = wishes.fit(language, ops, columns["dtypes"].of(row))
        technique_count = len(columns["techniques"].of(row))
        source = quality[columns["sources"].of(row)[0]]
        return (-fit, _ROLE_RANK.get(role, 5), not has_name, -source, technique_count, row)

    def runs(row: int) -> bool:
        needs = columns["architectures"].of(row)
        return wishes.device is None or any_runs_on(needs, wishes.device)

    ordered = sorted(filter(runs, technique_rows(generation, slug).tolist()), key=rank)
    chosen: list[int] = []
    per_source: dict[tuple[str, ...], int] = {}
    folds: set[tuple[str, ...]] = set()
    for row in ordered:
        source, fold = columns["sources"].of(row), columns["folds"].of(row)
        if per_source.get(source, 0) == _PER_SOURCE or (fold and fold in folds):
            continue
        per_source[source] = per_source.get(source, 0) + 1
        folds.add(fold)
        chosen.append(row)
        if len(chosen) == limit:
            break
    return chosen


def production_view(generation: Generation, slug: str, limit: int) -> dict[str, Any]:
    """How much ingested code shows a technique, and the best of it with what it is cited by.

    Returns
    -------
    dict
        `count`, and `best`: `id`, `title`, `role`, `language`, `path`, `start_line`, `end_line` and
        `source` (`name`, `version`, `licence`, `url`) of at most `limit` chunks.
    """
    fields = ("id", "title", "role", "language", "path", "start_line", "end_line")
    best = [
        {name: getattr(chunk, name) for name in fields}
        | {"source": generation.sources[chunk.source].citation()}
        for chunk in generation.store.rows(best_rows(generation, slug, limit))
    ]
    return {"count": len(technique_rows(generation, slug)), "best": best}
