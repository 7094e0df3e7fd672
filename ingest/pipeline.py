"""The ingest pipeline: sources in, one published generation out."""

import contextlib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from ingest.corpus_source import corpus_state
from ingest.directory import directory_state
from ingest.published import Origin, published_state
from ingest.report import IngestReport, SourceReport
from ingest.tagging import detector_of, retag
from ingest.workers import ThisProcess, Workers
from kb.corpus.loader import is_corpus
from kb.embedders import Embedder
from kb.errors import IndexMismatchError, IndexUnavailableError, NotFoundError, SourceError
from kb.index.manifest import Manifest
from kb.index.reader import open_generation
from kb.index.state import IndexState
from kb.index.writer import IndexWriter
from kb.records import Chunk


class Progress(Protocol):
    """Told of an ingest's progress."""

    def stage(self, name: str, total: int | None = None) -> None:
        """A new stage begins, of `total` steps where known."""

    def advance(self, steps: int) -> None:
        """Steps of the current stage are done."""


class Silent:
    """Progress that nobody watches."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Nothing."""

    def advance(self, steps: int) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class Request:
    """One source to ingest."""

    path: Path
    name: str | None = None
    """Overrides the source's name, which else is the folder's or file's name."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    quality: float | None = None
    """Overrides the source's ranking weight, in [0, 1]."""
    origin: Origin | None = None
    """Of a published source; `path` then is its archive in the cache."""


def ingest(
    requests: Sequence[Request],
    index: Path,
    embedder: Embedder,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
    workers: Workers | None = None,
) -> IngestReport:
    """Read the sources, embed what is new, and publish one generation with all of them.

    Nothing is published when nothing changed. `workers` chunk and embed; by default this process.

    Raises
    ------
    SourceError, EntryError
        A source is missing, empty, or malformed; nothing is published.
    IndexBusyError
        Another process is writing.
    IndexMismatchError
        The index was made by another embedder or schema version.
    """
    progress = progress or Silent()
    own = IndexWriter(index)
    # A dry run takes no lock, since even that would make a file.
    with contextlib.nullcontext(own) if dry_run else own as writer:
        former = _former_state(writer, embedder)
        report = IngestReport([], dry_run=dry_run)
        state = former
        for request in requests:
            state = read_source(request, state, report, progress, workers=workers)
        return _publish(writer, state, embedder, report, progress, workers=workers)


def remove(
    name: str, index: Path, embedder: Embedder, progress: Progress | None = None
) -> IngestReport:
    """Publish a generation without that source.

    Raises
    ------
    NotFoundError
        If the index has no such source.
    """
    with IndexWriter(index) as writer:
        former = _former_state(writer, embedder)
        names = [source.name for source in former.sources]
        if name not in names:
            known = ", ".join(names) or "none"
            raise NotFoundError(f"the index has no source '{name}': it has {known}")
        state = retag(former.without(name))
        return _publish(writer, state, embedder, IngestReport([]), progress or Silent())


def _former_state(writer: IndexWriter, embedder: Embedder) -> IndexState:
    if writer.layout.current() is None:
        return IndexState()
    manifest = writer.current_manifest()
    if manifest is None:
        raise IndexUnavailableError(
            f"the index at {writer.layout.root} points to a generation that does not exist: "
            "run `kb rebuild`"
        )
    require_embedder(manifest, embedder, writer.layout.root)
    with contextlib.closing(open_generation(writer.layout.root)) as generation:
        return generation.state()


def require_embedder(manifest: Manifest, embedder: Embedder, index: Path) -> None:
    """Refuse to mix vectors of two embedders in one index.

    Raises
    ------
    IndexMismatchError
        If the index was made by another embedder.
    """
    if manifest.embedder != embedder.name:
        raise IndexMismatchError(
            f"the index at {index} was made with embedder {manifest.embedder}, not "
            f"{embedder.name}: run `kb rebuild` to re-embed it, or use another --index"
        )


def read_source(
    request: Request,
    state: IndexState,
    report: IngestReport,
    progress: Progress,
    *,
    workers: Workers | None = None,
) -> IndexState:
    """The state with this source read anew, and a line about it in the report.

    Raises
    ------
    SourceError, EntryError
        The source is missing, empty or malformed, or its name or a slug is taken.
    """
    root, origin = request.path, request.origin
    location = origin.fetched.location if origin else str(root)
    progress.stage(f"reading {origin or root}")
    source_report = SourceReport(name="", location=location)
    if origin is None and is_corpus(root):
        part = corpus_state(root)
        if request.name:
            raise SourceError(f"{root} is a corpus: its corpus.yaml names it, --name cannot")
        name = part.sources[0].name
        _refuse_folder_of_that_name(name, state)
        _refuse_taken_slugs(part, state.without(name))
        source_report.compare(part.sources[0].files, state.source(name))
        state = retag(state.without(name).merged(part))
    else:
        if origin is None:
            name = request.name or root.resolve().name
            place, taken_from = root, str(root.resolve())
            read = partial(directory_state, root)
        else:
            name = request.name or origin.name
            place, taken_from = Path(), location
            read = partial(published_state, origin)
        _refuse_unprintable(name, place)
        _refuse_taken_name(name, taken_from, state)
        part = read(
            name,
            detector_of(state),
            state,
            source_report,
            include=request.include,
            exclude=request.exclude,
            quality=request.quality,
            workers=workers,
        )
        state = state.without(name).merged(part)
    source_report.name = name
    source_report.chunks = len(part.chunks)
    source_report.folded = _folded(part.chunks)
    report.sources.append(source_report)
    return state


def _folded(chunks: Sequence[Chunk]) -> int:
    counts = Counter(chunk.fold for chunk in chunks if chunk.fold)
    return sum(count - 1 for count in counts.values())


def _refuse_taken_name(name: str, location: str, state: IndexState) -> None:
    taken = state.source(name)
    if taken is not None and taken.location != location:
        raise SourceError(
            f"the index already has a source '{name}' from {taken.location}: "
            f"give this one another --name, or first `kb remove {name}`"
        )


def _refuse_unprintable(name: str, root: Path) -> None:
    try:
        f"{name}{root.resolve()}".encode()
    except UnicodeEncodeError as error:
        shown = os.fsencode(root).decode("utf-8", "backslashreplace")
        raise SourceError(f"the path {shown} is not valid UTF-8: rename it") from error


def _refuse_folder_of_that_name(name: str, state: IndexState) -> None:
    taken = state.source(name)
    if taken is not None and taken.chunking:  # a corpus has none
        raise SourceError(
            f"the index already has a folder '{name}' from {taken.location}, which is the name of "
            f"this corpus: first `kb remove {name}`"
        )


def _refuse_taken_slugs(part: IndexState, others: IndexState) -> None:
    for kind, mine, theirs in (
        ("technique", part.techniques, others.techniques),
        ("kernel", part.kernels, others.kernels),
    ):
        taken = {record.entry.slug: record.source for record in theirs}
        for record in mine:
            if record.entry.slug in taken:
                raise SourceError(
                    f"{record.path}: {kind} '{record.entry.slug}' is already in the index from "
                    f"source '{taken[record.entry.slug]}': rename it or remove that source"
                )


def _publish(
    writer: IndexWriter,
    state: IndexState,
    embedder: Embedder,
    report: IngestReport,
    progress: Progress,
    *,
    workers: Workers | None = None,
) -> IngestReport:
    report.chunks = len(state.chunks)
    manifest = writer.current_manifest()
    content = state.content(embedder.name)
    if manifest is not None and manifest.content == content:
        report.reused = len(state.chunks)
        report.generation = manifest.generation
        return report
    if report.dry_run:
        report.generation = manifest.generation if manifest else None
        return report
    embed_and_publish(writer, state, embedder, report, progress, content=content, workers=workers)
    return report


def embed_and_publish(
    writer: IndexWriter,
    state: IndexState,
    embedder: Embedder,
    report: IngestReport,
    progress: Progress,
    *,
    content: str | None = None,
    workers: Workers | None = None,
    fresh: bool = False,
) -> None:
    """Embed what is new in a state and publish it; `content` and `fresh` as for the writer."""
    report.chunks = len(state.chunks)
    progress.stage("embedding", len({chunk.embedding_text() for chunk in state.chunks}))
    distributed, at_once = (workers or ThisProcess()).embedding(embedder)
    vectors, report.embedded = writer.embed(
        state.chunks, distributed, progress.advance, at_once=at_once
    )
    report.reused = max(len(state.chunks) - report.embedded, 0)
    progress.stage("publishing")
    manifest = writer.publish(state, vectors, embedder.name, content=content, fresh=fresh)
    report.generation, report.published = manifest.generation, True
