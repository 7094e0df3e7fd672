"""`python -m benchmarks.optimize.operators --out FILE`: the optimizer on forty operators.

Operators that it was not built on, without a model, and with no kernel to start from. Needs a GPU.
FILE is written after each operator; beside it, in FILE-runs, lie the run folders with their
reports. There are two lists, read without running them: the first twenty, and twenty more, with
which every family of `families.toml` has at least four. Each stood before kernels for it were
written.
"""

import argparse
import ast
import statistics
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.cards.sweep import Runner
from benchmarks import tasks
from benchmarks.judge.cases import ROOT, declared
from benchmarks.optimize import records
from benchmarks.optimize.asking import configure, kept_judges, parser
from benchmarks.optimize.records import AT_LEAST, counted, of_kernel
from benchmarks.tasks import Record

_FAMILIES = Path(__file__).with_name("families.toml")
_BASELINES = ("eager", "compile")
FIRST, FURTHER = "first", "further"
_FIXTURES = ROOT.with_name("operators")
LISTS = {FIRST: _FIXTURES / "problems", FURTHER: _FIXTURES / "further"}


@dataclass(frozen=True, slots=True)
class Operator:
    """One of the lists."""

    name: str
    path: Path
    dtype: str
    """Of floating-point inputs and parameters."""
    about: str
    family: str
    """Of `families.toml`."""
    of: str
    """The list that it is of."""


def load(only: list[str] | None = None, lists: Sequence[str] = tuple(LISTS)) -> list[Operator]:
    """All operators of the lists by name, or those named; KeyError where there is none."""
    families = tomllib.loads(_FAMILIES.read_text(encoding="utf-8"))
    family = {name: each for each, names in families.items() for name in names}
    found: dict[str, Operator] = {}
    for of in lists:
        for path in sorted(LISTS[of].glob("[a-z]*.py")):
            text, name = path.read_text(encoding="utf-8"), path.stem
            about = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
            found[name] = Operator(name, path, declared(text, "DTYPE"), about, family[name], of)
    return [found[name] for name in (only or found)]


def _keys(options: argparse.Namespace) -> list[str]:
    lists = list(LISTS) if options.list == "both" else [options.list]
    return [operator.name for operator in load(options.only, lists)]


def _measure(name: str, options: argparse.Namespace, runner: Runner) -> Record:
    (operator,) = load([name])
    baselines = (*_BASELINES, "max-autotune") if options.max_autotune else _BASELINES
    config = configure(options, operator.path, dtype=operator.dtype, baselines=baselines)
    root = records.runs_of(options.out) / name
    return records.recorded(
        lambda: runner.run(root, config),
        name=name, about=operator.about, dtype=operator.dtype, operator_family=operator.family,
        list=operator.of,
    )  # fmt: skip


def summary(found: list[Record]) -> dict[str, Any]:
    """Figures over all operators, and over the first twenty alone."""
    first = [each for each in found if each.get("list") != FURTHER]
    return figures(found) | {"of_the_first_twenty": figures(first)}


def figures(found: Sequence[Record]) -> dict[str, Any]:
    """Of all records; a run that failed is in no mean, and not at or above `torch.compile`.

    Figures without `of_those_found` are of what runs give back, which is `torch.compile` where that
    is faster than what was found.
    """
    better = [each for each in found if each.get("better")]
    all_ratios = _over_compile({each["name"]: counted(each) for each in found})
    proposers = sorted({each["proposer"] for each in better})
    forms = sorted({each["given_back"] for each in found if each.get("given_back")})
    spent = [each["gpu_seconds"] for each in found if "gpu_seconds" in each]
    above = all_ratios["at_or_above_compile"]
    return {
        "operators": len(found),
        "found_better_than_eager": len(better),
        "right_of_these": sum(bool(each["verdict"]) and each["confirmed"] for each in better),
        "by_proposer": {
            name: sum(each["proposer"] == name for each in better) for name in proposers
        },
        **all_ratios,
        "share_at_or_above_compile": above / len(found) if found else None,
        "of_those_found": _over_compile({each["name"]: of_kernel(each) for each in better}),
        "given_back": {
            form: sorted(each["name"] for each in found if each.get("given_back") == form)
            for form in forms
        },
        "nothing_better": [each["name"] for each in found if each.get("better") is False],
        "failed": {each["name"]: each["failed"] for each in found if "failed" in each},
        "gpu_seconds_median": statistics.median(spent) if spent else None,
        "gpu_seconds_most": max(spent, default=None),
    }


def _over_compile(ratios: Mapping[str, float | None]) -> dict[str, Any]:
    known = {name: ratio for name, ratio in ratios.items() if ratio is not None}
    below = sorted(name for name, ratio in known.items() if ratio < AT_LEAST)
    return {
        "at_or_above_compile": len(known) - len(below),
        "geometric_mean_over_compile": records.mean(known.values()),
        "below_compile": below,
    }


def _cells(record: Record) -> list[str]:
    told = records.ratio(record, records.COMPILE) if record["better"] else "nothing better"
    by = record["given_back"] or (record["proposer"] if record["better"] else "-")
    return [*records.times(record), told, by, f"{record['gpu_seconds']:.0f}"]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    made = parser(
        "benchmarks.optimize.operators",
        "Run the optimizer without a model and without a kernel on forty operators.",
        [operator.name for operator in load()],
    )
    made.add_argument(
        "--list", choices=[*LISTS, "both"], default="both", help="of the lists (default: both)"
    )
    made.add_argument("--max-autotune", action="store_true", help="compile with it, too: slow")
    return made.parse_args(arguments)


BENCHMARK = tasks.Benchmark(
    options=_options,
    keys=_keys,
    opened=kept_judges,
    measure=_measure,
    columns=(*records.TIMES, "over compile", "given back", "GPU s"),
    cells=_cells,
    summary=summary,
)


if __name__ == "__main__":
    sys.exit(tasks.main(BENCHMARK))
