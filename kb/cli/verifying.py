"""The command that checks a corpus: every entry valid, every kernel right."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from kb.corpus.loader import shipped_corpus
from kb.errors import KbError
from kb.verify import CheckResult, verify_corpus


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--only", multiple=True, metavar="SLUG", help="Only this kernel (repeatable).")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def verify(folder: Path | None, *, only: tuple[str, ...], as_json: bool) -> None:
    """Check a corpus: entries valid, kernels right.

    FOLDER is by default the one that comes with the package.
    Runs its kernels, so check only a corpus that you trust. Needs no GPU.
    """

    def tell(result: CheckResult) -> None:
        if not as_json:
            status = "FAILED" if result.failed else ("not run" if result.not_run else "ok")
            click.echo(f"{status:<7} {result.slug}, {result.check}: {result.detail}")

    results = verify_corpus(folder or shipped_corpus(), only=only, on_result=tell)
    if as_json:
        click.echo(json.dumps([asdict(result) for result in results], indent=2))
    failed = sum(result.failed for result in results)
    if failed:
        raise KbError(f"{failed} of {len(results)} checks failed")
    if not as_json:
        passed = sum(result.passed for result in results)
        click.echo(f"{passed} checks passed, {len(results) - passed} not run, none failed")
