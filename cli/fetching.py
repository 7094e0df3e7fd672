"""What `kb ingest` does with published sources: questions, fetching, the curated list."""

import sys
from collections.abc import Callable
from pathlib import Path

import click

from ingest.pipeline import Progress
from ingest.pipeline import ingest as run_ingest
from ingest.prepare import Options, prepare
from ingest.report import IngestReport
from ingest.sources.curated import curated
from ingest.sources.licence import canonical
from ingest.workers import Workers
from kb.embedders import Embedder
from kb.errors import IndexBusyError, IndexMismatchError, KbError


def fetch_options(
    pause: Callable[[], None], *, yes: bool, allow_licence: tuple[str, ...]
) -> Options:
    """How to fetch: large downloads are asked about on a terminal, and refused elsewhere.

    `pause` takes the bar off the terminal, for a question.
    """

    def confirm(what: str, size: int) -> bool:
        if yes:
            return True
        if not sys.stdin.isatty():
            return False
        pause()
        return click.confirm(f"fetch {what}, {size / 1e6:,.0f} MB?", err=True)

    return Options(confirm=confirm, allowed=tuple(canonical(name) for name in allow_licence))


def ingest_curated(
    index: Path,
    embedder: Embedder,
    options: Options,
    *,
    dry_run: bool,
    progress: Progress,
    workers: Workers,
) -> tuple[IngestReport, dict[str, str]]:
    """Ingest every source of the curated list, each published before the next is begun.

    So an interruption costs at most the source in work, and one that fails does not keep the
    others out. Returns the sum of the reports, and the failures by name.
    """
    total = IngestReport([], dry_run=dry_run)
    failures: dict[str, str] = {}
    for entry in curated():
        progress.stage(f"fetching {entry.name} ({entry.origin})")
        try:
            request = prepare(entry.spec, options, quality=entry.quality)
            report = run_ingest(
                [request], index, embedder, dry_run=dry_run, progress=progress, workers=workers
            )
        except (IndexBusyError, IndexMismatchError):
            raise  # the next would meet it too
        except KbError as error:
            failures[entry.name] = str(error)
            continue
        total.sources += report.sources
        total.embedded += report.embedded
        total.chunks, total.generation = report.chunks, report.generation
        total.published = total.published or report.published
    total.reused = max(total.chunks - total.embedded, 0)
    return total, failures
