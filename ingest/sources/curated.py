"""The curated list, `corpus/sources.toml`: what to fetch, which of it, under what licence."""

import tomllib
from functools import cache
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ingest.sources.spec import Repository, Spec, parse_spec
from kb.corpus.loader import shipped_corpus
from kb.errors import EntryError

FILE = "sources.toml"


class Curated(BaseModel):
    """One entry: a name with its ranking weight and, where it is curated, where it comes from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    matches: tuple[str, ...]
    """Names that an ingested source of it has, as far as the first hyphen behind them."""
    quality: float = Field(ge=0, le=1)
    origin: str
    """`pypi:NAME==VERSION` or `git+https://…@REVISION`, pinned."""
    artefact: Literal["best", "sdist"] = "best"
    """`sdist` where there is a wheel, but only the sdist carries the kernels."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    licence: str
    """SPDX expression; compared with what the archive states."""
    homepage: str
    note: str = ""
    """Why this form, where it is not the obvious one."""

    @model_validator(mode="after")
    def _pinned(self) -> Self:
        spec = parse_spec(self.origin)
        if not isinstance(spec, Repository) and spec.version is None:
            raise ValueError(f"{self.origin} is not pinned to a version")
        return self

    @property
    def spec(self) -> Spec:
        """Its origin, ready to fetch."""
        spec = parse_spec(self.origin)
        if isinstance(spec, Repository):
            return Repository(spec.url, spec.revision, fixed=True)
        return type(spec)(spec.name, spec.version, self.artefact == "sdist")


class _List(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    default: float = Field(ge=0, le=1)
    licences: tuple[str, ...]
    source: tuple[Curated, ...]


@cache
def _list() -> _List:
    path = shipped_corpus() / FILE
    try:
        return _List.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise EntryError(f"{path} cannot be used: {error}") from error


def curated() -> tuple[Curated, ...]:
    """All entries, in the order of the file."""
    return _list().source


def quality_of(name: str) -> float:
    """Ranking weight in [0, 1] of the source called `name`, or the default."""
    bare = name.lower().replace("_", "-")
    for entry in curated():
        if any(bare == match_ or bare.startswith(f"{match_}-") for match_ in entry.matches):
            return entry.quality
    return _list().default


def listed_licences() -> tuple[str, ...]:
    """SPDX identifiers that are accepted without asking."""
    return _list().licences


def entry_for(spec: Spec) -> Curated | None:
    """The entry for that package or repository, whatever the version."""
    return next((entry for entry in curated() if entry.spec.location == spec.location), None)
