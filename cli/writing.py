"""The commands that change an index: ingest and remove."""

import json
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import click

from cli import Session
from cli.fetching import fetch_options, ingest_curated
from cli.terminal import raw_stream
from ingest.pipeline import Request
from ingest.pipeline import ingest as run_ingest
from ingest.pipeline import remove as run_remove
from ingest.prepare import prepare
from ingest.report import IngestReport, SourceReport
from ingest.sources.spec import is_published, parse_spec
from ingest.workers import ThisProcess, Workers
from kb.corpus.loader import shipped_corpus
from kb.embedders import Embedder, load_embedder
from kb.errors import KbError
from kb.index.layout import IndexLayout
from kb.index.manifest import read_manifest
from kb.printable import printable

# Skipped files named one by one; the rest is counted.
_SKIPPED_SHOWN = 5
# Characters of a version or commit id in the table.
_VERSION_SHOWN = 12


class Reporter:
    """Progress of an ingest on stderr: a bar on a terminal, plain lines elsewhere."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._bar: Any = None

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            console = Console(file=raw_stream(sys.stderr))
            self._bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def pause(self) -> None:
        """Take the bar off the terminal, for a question; the next stage brings it back."""
        if self._bar is not None:
            for task in self._bar.task_ids:
                self._bar.remove_task(task)

    def stage(self, name: str, total: int | None = None) -> None:
        """Begin a stage."""
        name = printable(name)
        if self._quiet:
            return
        if self._bar is not None:
            self.pause()
            self._bar.add_task(name, total=total)
        else:
            click.echo(f"{name} ({total})" if total else name, err=True)

    def advance(self, steps: int) -> None:
        """Steps of the current stage are done."""
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[-1], steps)


def embedder_for(index: Path, name: str | None) -> Embedder:
    """The embedder asked for, else the one that made the index, else the default."""
    layout = IndexLayout(index)
    if name is None and (current := layout.current()) is not None:
        with suppress(FileNotFoundError):
            recorded = read_manifest(layout.generation(current)).embedder
            name = None if recorded.startswith("onnx:") else recorded
    return load_embedder(name)


def _workers(ray: str | None) -> AbstractContextManager[Workers]:
    """Who chunks and embeds: a Ray cluster where one is named."""
    if ray is None:
        return nullcontext(ThisProcess())
    from ingest.ray_workers import ray_workers

    return ray_workers(ray)


@click.command()
@click.argument("sources", nargs=-1)
@click.option("--name", help="Name of the source. Default: the folder's or file's name.")
@click.option("--include", multiple=True, help="Only matching files, gitignore style (repeatable).")
@click.option("--exclude", multiple=True, help="Skip matching files, gitignore style (repeatable).")
@click.option("--quality", type=click.FloatRange(0, 1), help="Ranking weight of the source.")
@click.option("--curated", is_flag=True, help="Ingest all sources that corpus/sources.toml lists.")
@click.option("--yes", is_flag=True, help="Fetch more than 100 MB without asking.")
@click.option(
    "--allow-licence", multiple=True, metavar="SPDX", help="Accept this licence too (repeatable)."
)
@click.option("--embedder", help="Embedder of a new index: default, st:MODEL or openai:MODEL.")
@click.option(
    "--ray", metavar="ADDRESS", help="Chunk and embed on a Ray cluster: auto, HOST:PORT or local."
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.pass_obj
def ingest(
    session: Session,
    /,
    sources: tuple[str, ...],
    name: str | None,
    include: tuple[str, ...],
    *,
    exclude: tuple[str, ...],
    quality: float | None,
    curated: bool,
    yes: bool,
    allow_licence: tuple[str, ...],
    embedder: str | None,
    ray: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Add folders, files and packages, or update them.

    A folder with a corpus.yaml is a corpus of techniques and kernels; any other folder is searched
    for code and documents. pypi:NAME[==VERSION] is a package from pip's index;
    git+https://HOST/PATH@REV is a revision of a repository. Both are fetched once, and their code
    is never run. Without SOURCES, the corpus that comes with the package is ingested.
    """
    if name and len(sources) != 1:
        raise click.UsageError("--name needs exactly one source")
    if curated and (sources or include or exclude or quality is not None):
        raise click.UsageError("--curated takes no sources, patterns or --quality")
    model = embedder_for(session.index, embedder)
    with _workers(ray) as workers, Reporter(quiet=as_json) as reporter:
        options = fetch_options(reporter.pause, yes=yes, allow_licence=allow_licence)
        if curated:
            report, failed = ingest_curated(
                session.index, model, options, dry_run=dry_run, progress=reporter, workers=workers
            )
        else:
            failed = {}
            patterns: dict[str, Any] = {
                "name": name, "include": include, "exclude": exclude, "quality": quality,
            }  # fmt: skip
            requests = []
            for source in sources or (str(shipped_corpus()),):
                if is_published(source):
                    spec = parse_spec(source)
                    reporter.stage(f"fetching {spec}")
                    requests.append(prepare(spec, options, **patterns))
                else:
                    requests.append(Request(Path(source), **patterns))
            report = run_ingest(
                requests, session.index, model, dry_run=dry_run, progress=reporter, workers=workers
            )
    _print_report(report, as_json=as_json)
    if failed:
        for source, reason in failed.items():
            click.echo(f"{source}: {reason}", err=True)
        raise KbError(
            f"{len(failed)} of the curated sources could not be ingested ({', '.join(failed)}); "
            "the others are in the index. Run the command again to continue"
        )


@click.command()
@click.argument("source")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.pass_obj
def remove(session: Session, /, source: str, *, as_json: bool) -> None:
    """Remove a source from the index. Its files are not touched."""
    model = embedder_for(session.index, None)
    with Reporter(quiet=as_json) as reporter:
        report = run_remove(source, session.index, model, reporter)
    if as_json:
        click.echo(json.dumps(asdict(report), indent=2))
    else:
        click.echo(f"removed {source}: {report.chunks} chunks remain")


def _print_report(report: IngestReport, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(asdict(report), indent=2))
        return
    from rich.markup import escape
    from rich.table import Table

    from cli.render import console

    table = Table(box=None, pad_edge=False)
    table.add_column("source", overflow="fold")
    published = any(source.version for source in report.sources)
    for title in ("version", "licence") if published else ():
        table.add_column(title, overflow="fold")
    for title in ("files", "unchanged", "removed", "chunks", "duplicates", "skipped"):
        table.add_column(title, justify="right")
    for source in report.sources:
        counts = [source.files, source.unchanged_files, source.removed_files, source.chunks]
        counts += [source.folded, len(source.skipped)]
        cited = ((source.version or "")[:_VERSION_SHOWN], source.licence or "") if published else ()
        table.add_row(escape(source.name), *cited, *(str(count) for count in counts))
    out = console()
    out.print(table)
    for source in report.sources:
        _print_skipped(source)
    out.print(_conclusion(report))


def _print_skipped(source: SourceReport) -> None:
    for item in source.skipped[:_SKIPPED_SHOWN]:
        click.echo(f"skipped {source.name}/{item.path}: {item.reason}")
    more = len(source.skipped) - _SKIPPED_SHOWN
    if more > 0:
        click.echo(f"… and {more} more skipped in {source.name} (--json lists all)")


def _conclusion(report: IngestReport) -> str:
    if report.dry_run:
        return f"dry run: the index would hold {report.chunks} chunks; nothing was changed"
    if not report.published:
        return f"nothing changed: {report.chunks} chunks, generation {report.generation}"
    return (
        f"{report.chunks} chunks: {report.embedded} embedded, {report.reused} reused; "
        f"published {report.generation}"
    )
