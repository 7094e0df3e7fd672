"""The ingest pipeline: sources in, one published generation out."""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ingest.corpus_source import corpus_state
from ingest.directory import directory_state
from ingest.published import Origin, published_state
from ingest.reading import Reading
from ingest.report import IngestReport, SourceReport
from ingest.tagging import detector_of, retag
from ingest.workers import ThisProcess, Workers
from kb.corpus.loader import is_corpus
from kb.embedders import Embedder
from kb.errors import IndexMismatchError, IndexUnavailableError, NotFoundError, SourceError
from kb.index.reader import open_generation
from kb.index.state import IndexState
from kb.index.writer import IndexWriter


class Progress(Protocol):
    """Receives the progress of an ingest."""

    def stage(self, name: str, total: int | None = None) -> None:
        """A new stage begins, with `total` steps if known."""

    def advance(self, steps: int) -> None:
        """Steps of the current stage are done."""


class Silent:
    """Ignores progress."""

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
    own = IndexWriter(index)
    # A dry run takes no lock, since even that would make a file.
    with contextlib.nullcontext(own) if dry_run else own as writer:
        run = Ingestion(writer, embedder, progress or Silent(), workers or ThisProcess())
        run.take_over()
        for request in requests:
            run.read(request)
        return run.publish_changes(dry_run=dry_run)


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
        run = Ingestion(writer, embedder, progress or Silent())
        run.take_over()
        names = [source.name for source in run.state.sources]
        if name not in names:
            known = ", ".join(names) or "none"
            raise NotFoundError(f"the index has no source '{name}': it has {known}")
        run.state = retag(run.state.without(name))
        return run.publish_changes()


@dataclass(slots=True)
class Ingestion:
    """One run of the pipeline: sources are read into its state, which is then published."""

    writer: IndexWriter
    embedder: Embedder
    progress: Progress
    workers: Workers = field(default_factory=ThisProcess)
    state: IndexState = field(default_factory=IndexState)
    report: IngestReport = field(default_factory=lambda: IngestReport([]))

    def take_over(self) -> None:
        """Begin with the state of the current generation, if there is one.

        Raises
        ------
        IndexUnavailableError
            It cannot be read.
        IndexMismatchError
            It was made by another embedder: an index holds vectors of one embedder only.
        """
        root = self.writer.layout.root
        if self.writer.layout.current() is None:
            return
        manifest = self.writer.current_manifest()
        if manifest is None:
            raise IndexUnavailableError(
                f"the index at {root} points to a generation that does not exist: run `kb rebuild`"
            )
        if manifest.embedder != self.embedder.name:
            raise IndexMismatchError(
                f"the index at {root} was made with embedder {manifest.embedder}, not "
                f"{self.embedder.name}: run `kb rebuild` to re-embed it, or use another --index"
            )
        with contextlib.closing(open_generation(root)) as generation:
            self.state = generation.state()

    def read(self, request: Request) -> None:
        """Read a source again into the state, and add a line to the report.

        Raises
        ------
        SourceError, EntryError
            The source is missing, empty or malformed, or its name or a slug is taken.
        """
        root, origin, state = request.path, request.origin, self.state
        location = origin.fetched.location if origin else str(root)
        self.progress.stage(f"reading {origin or root}")
        report = SourceReport(name="", location=location)
        if origin is None and is_corpus(root):
            part = corpus_state(root)
            if request.name:
                raise SourceError(f"{root} is a corpus, named by its corpus.yaml: omit --name")
            name = part.sources[0].name
            _refuse_folder_of_that_name(name, state)
            _refuse_taken_slugs(part, state.without(name))
            report.compare(part.sources[0].files, state.source(name))
            self.state = retag(state.without(name).merged(part))
        else:
            name = request.name or (origin.name if origin else root.resolve().name)
            _refuse_unprintable(name, Path() if origin else root)
            _refuse_taken_name(name, location if origin else str(root.resolve()), state)
            reading = Reading(
                name, detector_of(state), state, report,
                request.include, request.exclude, request.quality, self.workers,
            )  # fmt: skip
            part = published_state(origin, reading) if origin else directory_state(root, reading)
            self.state = state.without(name).merged(part)
        report.name = name
        report.chunks = len(part.chunks)
        folds = [chunk.fold for chunk in part.chunks if chunk.fold]
        report.folded = len(folds) - len(set(folds))
        self.report.sources.append(report)

    def publish_changes(self, *, dry_run: bool = False) -> IngestReport:
        """Publish the state if it differs from the current generation's."""
        report, manifest = self.report, self.writer.current_manifest()
        report.dry_run, report.chunks = dry_run, len(self.state.chunks)
        content = self.state.content(self.embedder.name)
        if manifest is not None and manifest.content == content:
            report.reused = len(self.state.chunks)
            report.generation = manifest.generation
        elif dry_run:
            report.generation = manifest.generation if manifest else None
        else:
            self.publish(content=content)
        return report

    def publish(self, *, content: str | None = None, fresh: bool = False) -> None:
        """Embed what is new in the state and publish it; options as for `IndexWriter.publish`."""
        report, chunks = self.report, self.state.chunks
        report.chunks = len(chunks)
        self.progress.stage("embedding", len({chunk.embedding_text() for chunk in chunks}))
        distributed, at_once = self.workers.embedding(self.embedder)
        vectors, report.embedded = self.writer.embed(
            chunks, distributed, self.progress.advance, at_once=at_once
        )
        report.reused = max(len(chunks) - report.embedded, 0)
        self.progress.stage("publishing")
        manifest = self.writer.publish(
            self.state, vectors, self.embedder.name, content=content, fresh=fresh
        )
        report.generation, report.published = manifest.generation, True


def _refuse_taken_name(name: str, location: str, state: IndexState) -> None:
    other = state.source(name)
    if other is not None and other.location != location:
        raise SourceError(
            f"the index already has a source '{name}' from {other.location}: "
            f"give this one another --name, or first `kb remove {name}`"
        )


def _refuse_unprintable(name: str, root: Path) -> None:
    try:
        f"{name}{root.resolve()}".encode()
    except UnicodeEncodeError as error:
        printable = os.fsencode(root).decode("utf-8", "backslashreplace")
        raise SourceError(f"the path {printable} is not valid UTF-8: rename it") from error


def _refuse_folder_of_that_name(name: str, state: IndexState) -> None:
    other = state.source(name)
    if other is not None and other.chunking:  # a corpus has none
        raise SourceError(
            f"the index already has a folder '{name}' from {other.location}, and this corpus has "
            f"the same name: first `kb remove {name}`"
        )


def _refuse_taken_slugs(part: IndexState, others: IndexState) -> None:
    for kind, own, other in (
        ("technique", part.techniques, others.techniques),
        ("kernel", part.kernels, others.kernels),
    ):
        owners = {record.entry.slug: record.source for record in other}
        for record in own:
            if record.entry.slug in owners:
                raise SourceError(
                    f"{record.path}: {kind} '{record.entry.slug}' is already in the index from "
                    f"source '{owners[record.entry.slug]}': rename it or remove that source"
                )
