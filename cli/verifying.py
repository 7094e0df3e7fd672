"""The command that checks a corpus: every entry valid, every kernel right."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from kb.corpus.loader import shipped_corpus
from kb.errors import KbError
from kb.verify import CheckResult, verify_corpus
from kb.verify.cache import ResultCache


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--only", multiple=True, metavar="SLUG", help="Only this kernel (repeatable).")
@click.option("--fresh", is_flag=True, help="Check unchanged kernels again as well.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def verify(folder: Path | None, *, only: tuple[str, ...], fresh: bool, as_json: bool) -> None:
    """Check that a corpus has valid entries and correct kernels.

    FOLDER defaults to the corpus that comes with the package.
    The check runs the kernels, so check only a corpus that you trust. It needs no GPU. A kernel
    that passed is checked again when its files, the checks, or the versions of Python, torch,
    triton or nvcc change; --fresh checks everything.
    """

    def tell(result: CheckResult) -> None:
        if not as_json:
            status = "FAILED" if result.failed else ("not run" if result.not_run else "ok")
            click.echo(f"{status:<7} {result.slug}, {result.check}: {result.detail}")

    cache = None if fresh else ResultCache()
    results = verify_corpus(folder or shipped_corpus(), only=only, on_result=tell, cache=cache)
    if as_json:
        click.echo(json.dumps([asdict(result) for result in results], indent=2))
    failed = sum(result.failed for result in results)
    if failed:
        raise KbError(f"{failed} of {len(results)} checks failed")
    if not as_json:
        passed = sum(result.passed for result in results)
        click.echo(f"{passed} checks passed, {len(results) - passed} not run, none failed")
