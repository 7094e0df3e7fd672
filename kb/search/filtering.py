"""Filters as a mask over the chunks of a generation."""

import numpy as np
from numpy.typing import NDArray

from kb.architectures import any_runs_on, parse_architecture
from kb.index.columns import Columns, Values
from kb.search.models import Filters

_EXACT_FIELDS = ("techniques", "bottlenecks", "languages", "sources", "kinds")


def filter_mask(filters: Filters, columns: Columns) -> NDArray[np.bool_] | None:
    """Which chunks the filters keep, (n,); None when they keep all.

    Raises
    ------
    InvalidInputError
        If an architecture is not written like `sm_90a`.
    """
    mask: NDArray[np.bool_] | None = None
    for name in _EXACT_FIELDS:
        wanted = frozenset(getattr(filters, name))
        if wanted:
            found = columns[name].mask(lambda values, wanted=wanted: not wanted.isdisjoint(values))  # type: ignore[misc]
            mask = found if mask is None else mask & found
    if filters.architectures:
        for name in filters.architectures:
            parse_architecture(name)

        def runs(values: Values) -> bool:
            return any(any_runs_on(values, device) for device in filters.architectures)

        found = columns["architectures"].mask(runs)
        mask = found if mask is None else mask & found
    if mask is not None and mask.all():
        return None
    return mask
