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
from benchmarks.optimize.asking import configure, kept_judges, parser
from benchmarks.optimize.records import AT_LEAST, COMPILE, counted, of_kernel
from judge.evaluate.options import BASELINES
from kb.errors import InvalidInputError


def problems(folder: Path, only: Sequence[str] | None = None) -> dict[str, Path]:
    """The problem files below `folder` by name: `level1/23_Softmax`, or `23_Softmax` alone.

    `only` holds beginnings of names, such as `level1/2` or `level2/57_`; the result has their
    order. Raises InvalidInputError if there is no problem, or none that begins so.
    """
    found = {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for path in sorted(folder.rglob("*.py"), key=_place)
        if "get_inputs" in path.read_text(encoding="utf-8")
    }
    if not found:
        raise InvalidInputError(f"{folder} has no problem files")
    if only is None:
        return found
    chosen: dict[str, Path] = {}
    for beginning in only:
        named = {name: path for name, path in found.items() if name.startswith(beginning)}
        if not named:
            raise InvalidInputError(f"{folder} has no problem that begins with '{beginning}'")
        chosen |= named
    return chosen


def _place(path: Path) -> tuple[str, int, str]:
    """Of levels in turn, and by number within a level."""
    number = path.stem.partition("_")[0]
    return str(path.parent), int(number) if number.isdecimal() else 0, path.stem


def _keys(options: argparse.Namespace) -> list[str]:
    return list(problems(options.folder, options.only))


def _measure(name: str, options: argparse.Namespace, runner: Runner) -> tasks.Record:
    config = configure(
        options,
        problems(options.folder)[name],
        dtype=options.dtype,
        baselines=tuple(each for each in BASELINES if each in options.baselines.split(",")),
    )
    root = records.runs_of(options.out) / name.replace("/", "-")
    record = records.recorded(lambda: runner.run(root, config), name=name)
    record.pop("source", None)  # the run folder has a copy
    return record


def summary(found: list[tasks.Record]) -> dict[str, Any]:
    """Figures of each level: what PyTorch's own forms give counts 1 over `torch.compile`."""
    levels: dict[str, list[tasks.Record]] = {}
    for each in found:
        levels.setdefault(str(each["name"]).rpartition("/")[0], []).append(each)
    return {level or "all": _of_level(levels[level]) for level in sorted(levels)}


def _of_level(found: list[tasks.Record]) -> dict[str, Any]:
    ratios = [ratio for each in found if (ratio := counted(each)) is not None]
    kernels = [each for each in found if each.get("better") and not each.get("given_back")]
    own = [ratio for kernel in kernels if (ratio := of_kernel(kernel)) is not None]
    over = [kernel["over"].get(COMPILE) for kernel in kernels]
    walls = [each["wall_seconds"] for each in found if "wall_seconds" in each]
    return {
        "problems": len(found),
        "failed": {each["name"]: each["failed"] for each in found if "failed" in each},
        "kernels_given_back": len(own),
        "at_or_above_compile": sum(ratio >= AT_LEAST for ratio in own),
        "faster_than_compile": sum(
            bool(each and each["significant"] and each["ratio"] > 1) for each in over
        ),
        "at_the_floor": sum((each.get("floor_fraction") or 0) >= 0.95 for each in found),
        "geometric_mean_over_compile": records.mean(ratios),
        "wall_seconds_median": statistics.median(walls) if walls else None,
    }


def _cells(record: tasks.Record) -> list[str]:
    by = record["given_back"] or (record["proposer"] if record["better"] else "nothing better")
    why = "; ".join(record["why_nothing"]) if not record["better"] else record["note"]
    return [
        *records.times(record),
        records.ratio(record, COMPILE),
        by,
        f"{record['wall_seconds']:.0f}",
        (why or "-")[:160],
    ]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    made = parser(
        "benchmarks.optimize.kernelbench",
        "Run the optimizer, without a model and without a kernel, on a folder of problems.",
        None,
    )
    made.add_argument("folder", type=Path, help="of KernelBench problem files")
    made.add_argument("--dtype", default="bfloat16", help="of inputs and parameters")
    made.add_argument(
        "--baselines", default=",".join(BASELINES), help="of eager, compile, max-autotune"
    )
    return made.parse_args(arguments)


BENCHMARK = tasks.Benchmark(
    options=_options,
    keys=_keys,
    opened=kept_judges,
    measure=_measure,
    columns=(*records.TIMES, "over compile", "given back", "wall s", "how, or why not"),
    cells=_cells,
    summary=summary,
)


if __name__ == "__main__":
    sys.exit(tasks.main(BENCHMARK))
