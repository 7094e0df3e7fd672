"""The commands that look after an index: doctor, rebuild, export, import."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from cli import Session
from cli.writing import Reporter, embedder_for
from ingest.rebuild import rebuild as run_rebuild
from kb.embedders import load_embedder
from kb.errors import IndexUnavailableError, KbError
from kb.index.archive import export_index, import_index
from kb.index.doctor import examine


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.pass_obj
def doctor(session: Session, /, *, as_json: bool) -> None:
    """Check the index and say how to fix each problem."""
    findings = []
    for finding in examine(session.index):
        findings.append(finding)
        if not as_json:
            click.echo(
                f"{'ok' if finding.ok else 'PROBLEM':<8} {finding.subject}: {finding.detail}"
            )
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    problems = [finding for finding in findings if not finding.ok]
    if problems:
        raise KbError(f"{problems[0].subject}: {problems[0].detail}")


@click.command()
@click.option("--embedder", help="Re-embed with default, st:MODEL or openai:MODEL.")
@click.option("--drop-missing", is_flag=True, help="Leave out sources that cannot be read.")
@click.pass_obj
def rebuild(session: Session, /, embedder: str | None, *, drop_missing: bool) -> None:
    """Rebuild the index from the sources that it records.

    Uses the same embedder if this version has it.
    """
    try:
        model = embedder_for(session.index, embedder)
    except IndexUnavailableError:  # too damaged to say which embedder made it
        model = load_embedder(embedder)
    with Reporter() as reporter:
        report = run_rebuild(session.index, model, drop_missing=drop_missing, progress=reporter)
    click.echo(
        f"rebuilt: {report.chunks} chunks, {report.embedded} embedded, {report.reused} reused; "
        f"published {report.generation}"
    )


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_obj
def export(session: Session, /, file: Path) -> None:
    """Write the index to one FILE (tar.gz), for `kb import` elsewhere."""
    manifest = export_index(session.index, file)
    click.echo(f"exported {manifest.chunks} chunks to {file}")


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", "replace_existing", is_flag=True, help="Replace the existing index.")
@click.option("--embedder", help="Also allow an index made with this embedder.")
@click.pass_obj
def import_(
    session: Session, /, file: Path, *, replace_existing: bool, embedder: str | None
) -> None:
    """Import an index from a FILE that `kb export` wrote."""
    manifest = import_index(
        file, session.index, replace_existing=replace_existing, embedder=embedder
    )
    click.echo(f"imported {manifest.chunks} chunks as {manifest.generation}")
