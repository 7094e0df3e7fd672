"""Rows of what a query names outright: definitions of a symbol, cards of techniques."""

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kb.index.columns import Columns
from kb.search.ranking import last_name

# More definitions of one name than this are overloads; the two orders find the best of them.
_MOST_DEFINITIONS = 64


class NamedRows:
    """Looks names up in the columns of one generation."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def definitions(self, symbols: Sequence[str]) -> NDArray[np.intp]:
        """Rows of chunks that define any of these, by the last part of their names."""
        wanted = {last_name(symbol) for symbol in symbols}
        codes = [code for name in wanted for code in self._by_last_name.get(name, ())]
        if not codes:
            return np.empty(0, dtype=np.intp)
        rows = np.flatnonzero(np.isin(self._columns["symbols"].codes, codes))
        return rows[:_MOST_DEFINITIONS]

    def cards(self, slugs: Iterable[str]) -> NDArray[np.intp]:
        """Rows of the cards of these techniques."""
        rows = [self._first_rows[f"technique:{slug}"] for slug in slugs]
        return np.array(rows, dtype=np.intp)

    @cached_property
    def _by_last_name(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for code, values in enumerate(self._columns["symbols"].values):
            if values:
                found.setdefault(last_name(values[0]), []).append(code)
        return found

    @cached_property
    def _first_rows(self) -> dict[str, int]:
        """Entry → its first row, which is its card."""
        column = self._columns["entries"]
        codes, rows = np.unique(column.codes, return_index=True)
        return {
            column.values[code][0]: row
            for code, row in zip(codes.tolist(), rows.tolist(), strict=True)
            if column.values[code]
        }
