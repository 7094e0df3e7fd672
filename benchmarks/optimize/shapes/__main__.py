"""`python -m benchmarks.optimize.shapes --out FILE`: kernels of the operators at drawn shapes.

The kernel that `recipe` proposes for an operator (with --kernels, the one that a run of
`benchmarks.optimize.operators` found) is judged at benchmark size, then at sizes drawn under a
seed: odd ones, with a size of 1, with other windows, strides, paddings and dilations, with --large
also beyond 2**31 elements. It has to be right, and to keep its fraction of the floor. Inputs are
contiguous, as the judge makes them.
"""

import argparse
import functools
import json
import sys
import time
from pathlib import Path
from typing import Any

from agent.optimize.judge_main import Evaluate
from agent.optimize.judge_process import JudgeError, JudgeLostError
from agent.optimize.opening import searcher_or_none
from agent.recipe.stock import Shelf, shelf_of
from benchmarks.optimize import records, sharing
from benchmarks.optimize.asking import ended, kept_judges, parser, require_gpu
from benchmarks.optimize.operators.cases import Operator, load
from benchmarks.optimize.operators.coverage import proposed
from benchmarks.optimize.running import Runner
from benchmarks.optimize.shapes.draw import Drawn, draws
from kb.errors import KbError

KEPT = 0.8
"""Of the fraction of the floor at benchmark size."""
# A kernel that is right at the given sizes only (`specialised`) is not, here.
_RIGHT = ("correct", "library")


def main(arguments: list[str] | None = None) -> int:
    """Judge what is missing, write, print."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _options(given)
    require_gpu(options)
    results = sharing.run(BENCHMARK, options, given)
    if options.serve is None:
        print(json.dumps(results.get("summary", {}), indent=1))
    return 0


def _keys(options: argparse.Namespace) -> list[str]:
    return [each.name for each in load(options.only)]


def measure(name: str, options: argparse.Namespace, runner: Runner) -> records.Record:
    """One operator: its kernel at benchmark size, and at drawn ones until time is up."""
    (operator,) = load([name])
    known: dict[str, Any] = {"name": name, "family": operator.family, "dtype": operator.dtype}
    try:
        source, note = _kernel(operator, options)
    except KbError as error:
        return {**known, "failed": str(error)}
    folder = options.out.with_name(f"{options.out.stem}-files") / name
    folder.mkdir(parents=True, exist_ok=True)
    kernel = folder / "kernel.py"
    kernel.write_text(source, encoding="utf-8")
    given = Drawn("benchmark", {}, operator.path.read_text(encoding="utf-8"))
    until = time.monotonic() + options.seconds_each
    base = _judged(given, folder, kernel, operator, options, runner)
    found: list[dict[str, Any]] = []
    for drawn in draws(given.source, operator.path.name, options.seed, large=options.large):
        if len(found) >= options.draws or time.monotonic() > until:
            break
        one = _judged(drawn, folder, kernel, operator, options, runner)
        if one["verdict"] is not None:  # else it is no shape of the operator
            found.append(one | {"kept": _kept(one, base)})
    return {**known, "kernel": note, "base": base, "drawn": found, "gpu": base["gpu"]}


def _kernel(operator: Operator, options: argparse.Namespace) -> tuple[str, str]:
    if options.kernels is not None:
        known = records.load(options.kernels)["records"].get(operator.name, {})
        if known.get("source"):
            return str(known["source"]), str(known["note"])
    proposals, notes = proposed(operator, _shelf(options.index), None)
    if not proposals:
        raise KbError(notes[0] if notes else "recipe has no kernel")
    return proposals[0].source, proposals[0].note


@functools.cache
def _shelf(index: Path) -> Shelf:
    """Opened once for all operators."""
    return shelf_of(searcher_or_none(index))


def _judged(
    drawn: Drawn,
    folder: Path,
    kernel: Path,
    operator: Operator,
    options: argparse.Namespace,
    runner: Runner,
) -> dict[str, Any]:
    problem = folder / f"{drawn.label}-{'-'.join(map(str, drawn.constants.values()))[:60]}.py"
    problem.write_text(drawn.source, encoding="utf-8")
    told: dict[str, Any] = {"label": drawn.label, "constants": dict(drawn.constants)}
    request = Evaluate(
        problem=str(problem.resolve()),
        kernel=str(kernel.resolve()),
        device="cpu" if options.interpret else (options.device or "cuda:0"),
        # The interpreter computes wrongly in bfloat16.
        dtype="float32" if options.interpret else operator.dtype,
        interpret=options.interpret,
        trust=options.trust,
        baselines=("eager",),
        quick=True,
    )
    process = runner.judges.take()
    try:
        evaluation = process.ask(request, lambda _: None)["evaluation"]
    except (JudgeError, JudgeLostError) as error:
        return told | {"verdict": None, "why": str(error), "floor_fraction": None, "gpu": None}
    finally:
        process.close()
    timing = next((t for t in evaluation["timings"] if t["contender"] == "candidate"), None)
    return told | {
        "verdict": evaluation["verdict"],
        "reasons": evaluation["reasons"],
        "ms": timing and timing["median_ms"],
        "floor_fraction": timing and timing["floor_fraction"],
        "gpu": evaluation["gpu"],
    }


def _kept(one: dict[str, Any], base: dict[str, Any]) -> float | None:
    if not one["floor_fraction"] or not base["floor_fraction"]:
        return None
    return float(one["floor_fraction"] / base["floor_fraction"])


def _finish(results: records.Results, options: argparse.Namespace) -> None:
    found = list(results["records"].values())
    drawn = [(each["name"], one) for each in found for one in each.get("drawn", [])]
    timed = [(name, one) for name, one in drawn if one["kept"] is not None]
    results["seed"], results["gpus"] = options.seed, records.gpus(found)
    results["summary"] = {
        "operators": len(found),
        "drawn": len(drawn),
        "right": sum(one["verdict"] in _RIGHT for _, one in drawn),
        "not_right": [
            {"name": name, "constants": one["constants"], "verdict": one["verdict"]}
            for name, one in drawn
            if one["verdict"] not in _RIGHT
        ],
        "timed": len(timed),
        "kept_at_least": sum(one["kept"] >= KEPT for _, one in timed),
        "below": [
            {"name": name, "constants": one["constants"], "kept": round(one["kept"], 3)}
            for name, one in timed
            if one["kept"] < KEPT
        ],
        "failed": {each["name"]: each["failed"] for each in found if "failed" in each},
    }


def _line(record: records.Record) -> str:
    if "failed" in record:
        return f"{record['name']:<20}failed: {record['failed']}"
    right = sum(one["verdict"] in _RIGHT for one in record["drawn"])
    kept = [one["kept"] for one in record["drawn"] if one["kept"] is not None]
    least = f", keeps {min(kept):.0%} and more" if kept else ""
    return f"{record['name']:<20}{right} of {len(record['drawn'])} right{least}"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    made = parser(
        "benchmarks.optimize.shapes",
        "Judge the kernels of the operators at shapes that are drawn.",
        [each.name for each in load()],
    )
    made.add_argument("--out", type=Path, required=True, help="JSON file to write, or go on with")
    made.add_argument("--kernels", type=Path, help="results of benchmarks.optimize.operators")
    made.add_argument("--draws", type=int, default=4, help="shapes of each at most (default: 4)")
    made.add_argument("--large", action="store_true", help="also one of more than 2**31 elements")
    return made.parse_args(arguments)


BENCHMARK = sharing.Benchmark(
    module="benchmarks.optimize.shapes",
    keys=_keys,
    opened=kept_judges,
    measure=measure,
    finish=_finish,
    line=_line,
)


if __name__ == "__main__":
    sys.exit(ended(main))
