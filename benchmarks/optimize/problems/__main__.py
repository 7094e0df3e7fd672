"""`python -m benchmarks.optimize.problems --out DIR`: the optimizer on five problems.

Without a model, from the plain kernels of `benchmarks/kernels/starts` and from no kernel at all.
Needs a GPU. Writes DIR/results.json and DIR/results.md after each run; DIR/runs holds the run
folders with their reports.
"""

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

from agent.optimize.files import write_atomically
from benchmarks.optimize import records, sharing
from benchmarks.optimize.asking import configure, ended, kept_judges, parser, require_gpu
from benchmarks.optimize.problems import DTYPE, NAMES, path_of, start_of
from benchmarks.optimize.running import Runner
from kb.errors import KbError

FROM = {"start": ("start",), "nothing": ("nothing",), "both": ("start", "nothing")}


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
    return 1 if any("failed" in each for each in results["records"].values()) else 0


def run(options: argparse.Namespace, runner: Runner) -> records.Results:
    """All runs that have no record yet."""
    return sharing.alone(BENCHMARK, options, runner)


def _keys(options: argparse.Namespace) -> list[str]:
    names = options.only or NAMES
    return [f"{name}-{start}" for name in names for start in FROM[options.start]]


def _finish(results: records.Results, options: argparse.Namespace) -> None:
    everything = list(results["records"].values())
    results["seconds_each"], results["seed"] = options.seconds_each, options.seed
    results["gpus"] = records.gpus(everything)
    results["summary"] = summary(everything)
    write_atomically(options.out / "results.md", page(results))


def _measure(key: str, options: argparse.Namespace, runner: Runner) -> records.Record:
    name, _, start = key.rpartition("-")
    known = {"name": name, "from": start, "dtype": DTYPE}
    kernel = start_of(name) if start == "start" else None
    config = configure(options, path_of(name), dtype=DTYPE, kernel=kernel)
    try:
        return records.record_of(runner.run(options.out / "runs" / key, config), **known)
    except KbError as error:
        return {**known, "failed": str(error)}


def at_or_above(record: records.Record) -> bool | None:
    """Whether the best is no slower than the better one of compile and max-autotune, beyond noise;
    None where they have no times."""
    over = [record["over"][each] for each in ("compile", "max-autotune") if each in record["over"]]
    if not over:
        return None
    return all(each["ratio"] >= 1 or not each["significant"] for each in over)


def summary(found: list[records.Record]) -> dict[str, Any]:
    """The figures that are asked for, for each kind of start."""
    told: dict[str, Any] = {}
    for start in ("start", "nothing"):
        ended = [each for each in found if each.get("from") == start and "failed" not in each]
        spent = [each["gpu_seconds"] for each in ended]
        ratios = [each["over"]["start"]["ratio"] for each in ended if "start" in each["over"]]
        if not ended:
            continue
        told[start] = {
            "problems": len(ended),
            "right_and_faster_than_the_start": sum(each["better"] for each in ended),
            "at_or_above_the_better_of_compile_and_max_autotune": sum(
                at_or_above(each) is True for each in ended
            ),
            "geometric_mean_over_the_start": statistics.geometric_mean(ratios) if ratios else None,
            "gpu_seconds_most": max(spent),
            "gpu_seconds_most_with_baselines": max(
                each["gpu_seconds"] + each["baseline_seconds"] for each in ended
            ),
        }
    return told


_COLUMNS = ("problem", "from", "start", "eager", "compile", "max-autotune", "best", "of floor",
            "over max-autotune", "by", "GPU s", "with baselines")  # fmt: skip


def _cells(record: records.Record) -> list[str]:
    if "failed" in record:
        return [record["name"], record.get("from", ""), f"failed: {record['failed']}"]
    fraction, spent = record["floor_fraction"], record["gpu_seconds"]
    return [
        record["name"],
        record["from"],
        *(records.milliseconds(record, each)
          for each in ("start", "eager", "compile", "max-autotune", "best")),
        "-" if fraction is None else f"{fraction:.0%}",
        records.ratio(record, "max-autotune"),
        record["proposer"] if record["better"] else "nothing better",
        f"{spent:.0f}",
        f"{spent + record['baseline_seconds']:.0f}",
    ]  # fmt: skip


def table(found: list[records.Record]) -> str:
    """One line a run, in columns."""
    rows = [list(_COLUMNS), *(_cells(each) for each in found)]
    whole = [row for row in rows if len(row) == len(_COLUMNS)]
    widths = [max(len(row[i]) for row in whole) for i in range(len(_COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    )


def page(results: records.Results) -> str:
    """The table in Markdown."""
    found = list(results["records"].values())
    lines = [
        f"Medians in milliseconds, {DTYPE}, on {', '.join(results['gpus']) or 'no GPU'}; "
        f"at most {results['seconds_each']:g} s of GPU time a run, baselines' compilation apart.",
        "",
        "| " + " | ".join(_COLUMNS) + " |",
        "|" + "---|" * len(_COLUMNS),
    ]
    for record in found:
        cells = _cells(record)
        if "failed" not in record:
            cells[0] = f"[{cells[0]}](runs/{record['run']}/report.md)"
        lines.append("| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |")
    return "\n".join(lines) + "\n"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    made = parser(
        "benchmarks.optimize.problems", "Run the optimizer without a model on five problems.", NAMES
    )
    made.add_argument("--out", type=Path, required=True, help="folder to write, or go on with")
    made.add_argument(
        "--from", dest="start", choices=sorted(FROM), default="both", help="(default: both)"
    )
    return made.parse_args(arguments)


BENCHMARK = sharing.Benchmark(
    module="benchmarks.optimize.problems",
    keys=_keys,
    opened=kept_judges,
    measure=_measure,
    path=lambda options: options.out / "results.json",
    finish=_finish,
    line=lambda record: "  ".join(_cells(record)),
)


if __name__ == "__main__":
    sys.exit(ended(main))
