"""`python -m benchmarks.context FOLDER…`: the quality of contexts for the problems in folders."""

import json
from pathlib import Path
from typing import Any

import click

from benchmarks.context.problems import lines, measure, table
from kb.corpus.loader import shipped_corpus
from kb.search.opening import open_searcher


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--index", required=True, type=click.Path(path_type=Path), help="Index folder.")
@click.option("--tokens", multiple=True, type=int, default=(3000, 1500), help="Budgets.")
@click.option("--gpu", default="H200", help="Card that contexts are asked for.")
@click.option("--language", default="triton", help="Language that contexts are asked for.")
@click.option("--dtype", help="Format that they run in; else as their text says.")
@click.option("--details", is_flag=True, help="Print one line a problem, what failed first.")
def main(
    folders: tuple[Path, ...], index: Path, tokens: tuple[int, ...], *, details: bool, **target: Any
) -> None:
    """Print first, body, whole, relevant, tokens and latency for each folder of problems."""
    searcher = open_searcher(index)
    for folder in folders:
        files = sorted(folder.glob("*.py"))
        for budget in tokens:
            outcomes = measure(files, searcher, shipped_corpus(), tokens=budget, **target)
            click.echo(json.dumps({"folder": folder.name, "tokens": budget, **table(outcomes)}))
            if details:
                click.echo("\n".join(lines(outcomes)))


if __name__ == "__main__":
    main()
