"""`python -m benchmarks.optimize.operators --out FILE`: the optimizer on forty operators.

Without a model, and with no kernel to start from. Needs a GPU. FILE is written after each operator;
beside it, in FILE-runs, lie the run folders with their reports.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from agent.cards.sweep import Runner
from benchmarks import tasks
from benchmarks.optimize import records
from benchmarks.optimize.asking import configure, kept_judges, parser
from benchmarks.optimize.operators import figures
from benchmarks.optimize.operators.cases import FIRST, FURTHER, load

_BASELINES = ("eager", "compile")
LISTS_OF = {"first": (FIRST,), "further": (FURTHER,), "both": (FIRST, FURTHER)}


def _keys(options: argparse.Namespace) -> list[str]:
    return [each.name for each in load(options.only, LISTS_OF[options.list])]


def _measure(name: str, options: argparse.Namespace, runner: Runner) -> tasks.Record:
    (operator,) = load([name])
    baselines = (*_BASELINES, "max-autotune") if options.max_autotune else _BASELINES
    config = configure(options, operator.path, dtype=operator.dtype, baselines=baselines)
    return records.recorded(
        lambda: runner.run(records.runs_of(options.out) / operator.name, config),
        name=operator.name,
        about=operator.about,
        dtype=operator.dtype,
        operator_family=operator.family,
        list=operator.of,
    )


def summary(found: list[tasks.Record]) -> dict[str, Any]:
    """Figures over all operators, and over the first twenty alone."""
    first = [each for each in found if each.get("list") != FURTHER]
    return figures.summary(found) | {"of_the_first_twenty": figures.summary(first)}


def _cells(record: tasks.Record) -> list[str]:
    forms = ("eager", records.COMPILE, "max-autotune", "best")
    told = records.ratio(record, records.COMPILE) if record["better"] else "nothing better"
    by = record["given_back"] or (record["proposer"] if record["better"] else "-")
    return [
        *(records.milliseconds(record, each) for each in forms),
        records.percent(record["floor_fraction"]),
        told,
        by,
        f"{record['gpu_seconds']:.0f}",
    ]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    made = parser(
        "benchmarks.optimize.operators",
        "Run the optimizer without a model and without a kernel on forty operators.",
        [each.name for each in load()],
    )
    made.add_argument(
        "--list", choices=list(LISTS_OF), default="both", help="which of the lists (default: both)"
    )
    made.add_argument("--max-autotune", action="store_true", help="compile with it, too: slow")
    return made.parse_args(arguments)


BENCHMARK = tasks.Benchmark(
    options=_options,
    keys=_keys,
    opened=kept_judges,
    measure=_measure,
    columns=(
        "eager", "compile", "max-autotune", "best", "of floor", "over compile", "given back",
        "GPU s",
    ),
    cells=_cells,
    summary=summary,
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(tasks.main(BENCHMARK))
