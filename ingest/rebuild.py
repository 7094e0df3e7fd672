"""Rebuild a damaged or outdated index from the sources that it records."""

import contextlib
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from ingest.pipeline import Ingestion, Progress, Request, Silent
from ingest.prepare import again
from ingest.report import IngestReport
from ingest.sources.spec import is_published
from ingest.tagging import retag
from kb.corpus.loader import is_corpus
from kb.embedders import Embedder
from kb.errors import EntryError, IndexUnavailableError, KbError, SourceError
from kb.index.layout import SOURCES, IndexLayout
from kb.index.reader import open_generation
from kb.index.state import IndexState, parse_sources
from kb.index.writer import IndexWriter
from kb.records import Source


def rebuild(
    index: Path, embedder: Embedder, *, drop_missing: bool = False, progress: Progress | None = None
) -> IngestReport:
    """Read every recorded source again and publish a fresh generation.

    A source whose files are gone is taken from the current generation, if that can be read.

    Raises
    ------
    IndexUnavailableError
        If no list of sources is left, or a source is gone and `drop_missing` is not set.
    """
    with IndexWriter(index) as writer:
        former, sources = _recorded_state(writer.layout)
        run = Ingestion(writer, embedder, progress or Silent())
        missing: list[str] = []
        # Corpora first: their detect patterns tag the code of the others.
        for source in sorted(sources, key=lambda source: not is_corpus(Path(source.location))):
            try:
                run.read(_request(source))
            except (SourceError, EntryError) as error:
                if former is not None:
                    others = {other.name for other in sources} - {source.name}
                    run.state = run.state.merged(former.without(*others))
                else:
                    missing.append(f"{source.name} ({error})")
        if missing and not drop_missing:
            raise IndexUnavailableError(
                f"cannot read again: {'; '.join(missing)}. Restore them, or rebuild without "
                "them with --drop-missing"
            )
        run.state = retag(run.state)
        _discard_broken_cache(writer.layout)
        run.publish(fresh=True)
        return run.report


def _request(source: Source) -> Request:
    """How a source was ingested; a published one is fetched where it is not in the cache."""
    if is_published(source.location):
        return again(source)
    place = Path(source.location)
    if is_corpus(place):
        return Request(place)
    return Request(place, source.name, source.include, source.exclude, source.quality)


def _recorded_state(layout: IndexLayout) -> tuple[IndexState | None, tuple[Source, ...]]:
    """What a damaged index still tells: its state, if that can be read, and its sources."""
    try:
        with contextlib.closing(open_generation(layout.root)) as generation:
            state = generation.state()
            return state, state.sources
    except (KbError, ValueError, TypeError, KeyError):
        pass  # it is damaged: the list of sources may still be whole
    for folder in _candidates(layout):
        with contextlib.suppress(OSError, ValueError):
            return None, parse_sources((folder / SOURCES).read_text(encoding="utf-8"))
    raise IndexUnavailableError(
        f"nothing at {layout.root} records what was ingested: delete {layout.pointer} and run "
        "`kb ingest` with the sources"
    )


def _candidates(layout: IndexLayout) -> Iterable[Path]:
    """Generations to look for a list of sources in: the current one, then the newest."""
    try:
        current = layout.current()
    except IndexUnavailableError:
        current = None
    if current is not None:
        yield layout.generation(current)
    for name in reversed(layout.names()):
        yield layout.generation(name)


def _discard_broken_cache(layout: IndexLayout) -> None:
    try:
        with contextlib.closing(sqlite3.connect(layout.cache)) as connection:
            verdict = connection.execute("PRAGMA quick_check").fetchone()[0]
    except sqlite3.DatabaseError as error:
        verdict = str(error)
    if verdict != "ok":
        for suffix in ("", "-wal", "-shm"):
            Path(f"{layout.cache}{suffix}").unlink(missing_ok=True)
