"""The attributes of a chunk: scalars only, at most 16, as OpenAI has them."""

from kb.search.models import Result
from server.vector_stores.models import MAX_ATTRIBUTE_CHARS

# Where an attribute holds several values they are joined so.
SEPARATOR = ", "


def attributes_of(result: Result) -> dict[str, str | float | bool]:
    """What a result says beside its text. Unknown values are left out."""
    values: dict[str, str | int | None] = {
        "kind": result.kind,
        "title": result.title,
        "path": result.path,
        "start_line": result.start_line,
        "end_line": result.end_line,
        "symbol": result.symbol,
        "language": result.language,
        "techniques": SEPARATOR.join(result.techniques),
        "bottlenecks": SEPARATOR.join(result.bottlenecks),
        "architectures": SEPARATOR.join(result.architectures),
        "source": result.source.name,
        "version": result.source.version,
        "licence": result.source.licence,
        "url": result.source.url,
    }
    return {
        key: value[:MAX_ATTRIBUTE_CHARS] if isinstance(value, str) else value
        for key, value in values.items()
        if value is not None and value != ""
    }
