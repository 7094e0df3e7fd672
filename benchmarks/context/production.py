"""`python -m benchmarks.context.production --index DIR`: what contexts for production code show.

The problems and grades are in `tests/fixtures/production`: a problem's grade of an operator of the
corpus is 2 where a kernel of it does the heart of the problem, 1 where it does a substantial part
of it or shows the right structure.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click

from benchmarks.context.problems import shown_example
from kb.context.build import build_context
from kb.context.models import ContextRequest
from kb.search.engine import Searcher
from kb.search.opening import open_searcher
from kb.vocabulary import load_yaml

PROBLEMS = Path(__file__).parents[2] / "tests" / "fixtures" / "production"
_BUDGETS = (2000, 3000, 6000)


@dataclass(frozen=True, slots=True)
class Shown:
    """The first example of one problem's context."""

    problem: str
    slug: str | None
    grade: int


@cache
def read_grades() -> dict[str, dict[str, int]]:
    """Return folder/problem → operator of the corpus → grade; problems without any are left out."""
    grades: dict[str, dict[str, int]] = load_yaml(
        (PROBLEMS / "grades.yaml").read_text(encoding="utf-8")
    )
    return {problem: graded for problem, graded in grades.items() if graded}


def shown(folder: str, searcher: Searcher, tokens: int) -> Iterator[Shown]:
    """Yield the first example that the context of each graded problem of a folder shows."""
    for problem, graded in read_grades().items():
        if problem.partition("/")[0] != folder:
            continue
        text = (PROBLEMS / f"{problem}.py").read_text(encoding="utf-8")
        request = ContextRequest(
            problem=text, gpu="H200", language="triton", dtype="bfloat16", max_tokens=tokens
        )
        example = shown_example(build_context(request, searcher).text)
        slug = example[0] if example is not None else None
        op = searcher.generation.kernels[slug].entry.op if slug is not None else ""
        yield Shown(problem, slug, graded.get(op, 0))


@click.command()
@click.option("--index", required=True, type=click.Path(path_type=Path), help="Index folder.")
@click.option("--details", is_flag=True, help="Print one line a problem.")
def main(index: Path, *, details: bool) -> None:
    """Print for each folder and budget how many contexts show a kernel of which grade first."""
    searcher = open_searcher(index)
    folders = dict.fromkeys(problem.partition("/")[0] for problem in read_grades())
    for folder in folders:
        for tokens in _BUDGETS:
            examples = list(shown(folder, searcher, tokens))
            counts = {
                "problems": len(examples),
                "heart": sum(example.grade == 2 for example in examples),
                "part": sum(example.grade == 1 for example in examples),
                "other": sum(example.grade == 0 and bool(example.slug) for example in examples),
                "none": sum(example.slug is None for example in examples),
            }
            click.echo(json.dumps({"folder": folder, "tokens": tokens, **counts}))
            for example in examples if details else ():
                click.echo(f"  {example.problem} {example.slug} {example.grade}")


if __name__ == "__main__":
    main()
