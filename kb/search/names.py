"""Rows of what a query names outright: definitions of a symbol."""

from collections.abc import Sequence
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

    @cached_property
    def _by_last_name(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for code, values in enumerate(self._columns["symbols"].values):
            if values:
                found.setdefault(last_name(values[0]), []).append(code)
        return found
