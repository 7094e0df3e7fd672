"""`python -m benchmarks.optimize.problems --out DIR`: the optimizer on five problems.

Without a model, from the plain kernels of `tests/fixtures/kernels/starts` and from no kernel at
all. Needs a GPU. Writes DIR/results.json and DIR/results.md after each run; DIR/runs holds the run
folders with their reports.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.cards.sweep import Runner
from benchmarks import tasks
from benchmarks.judge.cases import ROOT
from benchmarks.optimize import records
from benchmarks.optimize.asking import configure, make_parser, shared_runner

_KERNELS = ROOT.with_name("kernels")
NAMES = ["matvec", "rmsnorm_channels", "max_pool3d", "conv_transpose3d", "depthwise_conv2d"]
DTYPE = "bfloat16"
STARTS = ("start", "nothing")
_FORMS = ("start", "eager", "compile", "max-autotune", "best")


def path_of(name: str) -> Path:
    """The problem file."""
    return _KERNELS / "problems" / f"{name}.py"


def start_of(name: str) -> Path:
    """A plain, correct Triton kernel for it."""
    return _KERNELS / "starts" / f"{name}.py"


def _keys(options: argparse.Namespace) -> list[str]:
    starts = STARTS if options.start == "both" else (options.start,)
    return [f"{name}-{start}" for name in options.only or NAMES for start in starts]


def _measure(key: str, options: argparse.Namespace, runner: Runner) -> tasks.Record:
    name, _, start = key.rpartition("-")
    kernel = start_of(name) if start == "start" else None
    config = configure(options, path_of(name), dtype=DTYPE, kernel=kernel)
    return records.run_and_record(
        lambda: runner.run(options.out / "runs" / key, config),
        **{"name": name, "from": start, "dtype": DTYPE},
    )


def at_or_above(record: tasks.Record) -> bool | None:
    """Whether the best is no slower than the better one of compile and max-autotune, beyond noise;
    None where they have no times."""
    over = record["over"]
    comparisons = [over[form] for form in ("compile", "max-autotune") if form in over]
    if not comparisons:
        return None
    return all(c["ratio"] >= 1 or not c["significant"] for c in comparisons)


def summary(results: list[tasks.Record]) -> dict[str, Any]:
    """The figures of each kind of start."""
    figures: dict[str, Any] = {}
    for start in STARTS:
        ended = [r for r in results if r.get("from") == start and "failed" not in r]
        if not ended:
            continue
        ratios = [record["over"]["start"]["ratio"] for record in ended if "start" in record["over"]]
        figures[start] = {
            "problems": len(ended),
            "right_and_faster_than_the_start": sum(record["better"] for record in ended),
            "at_or_above_the_better_of_compile_and_max_autotune": sum(
                at_or_above(record) is True for record in ended
            ),
            "geometric_mean_over_the_start": records.mean(ratios),
            "gpu_seconds_most": max(record["gpu_seconds"] for record in ended),
            "gpu_seconds_most_with_baselines": max(
                record["gpu_seconds"] + record["baseline_seconds"] for record in ended
            ),
        }
    return figures


def _cells(record: tasks.Record) -> list[str]:
    gpu_seconds = record["gpu_seconds"]
    return [
        *(records.milliseconds(record, form) for form in _FORMS),
        records.percent(record["floor_fraction"]),
        records.ratio(record, "max-autotune"),
        record["proposer"] if record["better"] else "nothing better",
        f"{gpu_seconds:.0f}",
        f"{gpu_seconds + record['baseline_seconds']:.0f}",
    ]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = make_parser(
        "benchmarks.optimize.problems",
        "Run the optimizer without a model on five problems.",
        NAMES,
        out="folder",
    )
    choices = [*STARTS, "both"]
    parser.add_argument(
        "--from", dest="start", choices=choices, default="both", help="(default: both)"
    )
    return parser.parse_args(arguments)


BENCHMARK = tasks.Benchmark(
    options=_options,
    keys=_keys,
    open_shared=shared_runner,
    measure=_measure,
    columns=(*_FORMS, "of floor", "over max-autotune", "by", "GPU s", "with baselines"),
    cells=_cells,
    summary=summary,
    path=lambda options: Path(options.out, "results.json"),
)


if __name__ == "__main__":
    sys.exit(tasks.main(BENCHMARK))
