"""`python -m benchmarks.optimize.kernelbench FOLDER --out FILE`: the optimizer on KernelBench.

Without a model, and with no kernel to start from. FOLDER holds problem files, in folders by level
or not; nothing of them is copied into the results. Needs a GPU. FILE is written after each problem,
so that a second start goes on.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.cards.sweep import Runner
from benchmarks import tasks
from benchmarks.optimize import records
from benchmarks.optimize.asking import configure, make_parser, shared_runner
from benchmarks.optimize.records import AT_LEAST, COMPILE, best_speedup, counted_speedup
from judge.evaluate.options import BASELINES
from kb.errors import InvalidInputError


def problems(folder: Path, only: Sequence[str] | None = None) -> dict[str, Path]:
    """The problem files below `folder` by name: `level1/23_Softmax`, or `23_Softmax` alone.

    `only` holds beginnings of names, such as `level1/2` or `level2/57_`; the result has their
    order. Raises InvalidInputError if there is no problem, or none that begins so.
    """
    paths = {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for path in sorted(folder.rglob("*.py"), key=_sort_key)
        if "get_inputs" in path.read_text(encoding="utf-8")
    }
    if not paths:
        raise InvalidInputError(f"{folder} has no problem files")
    if only is None:
        return paths
    chosen: dict[str, Path] = {}
    for beginning in only:
        matching = {name: path for name, path in paths.items() if name.startswith(beginning)}
        if not matching:
            raise InvalidInputError(f"{folder} has no problem that begins with '{beginning}'")
        chosen |= matching
    return chosen


def _sort_key(path: Path) -> tuple[str, int, str]:
    """Sorts by level, then by number within a level."""
    number = path.stem.partition("_")[0]
    return str(path.parent), int(number) if number.isdecimal() else 0, path.stem


def _keys(options: argparse.Namespace) -> list[str]:
    return list(problems(options.folder, options.only))


def _measure(name: str, options: argparse.Namespace, runner: Runner) -> tasks.Record:
    config = configure(
        options,
        problems(options.folder)[name],
        dtype=options.dtype,
        baselines=tuple(form for form in BASELINES if form in options.baselines.split(",")),
    )
    root = records.runs_of(options.out) / name.replace("/", "-")
    record = records.run_and_record(lambda: runner.run(root, config), name=name)
    record.pop("source", None)  # the run folder has a copy
    return record


def summary(results: list[tasks.Record]) -> dict[str, Any]:
    """Figures of each level: what PyTorch's own forms give counts 1 over `torch.compile`."""
    levels: dict[str, list[tasks.Record]] = {}
    for record in results:
        levels.setdefault(str(record["name"]).rpartition("/")[0], []).append(record)
    return {level or "all": _level_figures(levels[level]) for level in sorted(levels)}


def _level_figures(results: list[tasks.Record]) -> dict[str, Any]:
    ratios = [ratio for record in results if (ratio := counted_speedup(record)) is not None]
    kernels = [r for r in results if r.get("better") and not r.get("given_back")]
    speedups = [ratio for kernel in kernels if (ratio := best_speedup(kernel)) is not None]
    comparisons = [kernel["over"].get(COMPILE) for kernel in kernels]
    wall_seconds = [record["wall_seconds"] for record in results if "wall_seconds" in record]
    return {
        "problems": len(results),
        "failed": {record["name"]: record["failed"] for record in results if "failed" in record},
        "kernels_given_back": len(speedups),
        "at_or_above_compile": sum(ratio >= AT_LEAST for ratio in speedups),
        "faster_than_compile": sum(
            bool(over and over["significant"] and over["ratio"] > 1) for over in comparisons
        ),
        "at_the_floor": sum((record.get("floor_fraction") or 0) >= 0.95 for record in results),
        "geometric_mean_over_compile": records.mean(ratios),
        "wall_seconds_median": statistics.median(wall_seconds) if wall_seconds else None,
    }


def _cells(record: tasks.Record) -> list[str]:
    source = record["given_back"] or (record["proposer"] if record["better"] else "nothing better")
    explanation = "; ".join(record["why_nothing"]) if not record["better"] else record["note"]
    return [
        *records.times(record),
        records.ratio(record, COMPILE),
        source,
        f"{record['wall_seconds']:.0f}",
        (explanation or "-")[:160],
    ]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = make_parser(
        "benchmarks.optimize.kernelbench",
        "Run the optimizer, without a model and without a kernel, on a folder of problems.",
        None,
    )
    parser.add_argument("folder", type=Path, help="of KernelBench problem files")
    parser.add_argument("--dtype", default="bfloat16", help="of inputs and parameters")
    parser.add_argument(
        "--baselines", default=",".join(BASELINES), help="of eager, compile, max-autotune"
    )
    return parser.parse_args(arguments)


BENCHMARK = tasks.Benchmark(
    options=_options,
    keys=_keys,
    open_shared=shared_runner,
    measure=_measure,
    columns=(*records.TIMES, "over compile", "given back", "wall s", "how, or why not"),
    cells=_cells,
    summary=summary,
)


if __name__ == "__main__":
    sys.exit(tasks.main(BENCHMARK))
