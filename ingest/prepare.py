"""Turn a source's name into a request for the pipeline: fetch it and accept its licence."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from ingest.pipeline import Request
from ingest.published import Origin
from ingest.sources.cache import Cache, Fetched
from ingest.sources.curated import entry_for, listed_licences
from ingest.sources.git import fetch_repository
from ingest.sources.licence import accepted_licence
from ingest.sources.packages import Confirm, Fetcher, fetch_package
from ingest.sources.spec import Package, Repository, Spec, parse_spec
from kb.errors import SourceError
from kb.records import Source


@dataclass(frozen=True, slots=True)
class Options:
    """How published sources are to be fetched."""

    confirm: Confirm = lambda _what, _size: False
    allowed: Collection[str] = ()
    """SPDX expressions that are accepted besides those of the curated list."""
    cache: Cache = field(default_factory=Cache)


def prepare(
    spec: Spec,
    options: Options,
    *,
    name: str | None = None,
    include: tuple[str, ...] = (),
    exclude: tuple[str, ...] = (),
    quality: float | None = None,
) -> Request:
    """Fetch a source if it is not in the cache, and return how to ingest it.

    A source of the curated list has that list's artefact, patterns, licence and homepage; patterns
    given here replace the list's.

    Raises
    ------
    SourceError
        If it cannot be fetched, is unsafe, or its licence is not accepted.
    """
    entry = entry_for(spec)
    if entry and isinstance(spec, Package):
        spec = replace(spec, prefer_sdist=entry.artefact == "sdist")
    fetched = _fetch(spec, options)
    licence = accepted_licence(
        fetched, listed_licences(), options.allowed, entry.licence if entry else None
    )
    if entry and not include and not exclude:
        include, exclude = entry.include, entry.exclude
    url = entry.homepage if entry else fetched.url
    origin = Origin(fetched, licence, url, options.cache)
    path = options.cache.archive(fetched)
    return Request(path, name, include, exclude, quality, origin)


def again(source: Source, options: Options | None = None) -> Request:
    """A request for a source that an index records, from the cache or fetched again.

    Raises
    ------
    SourceError
        If it cannot be fetched, or its archive has changed.
    """
    options = options or Options(confirm=lambda _what, _size: True)
    assert source.version is not None and source.sha256 is not None  # published sources have both
    fetched = options.cache.by_hash(source.location, source.version, source.sha256)
    if fetched is None:
        fetched = _fetch_recorded(source, options)
    origin = Origin(fetched, source.licence or "", source.url, options.cache)
    path = options.cache.archive(fetched)
    return Request(path, source.name, source.include, source.exclude, source.quality, origin)


def _fetch(spec: Spec, options: Options) -> Fetched:
    fetcher = Fetcher(options.cache, options.confirm)
    if isinstance(spec, Repository):
        return fetch_repository(spec, fetcher)
    return fetch_package(spec, fetcher)


def _fetch_recorded(source: Source, options: Options) -> Fetched:
    separator = "@" if source.location.startswith("git+") else "=="
    spec = parse_spec(f"{source.location}{separator}{source.version}")
    forms = [spec] if isinstance(spec, Repository) else [spec, replace(spec, prefer_sdist=True)]
    for form in forms:
        fetched = _fetch(form, options)
        if fetched.sha256 == source.sha256:
            return fetched
    raise SourceError(
        f"{source.location} {source.version} is no longer the archive that was ingested"
    )
