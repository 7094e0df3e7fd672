"""Names of symbols: how they are compared, and the rows of those that a query names outright."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kb.caching import cached_by_word
from kb.index.columns import Columns

# More definitions of one name than this are overloads; the two orders find the best of them.
_MOST_DEFINITIONS = 64


class NamedRows:
    """Looks names up in the columns of one generation."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def codes(self, symbols: Sequence[str]) -> list[int]:
        """Codes of the `symbols` column whose last name is that of one of these."""
        wanted = {last_name(symbol) for symbol in symbols}
        return [code for name in wanted for code in self._by_last_name.get(name, ())]

    def definitions(self, symbols: Sequence[str]) -> NDArray[np.intp]:
        """Rows of chunks that define any of these, by the last part of their names."""
        codes = self.codes(symbols)
        if not codes:
            return np.empty(0, dtype=np.intp)
        column = self._columns["symbols"]
        named = np.zeros(len(column.values), dtype=np.bool_)
        named[codes] = True
        return np.flatnonzero(named[column.codes])[:_MOST_DEFINITIONS]

    @cached_property
    def _by_last_name(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for code, values in enumerate(self._columns["symbols"].values):
            if values:
                found.setdefault(last_name(values[0]), []).append(code)
        return found


# Names of an index come up again in query after query.
@cached_by_word
def plain_name(symbol: str) -> str:
    """A qualified name as names are compared: `ns::Class.Fn` → `ns.class.fn`."""
    return symbol.replace("::", ".").lower().strip(".")


@cached_by_word
def last_name(symbol: str) -> str:
    """The last part of a qualified name, as names are compared."""
    return plain_name(symbol).rpartition(".")[2]
