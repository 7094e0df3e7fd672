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
from benchmarks.judge.cases import ROOT, constant
from benchmarks.optimize import records
from benchmarks.optimize.asking import configure, make_parser, shared_runner
from benchmarks.optimize.records import AT_LEAST, best_speedup, counted_speedup
from benchmarks.tasks import Record

_FAMILIES = Path(__file__).with_name("families.toml")
_BASELINES = ("eager", "compile")
FIRST, FURTHER = "first", "further"
_FIXTURES = ROOT.with_name("operators")
LISTS = {FIRST: _FIXTURES / "problems", FURTHER: _FIXTURES / "further"}


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of the lists."""

    name: str
    path: Path
    dtype: str
    """Of floating-point inputs and parameters."""
    about: str
    family: str
    """Of `families.toml`."""
    list_name: str
    """A key of `LISTS`."""


def load(only: list[str] | None = None, lists: Sequence[str] = tuple(LISTS)) -> list[Operator]:
    """All operators of the lists by name, or those named; KeyError where there is none."""
    families = tomllib.loads(_FAMILIES.read_text(encoding="utf-8"))
    family_of = {name: family for family, names in families.items() for name in names}
    operators: dict[str, Operator] = {}
    for key in lists:
        for path in sorted(LISTS[key].glob("[a-z]*.py")):
            text, name = path.read_text(encoding="utf-8"), path.stem
            about = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
            dtype, family = constant(text, "DTYPE"), family_of[name]
            operators[name] = Operator(name, path, dtype, about, family, key)
    return [operators[name] for name in (only or operators)]


def _keys(options: argparse.Namespace) -> list[str]:
    lists = list(LISTS) if options.list == "both" else [options.list]
    return [operator.name for operator in load(options.only, lists)]


def _measure(name: str, options: argparse.Namespace, runner: Runner) -> Record:
    (operator,) = load([name])
    baselines = (*_BASELINES, "max-autotune") if options.max_autotune else _BASELINES
    config = configure(options, operator.path, dtype=operator.dtype, baselines=baselines)
    root = records.runs_of(options.out) / name
    return records.run_and_record(
        lambda: runner.run(root, config),
        name=name, about=operator.about, dtype=operator.dtype, operator_family=operator.family,
        list=operator.list_name,
    )  # fmt: skip


def summary(results: list[Record]) -> dict[str, Any]:
    """Figures over all operators, and over the first twenty alone."""
    first = [record for record in results if record.get("list") != FURTHER]
    return figures(results) | {"of_the_first_twenty": figures(first)}


def figures(results: Sequence[Record]) -> dict[str, Any]:
    """Figures of all records; a failed run is in no mean, and not at or above `torch.compile`.

    Figures outside `of_those_found` are of the runs' answers, which are `torch.compile` where that
    is faster than the kernel found.
    """
    better = [record for record in results if record.get("better")]
    all_ratios = _over_compile({record["name"]: counted_speedup(record) for record in results})
    proposers = sorted({record["proposer"] for record in better})
    forms = sorted({record["given_back"] for record in results if record.get("given_back")})
    gpu_seconds = [record["gpu_seconds"] for record in results if "gpu_seconds" in record]
    reached = all_ratios["at_or_above_compile"]
    return {
        "operators": len(results),
        "found_better_than_eager": len(better),
        "right_of_these": sum(bool(record["verdict"]) and record["confirmed"] for record in better),
        "by_proposer": {
            name: sum(record["proposer"] == name for record in better) for name in proposers
        },
        **all_ratios,
        "share_at_or_above_compile": reached / len(results) if results else None,
        "of_those_found": _over_compile({r["name"]: best_speedup(r) for r in better}),
        "given_back": {
            form: sorted(record["name"] for record in results if record.get("given_back") == form)
            for form in forms
        },
        "nothing_better": [record["name"] for record in results if record.get("better") is False],
        "failed": {record["name"]: record["failed"] for record in results if "failed" in record},
        "gpu_seconds_median": statistics.median(gpu_seconds) if gpu_seconds else None,
        "gpu_seconds_most": max(gpu_seconds, default=None),
    }


def _over_compile(ratios: Mapping[str, float | None]) -> dict[str, Any]:
    measured = {name: ratio for name, ratio in ratios.items() if ratio is not None}
    below = sorted(name for name, ratio in measured.items() if ratio < AT_LEAST)
    return {
        "at_or_above_compile": len(measured) - len(below),
        "geometric_mean_over_compile": records.mean(measured.values()),
        "below_compile": below,
    }


def _cells(record: Record) -> list[str]:
    speedup = records.ratio(record, records.COMPILE) if record["better"] else "nothing better"
    source = record["given_back"] or (record["proposer"] if record["better"] else "-")
    return [*records.times(record), speedup, source, f"{record['gpu_seconds']:.0f}"]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = make_parser(
        "benchmarks.optimize.operators",
        "Run the optimizer without a model and without a kernel on forty operators.",
        [operator.name for operator in load()],
    )
    parser.add_argument(
        "--list", choices=[*LISTS, "both"], default="both", help="of the lists (default: both)"
    )
    parser.add_argument("--max-autotune", action="store_true", help="compile with it, too: slow")
    return parser.parse_args(arguments)


BENCHMARK = tasks.Benchmark(
    options=_options,
    keys=_keys,
    open_shared=shared_runner,
    measure=_measure,
    columns=(*records.TIMES, "over compile", "given back", "GPU s"),
    cells=_cells,
    summary=summary,
)


if __name__ == "__main__":
    sys.exit(tasks.main(BENCHMARK))
