"""`python -m benchmarks.optimize.operators --out FILE`: the optimizer on forty operators.

Without a model, and with no kernel to start from. Needs a GPU. FILE is written after each operator;
beside it, in FILE-runs, lie the run folders with their reports.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks.optimize import records
from benchmarks.optimize.asking import Lines, configure, ended, parser, require_gpu
from benchmarks.optimize.operators.cases import Operator, load
from benchmarks.optimize.operators.figures import summary
from benchmarks.optimize.running import Deadline, Judges, Runner
from kb.errors import KbError

_BASELINES = ("eager", "compile")


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing, write, print."""
    options = _options(arguments)
    require_gpu(options)
    with Judges() as judges:
        runner = Runner(options.index, judges, Lines())
        results = run(options, runner)
    print(table(list(results["records"].values())))
    for name, value in results.get("summary", {}).items():
        print(f"{name}: {value}")
    return 1 if results.get("summary", {}).get("failed") else 0


def run(options: argparse.Namespace, runner: Runner) -> records.Results:
    """All operators that have no record yet, or those named."""
    results = records.load(options.out)
    deadline = Deadline(options.limit)
    for operator in load(options.only):
        if records.done(results, operator.name):
            continue
        if deadline.over:
            print("out of time: start again to go on")
            break
        print(f"{operator.name} ({operator.dtype})", flush=True)
        results["records"][operator.name] = _measure(operator, options, runner)
        everything = list(results["records"].values())
        results["seconds_each"], results["seed"] = options.seconds_each, options.seed
        results["gpus"] = records.gpus(everything)
        results["summary"] = summary(everything)
        records.save(options.out, results)
        print(_line(results["records"][operator.name]), flush=True)
    return results


def _measure(operator: Operator, options: argparse.Namespace, runner: Runner) -> records.Record:
    known: dict[str, Any] = {
        "name": operator.name, "about": operator.about, "dtype": operator.dtype,
        "family": operator.family, "list": operator.of,
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
        f"{'over compile':<26}{'by':<8}{'GPU s':>6}"
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
    by = record["proposer"] if record["better"] else "-"
    return f"{name}{times}{share:>7}  {told:<26}{by:<8}{record['gpu_seconds']:>6.0f}"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    made = parser(
        "benchmarks.optimize.operators",
        "Run the optimizer without a model and without a kernel on forty operators.",
        [each.name for each in load()],
    )
    made.add_argument("--out", type=Path, required=True, help="JSON file to write, or go on with")
    made.add_argument("--max-autotune", action="store_true", help="compile with it, too: slow")
    return made.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(ended(main))
