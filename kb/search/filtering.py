"""Filters as a mask over the chunks of a generation, and their unknown values."""

import difflib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kb.architectures import any_runs_on, parse_architecture
from kb.corpus.entries import BOTTLENECKS
from kb.errors import InvalidInputError
from kb.index.columns import Columns, Values
from kb.index.reader import Generation
from kb.search.models import Filters
from kb.vocabulary import taxonomy

# Beyond this many, names are counted and not listed.
_MAX_LISTED = 12
# What an index may hold although this one does not: a filter by it is right, and finds nothing yet.
_LANGUAGES = frozenset({"triton", "cuda", "python", "cpp", "markdown"})
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
        tags = frozenset(getattr(filters, name))
        if tags:
            hits = columns[name].mask(lambda values, tags=tags: not tags.isdisjoint(values))  # type: ignore[misc]
            mask = hits if mask is None else mask & hits
    if filters.architectures:
        hits = running_on(filters.architectures, columns)
        mask = hits if mask is None else mask & hits
    if mask is not None and mask.all():
        return None
    return mask


def running_on(devices: Sequence[str], columns: Columns) -> NDArray[np.bool_]:
    """Which chunks run on any of these devices, (n,).

    Raises
    ------
    InvalidInputError
        If one is not written like `sm_90a`.
    """
    for device in devices:
        parse_architecture(device)

    def runs(values: Values) -> bool:
        return any(any_runs_on(values, device) for device in devices)

    return columns["architectures"].mask(runs)


def check_filters(filters: Filters, generation: Generation) -> None:
    """Refuse a filter value that exists neither in this index nor in the taxonomy.

    Raises
    ------
    InvalidInputError
        A value is unknown; the message lists the known ones.
    """
    for name, value, existing in _unknown(filters, generation):
        if value not in _vocabulary(name):
            what = name.removesuffix("s")
            raise InvalidInputError(f"no {what} is called '{value}': {_hint(value, existing)}")


def unknown_filters(filters: Filters, generation: Generation) -> list[str]:
    """A sentence for each filter value that nothing in this index has.

    It explains an empty answer better than "nothing relevant".
    """
    return [
        f"nothing in the index has the {name.removesuffix('s')} '{value}': {_hint(value, existing)}"
        for name, value, existing in _unknown(filters, generation)
    ]


def _unknown(filters: Filters, generation: Generation) -> list[tuple[str, str, set[str]]]:
    """Field, value and the values that the index has, for each value that it has not."""
    unknown = []
    for name in ("techniques", "bottlenecks", "languages", "sources"):
        requested = dict.fromkeys(getattr(filters, name))
        if requested:
            existing = {value for values in generation.columns[name].values for value in values}
            unknown += [(name, value, existing) for value in requested if value not in existing]
    return unknown


def _vocabulary(name: str) -> frozenset[str]:
    if name == "techniques":
        return frozenset(slug for slugs in taxonomy().values() for slug in slugs)
    if name == "bottlenecks":
        return frozenset(BOTTLENECKS)
    return _LANGUAGES if name == "languages" else frozenset()


def _hint(value: str, existing: Iterable[str]) -> str:
    names = sorted(existing)
    if len(names) > _MAX_LISTED:
        near = difflib.get_close_matches(value, names, n=3)
        return f"did you mean {', '.join(near)}?" if near else f"the index has {len(names)} others"
    return f"the index has {', '.join(names) or 'none'}"
