"""A fetched package or repository as a source; one that the index already holds is not opened."""

from dataclasses import dataclass, replace

from ingest.chunking import chunking_version
from ingest.directory import directory_state
from ingest.reading import Reading
from ingest.sources.cache import Cache, Fetched
from ingest.sources.curated import quality_of
from ingest.sources.spec import GIT, Repository
from ingest.sources.tree import unpack
from kb.errors import SourceError
from kb.index.state import IndexState
from kb.records import Source


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a published source comes from, and how its results are cited."""

    fetched: Fetched
    licence: str
    """SPDX expression, accepted."""
    url: str | None
    cache: Cache

    @property
    def name(self) -> str:
        """Default name of the source: that of the package or repository."""
        kind, _, bare = self.fetched.location.partition(":")
        return Repository(bare, "").name if kind.startswith(GIT) else bare

    def __str__(self) -> str:
        return f"{self.name} {self.fetched.version}"


def published_state(origin: Origin, reading: Reading) -> IndexState:
    """Read a fetched archive into its part of an index.

    If the previous state holds the same archive, read with equal settings, its chunks are reused.

    Raises
    ------
    SourceError
        If the archive is damaged or unsafe, or holds nothing that can be ingested.
    """
    fetched, name, report = origin.fetched, reading.name, reading.report
    report.version, report.licence = fetched.version, origin.licence
    former = reading.former.source(name)

    def with_citation(source: Source) -> Source:
        return replace(
            source,
            location=fetched.location,
            version=fetched.version,
            licence=origin.licence,
            url=origin.url,
            sha256=fetched.sha256,
            quality=quality_of(name) if reading.quality is None else reading.quality,
        )

    settings = (
        fetched.sha256, chunking_version(reading.detector), reading.include, reading.exclude,
    )  # fmt: skip
    if former and (former.sha256, former.chunking, former.include, former.exclude) == settings:
        report.files = report.unchanged_files = len(former.files)
        chunks = tuple(chunk for chunk in reading.former.chunks if chunk.source == name)
        return IndexState(sources=(with_citation(former),), chunks=chunks)
    with unpack(fetched, origin.cache) as root:
        try:
            state = directory_state(root, reading)
        except SourceError as error:
            raise SourceError(str(error).replace(str(root), str(origin))) from error
    return IndexState(sources=(with_citation(state.sources[0]),), chunks=state.chunks)
