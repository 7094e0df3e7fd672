"""The rows of symbols that a query names exactly."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kb.index.columns import Columns
from kb.index.tokens import last_name

# More definitions of one name than this are overloads; the two orders find the best of them.
_MAX_DEFINITIONS = 64


class NamedRows:
    """Looks names up in the columns of one generation."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def codes(self, symbols: Sequence[str]) -> list[int]:
        """Codes of the `symbols` column whose last name equals that of one of these."""
        return [
            int(code) for code in np.unique(self._columns["symbols"].codes[self._rows(symbols)])
        ]

    def definitions(self, symbols: Sequence[str]) -> NDArray[np.intp]:
        """Rows of chunks that define any of these, by the last part of their names."""
        return np.sort(self._rows(symbols))[:_MAX_DEFINITIONS]

    def _rows(self, symbols: Sequence[str]) -> NDArray[np.intp]:
        column = self._columns["names"]
        codes = {column.find(last_name(symbol)) for symbol in symbols} - {None}
        rows = [column.rows_of(code) for code in codes if code is not None]
        return np.concatenate(rows) if rows else np.empty(0, dtype=np.intp)
