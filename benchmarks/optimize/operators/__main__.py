"""`python -m benchmarks.optimize.operators --out FILE`: the optimizer on forty operators.

Without a model, and with no kernel to start from. Needs a GPU. FILE is written after each operator;
beside it, in FILE-runs, lie the run folders with their reports.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks.optimize import records, sharing
from benchmarks.optimize.asking import configure, ended, kept_judges, parser, require_gpu
from benchmarks.optimize.operators.cases import FIRST, FURTHER, load
from benchmarks.optimize.operators.figures import summary
from benchmarks.optimize.running import Runner
from kb.errors import KbError

_BASELINES = ("eager", "compile")
LISTS_OF = {"first": (FIRST,), "further": (FURTHER,), "both": (FIRST, FURTHER)}


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing, write, print."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _options(given)
    require_gpu(options)
    results = sharing.run(BENCHMARK, options, given)
    if options.serve is not None:
        return 0
    print(table(list(results["records"].values())))
    for name, value in results.get("summary", {}).items():
        print(f"{name}: {value}")
    return 1 if results.get("summary", {}).get("failed") else 0


def run(options: argparse.Namespace, runner: Runner) -> records.Results:
    """All operators that have no record yet, or those named."""
    return sharing.alone(BENCHMARK, options, runner)


def _keys(options: argparse.Namespace) -> list[str]:
    return [each.name for each in load(options.only, LISTS_OF[options.list])]


def _finish(results: records.Results, options: argparse.Namespace) -> None:
    everything = list(results["records"].values())
    results["seconds_each"], results["seed"] = options.seconds_each, options.seed
    results["gpus"] = records.gpus(everything)
    results["summary"] = summary(everything)
    results["summary_first"] = summary([e for e in everything if e.get("list") != FURTHER])


def _measure(name: str, options: argparse.Namespace, runner: Runner) -> records.Record:
    (operator,) = load([name])
    known: dict[str, Any] = {
        "name": operator.name, "about": operator.about, "dtype": operator.dtype,
        "operator_family": operator.family, "list": operator.of,
    }  # fmt: skip
    baselines = (*_BASELINES, "max-autotune") if options.max_autotune else _BASELINES
    config = configure(options, operator.path, dtype=operator.dtype, baselines=baselines)
    try:
        return records.record_of(runner.run(_runs(options.out) / operator.name, config), **known)
    except KbError as error:
        return {**known, "failed": str(error)}


def _runs(out: Path) -> Path:
    return out.with_name(f"{out.stem}-runs")


def table(found: list[records.Record]) -> str:
    """One line an operator."""
    head = (
        f"{'operator':<20}{'eager':>9}{'compile':>9}{'max-a.':>9}{'best':>9}{'floor':>7}  "
        f"{'over compile':<26}{'given':<13}{'GPU s':>6}"
    )
    return "\n".join([head, *(_line(each) for each in found)])


def _line(record: records.Record) -> str:
    name = f"{record['name']:<20}"
    if "failed" in record:
        return f"{name}failed: {record['failed']}"
    times = "".join(
        f"{records.milliseconds(record, each):>9}"
        for each in ("eager", "compile", "max-autotune", "best")
    )
    fraction = record["floor_fraction"]
    share = "-" if fraction is None else f"{fraction:.0%}"
    told = records.ratio(record, records.COMPILE) if record["better"] else "nothing better"
    by = record["given_back"] or (record["proposer"] if record["better"] else "-")
    return f"{name}{times}{share:>7}  {told:<26}{by:<13}{record['gpu_seconds']:>6.0f}"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    made = parser(
        "benchmarks.optimize.operators",
        "Run the optimizer without a model and without a kernel on forty operators.",
        [each.name for each in load()],
    )
    made.add_argument("--out", type=Path, required=True, help="JSON file to write, or go on with")
    made.add_argument(
        "--list", choices=list(LISTS_OF), default="both", help="which of the lists (default: both)"
    )
    made.add_argument("--max-autotune", action="store_true", help="compile with it, too: slow")
    return made.parse_args(arguments)


BENCHMARK = sharing.Benchmark(
    module="benchmarks.optimize.operators",
    keys=_keys,
    opened=kept_judges,
    measure=_measure,
    finish=_finish,
    line=_line,
)


if __name__ == "__main__":
    sys.exit(ended(main))
