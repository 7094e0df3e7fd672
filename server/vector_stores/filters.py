"""The attributes of a chunk (scalars only), and OpenAI's filters by them as a mask over chunks.

An attribute with several values meets `eq` and `in` when one of them does, and `ne` and `nin`
when none does. `architectures` is compared as in `/v1/search`: what runs on the named device.
"""

import operator
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kb.errors import InvalidInputError
from kb.index.reader import Generation
from kb.search.filtering import running_on
from kb.search.models import Result
from server.vector_stores.models import (
    MAX_ATTRIBUTE_CHARS,
    ComparisonFilter,
    CompoundFilter,
    Scalar,
)

Mask = NDArray[np.bool_]
_COLUMNS = {
    "kind": "kinds",
    "language": "languages",
    "techniques": "techniques",
    "bottlenecks": "bottlenecks",
    "architectures": "architectures",
    "symbol": "symbols",
    "source": "sources",
    "path": "paths",
}
_OF_CHUNK = ("title", "start_line", "end_line")
_OF_SOURCE = ("version", "licence", "url")
KEYS = (*_COLUMNS, *_OF_SOURCE, *_OF_CHUNK)
# Where an attribute holds several values they are joined so.
_SEPARATOR = ", "
_PLAIN = ("kind", "title", "path", "start_line", "end_line", "symbol", "language")
_LISTS = ("techniques", "bottlenecks", "architectures")
_NEGATIONS = {"ne": "eq", "nin": "in"}
_TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
# A filter is a tree; nobody needs one deeper than this.
_MAX_DEPTH = 8


def attributes_of(result: Result) -> dict[str, str | float | bool]:
    """What a result says beside its text. Unknown values are left out."""
    values: dict[str, str | int | None] = {
        **{name: getattr(result, name) for name in _PLAIN},
        **{name: _SEPARATOR.join(getattr(result, name)) for name in _LISTS},
        "source": result.source.name,
        **{name: getattr(result.source, name) for name in _OF_SOURCE},
    }
    return {
        key: value[:MAX_ATTRIBUTE_CHARS] if isinstance(value, str) else value
        for key, value in values.items()
        if value is not None and value != ""
    }


class ChunkFilters:
    """Evaluates filters on one generation."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation

    def mask(self, condition: ComparisonFilter | CompoundFilter, depth: int = 0) -> Mask:
        """Which chunks meet the condition, (n,).

        Raises
        ------
        InvalidInputError
            An unknown attribute, a value that cannot be compared with it, or too deep a filter.
        """
        if depth > _MAX_DEPTH:
            raise InvalidInputError(f"filters: nested more than {_MAX_DEPTH} deep")
        if isinstance(condition, ComparisonFilter):
            return self._compare(condition)
        combine = np.logical_and if condition.type == "and" else np.logical_or
        mask = np.full(self._generation.columns.count, condition.type == "and")
        for filter_ in condition.filters:
            combine(mask, self.mask(filter_, depth + 1), out=mask)
        return mask

    def _compare(self, condition: ComparisonFilter) -> Mask:
        if condition.type in _NEGATIONS:
            positive = condition.model_copy(update={"type": _NEGATIONS[condition.type]})
            return ~self._compare(positive)
        key = condition.key
        accepts = _test(condition)
        if key == "architectures":
            return self._runs_on(condition)
        if key in _COLUMNS:
            column = self._generation.columns[_COLUMNS[key]]
            return column.mask(lambda values: any(accepts(value) for value in values))
        if key in _OF_SOURCE:
            items = self._generation.sources.items()
            sources = {name for name, source in items if accepts(getattr(source, key))}
            column = self._generation.columns["sources"]
            return column.mask(lambda values: not sources.isdisjoint(values))
        if key in _OF_CHUNK:
            values = self._scalars[key]
            return np.fromiter((accepts(value) for value in values), bool, len(values))
        raise InvalidInputError(
            f"filters: there is no attribute '{key}'; the attributes are {', '.join(KEYS)}"
        )

    def _runs_on(self, condition: ComparisonFilter) -> Mask:
        value = condition.value
        if condition.type not in ("eq", "in"):
            raise InvalidInputError("filters: architectures compare only with eq, ne, in, nin")
        devices = [str(device) for device in (value if isinstance(value, list) else [value])]
        return running_on(devices, self._generation.columns)

    @cached_property
    def _scalars(self) -> dict[str, list[Any]]:
        """What only the chunk records hold; read at the first filter that asks for it."""
        chunks = list(self._generation.store.all())
        return {key: [getattr(chunk, key) for chunk in chunks] for key in _OF_CHUNK}


def _test(condition: ComparisonFilter) -> Callable[[Any], bool]:
    """The condition as a function of one value; a missing value meets none."""
    kind, value = condition.type, condition.value
    if isinstance(value, list):
        if kind != "in":
            raise InvalidInputError(f"filters: {kind} compares with one value, not a list")
        return lambda actual: any(_holds("eq", actual, item) for item in value)
    if kind == "in":
        raise InvalidInputError("filters: in and nin compare with a list of values")
    return lambda actual: _holds(kind, actual, value)


def _holds(kind: str, actual: Any, expected: Scalar) -> bool:
    if isinstance(expected, bool) or actual is None:
        return False
    comparable = isinstance(actual, str) == isinstance(expected, str)
    return comparable and bool(_TESTS[kind](actual, expected))
