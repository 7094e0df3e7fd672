"""Build an index anew from the sources that it records, for a damaged or outdated one."""

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from kb.index.state import IndexState
from kb.index.writer import IndexWriter
from kb.records import Source


@dataclass(frozen=True, slots=True)
class _Known:
    """What a damaged index still tells."""

    state: IndexState | None
    """The whole state, if the current generation can be read."""
    requests: list[tuple[str, Request | Source]]
    """Each source's name, and how it was ingested; a published source as it is recorded."""


def rebuild(
    index: Path,
    embedder: Embedder,
    *,
    drop_missing: bool = False,
    progress: Progress | None = None,
) -> IngestReport:
    """Read every recorded source again and publish a generation made afresh.

    A source whose files are gone is taken over from the current generation where that can be read.

    Raises
    ------
    IndexUnavailableError
        If nothing is left that names the sources, or one is gone and `drop_missing` is not set.
    """
    with IndexWriter(index) as writer:
        known = _known(writer.layout)
        run = Ingestion(writer, embedder, progress or Silent())
        missing: list[str] = []
        # Corpora first: their detect patterns tag the code of the others.
        for name, request in sorted(known.requests, key=_after_corpora):
            try:
                if isinstance(request, Source):
                    request = again(request)  # noqa: PLW2901
                run.read(request)
            except (SourceError, EntryError) as error:
                if known.state is not None:
                    others = {source.name for source in known.state.sources} - {name}
                    run.state = run.state.merged(known.state.without(*others))
                else:
                    missing.append(f"{name} ({error})")
        if missing and not drop_missing:
            raise IndexUnavailableError(
                f"cannot read again: {'; '.join(missing)}. Bring them back, or rebuild without "
                "them with --drop-missing"
            )
        run.state = retag(run.state)
        _discard_broken_cache(writer.layout)
        run.publish(fresh=True)
        return run.report


def _after_corpora(pair: tuple[str, Request | Source]) -> bool:
    return isinstance(pair[1], Source) or not is_corpus(pair[1].path)


def _request(source: Mapping[str, Any]) -> tuple[str, Request | Source]:
    """How a source, as `sources.json` records it, was ingested."""
    if is_published(str(source["location"])):
        return str(source["name"]), Source.from_json(dict(source))
    place, name = Path(source["location"]), str(source["name"])
    if is_corpus(place):
        return name, Request(place)
    include, exclude = tuple(source["include"]), tuple(source["exclude"])
    return name, Request(place, name, include, exclude, float(source["quality"]))


def _known(layout: IndexLayout) -> _Known:
    try:
        with contextlib.closing(open_generation(layout.root)) as generation:
            state = generation.state()
            return _Known(state, [_request(source.to_json()) for source in state.sources])
    except (KbError, ValueError, TypeError, KeyError):
        pass  # it is damaged: the list of sources may still be whole
    for folder in _candidates(layout):
        try:
            listed = json.loads((folder / SOURCES).read_text(encoding="utf-8"))
            return _Known(None, [_request(source) for source in listed])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    raise IndexUnavailableError(
        f"nothing at {layout.root} says what was ingested: delete {layout.pointer} and run "
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
