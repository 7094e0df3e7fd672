"""`python -m benchmarks.optimize.retrieval --out FILE`: what retrieval and two rules are worth.

The same problems, budget and seed, with the index's kernels, with none, with those of another
operator family, and with the right ones in reverse order; then without crossover and without
retirement. Needs a GPU. FILE is written after each run; run folders lie beside it, in FILE-runs.

Of what is retrieved, only kernels reach the proposers that run here: `recipe` asks for them, `tune`
goes by the diagnosis, and the context's text is read by language models alone. None of these
proposers combines two candidates by itself, so the figures also say how often that happened.
"""

import argparse
import sys
from pathlib import Path

from agent.recipe.stock import Shelf, shelf_of
from benchmarks.optimize import problems, records
from benchmarks.optimize.asking import Lines, configure, ended, parser, require_gpu
from benchmarks.optimize.operators import cases
from benchmarks.optimize.retrieval.arms import ARMS, Arm
from benchmarks.optimize.retrieval.figures import speedup, summary
from benchmarks.optimize.running import Deadline, Judges, Runner
from kb.errors import KbError


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing, write, print."""
    options = _options(arguments)
    require_gpu(options)
    with Judges() as judges:
        results = run(options, Runner(options.index, judges, Lines(), report=False))
    print(table(list(results["records"].values())))
    for arm, told in results.get("summary", {}).items():
        print(f"{arm} ({ARMS[arm].about}): {told}")
    return 1 if any("failed" in each for each in results["records"].values()) else 0


def run(options: argparse.Namespace, runner: Runner) -> records.Results:
    """All runs that have no record yet; the arms of a problem follow each other."""
    results = records.load(options.out)
    deadline = Deadline(options.limit)
    shelf = shelf_of(options.index)
    for problem in _problems(options.only):
        for arm in (ARMS[name] for name in options.arms):
            key = f"{problem.name}/{arm.name}"
            if records.done(results, key):
                continue
            if deadline.over:
                print("out of time: start again to go on")
                return results
            print(key, flush=True)
            results["records"][key] = _measure(problem, arm, shelf, options, runner)
            everything = list(results["records"].values())
            results["seconds_each"], results["seed"] = options.seconds_each, options.seed
            results["gpus"] = records.gpus(everything)
            results["summary"] = summary(everything)
            records.save(options.out, results)
    return results


def _problems(only: list[str] | None) -> list[cases.Operator]:
    """The five problems and the first twenty operators, or those named."""
    found = {
        name: cases.Operator(name, problems.path_of(name), problems.DTYPE, "")
        for name in problems.NAMES
    } | {each.name: each for each in cases.load(lists=(cases.FIRST,))}
    return [found[name] for name in (only or found)]


def _measure(
    problem: cases.Operator, arm: Arm, shelf: Shelf, options: argparse.Namespace, runner: Runner
) -> records.Record:
    known = {"name": problem.name, "arm": arm.name, "dtype": problem.dtype}
    config = configure(
        options,
        problem.path,
        dtype=problem.dtype,
        # All arms are measured by eager; compiling others for each would take most of the time.
        baselines=("eager",),
        strategy=arm.rules(),
    )
    root = options.out.with_name(f"{options.out.stem}-runs") / f"{problem.name}-{arm.name}"
    try:
        found = runner.run(root, config, arm.change(shelf, options.seed))
        return records.record_of(found, **known)
    except KbError as error:
        return {**known, "failed": str(error)}


def table(found: list[records.Record]) -> str:
    """Speedups over eager: one line a problem, a column an arm."""
    arms = list(dict.fromkeys(each["arm"] for each in found))
    lines = [f"{'over eager':<22}" + "".join(f"{arm:>15}" for arm in arms)]
    for name in dict.fromkeys(each["name"] for each in found):
        mine = {each["arm"]: each for each in found if each["name"] == name}
        told = [speedup(mine[arm]) if arm in mine else None for arm in arms]
        lines.append(
            f"{name:<22}" + "".join(f"{'-' if x is None else f'{x:.3f}':>15}" for x in told)
        )
    return "\n".join(lines)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    made = parser(
        "benchmarks.optimize.retrieval",
        "Run the optimizer with and without its knowledge, and with and without two of its rules.",
        [each.name for each in _problems(None)],
    )
    made.add_argument("--out", type=Path, required=True, help="JSON file to write, or go on with")
    made.add_argument(
        "--arms", nargs="+", choices=list(ARMS), default=list(ARMS), metavar="ARM",
        help=f"only these, of {', '.join(ARMS)}",
    )  # fmt: skip
    return made.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(ended(main))
