"""The attributes of a chunk: scalars only, at most 16, as OpenAI has them."""

from kb.search.models import Result
from server.vector_stores.models import MAX_ATTRIBUTE_CHARS

# Where an attribute holds several values they are joined so.
SEPARATOR = ", "
OF_SOURCE = ("version", "licence", "url")
"""Attributes that are a chunk's by its source."""
_PLAIN = ("kind", "title", "path", "start_line", "end_line", "symbol", "language")
_LISTS = ("techniques", "bottlenecks", "architectures")


def attributes_of(result: Result) -> dict[str, str | float | bool]:
    """What a result says beside its text. Unknown values are left out."""
    values: dict[str, str | int | None] = {
        **{name: getattr(result, name) for name in _PLAIN},
        **{name: SEPARATOR.join(getattr(result, name)) for name in _LISTS},
        "source": result.source.name,
        **{name: getattr(result.source, name) for name in OF_SOURCE},
    }
    return {
        key: value[:MAX_ATTRIBUTE_CHARS] if isinstance(value, str) else value
        for key, value in values.items()
        if value is not None and value != ""
    }
