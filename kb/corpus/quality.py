"""Quality weights of sources by name, from the shipped `corpus/sources.toml`."""

import tomllib
from functools import cache

from pydantic import BaseModel, ConfigDict, Field

from kb.corpus.loader import shipped_corpus
from kb.errors import EntryError

SOURCES = "sources.toml"


class _Known(BaseModel):
    # The rest of an entry says where to fetch it, which `ingest.sources.curated` validates.
    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    matches: tuple[str, ...]
    quality: float = Field(ge=0, le=1)


class _Table(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    default: float = Field(ge=0, le=1)
    source: tuple[_Known, ...] = ()


@cache
def _table() -> _Table:
    path = shipped_corpus() / SOURCES
    try:
        return _Table.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise EntryError(f"{path} cannot be used: {error}") from error


def quality_of(name: str) -> float:
    """Ranking weight in [0, 1] of the source called `name`; the default's if none is known."""
    bare = name.lower().replace("_", "-")
    for known in _table().source:
        if any(bare == each or bare.startswith(f"{each}-") for each in known.matches):
            return known.quality
    return _table().default
