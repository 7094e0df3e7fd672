"""`python -m benchmarks.optimize.retrieval --out FILE`: what retrieval and two rules are worth.

The same problems, budget and seed, with the index's kernels, with none, with those of another
operator family, and with the right ones in reverse order; then without crossover and without
retirement. From no kernel, or with `--from start` from plain kernels, which `tune` can work on
without any knowledge. Needs a GPU. FILE is written after each run; run folders lie beside it, in
FILE-runs.

Of what is retrieved, only kernels reach the proposers that run here: `recipe` asks for them, `tune`
goes by the diagnosis, and the context's text is read by language models alone. None of these
proposers combines two candidates by itself, so the figures also say how often that happened;
`benchmarks.optimize.rules` says what the two rules are worth where they have something to do.
"""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from agent.optimize.opening import searcher_or_none
from agent.recipe.stock import Shelf, shelf_of
from benchmarks.optimize import problems, records, sharing
from benchmarks.optimize.asking import configure, ended, kept_judges, parser, require_gpu
from benchmarks.optimize.operators import cases
from benchmarks.optimize.retrieval.arms import ARMS
from benchmarks.optimize.retrieval.figures import speedup, summary
from benchmarks.optimize.running import Runner
from kb.errors import KbError


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing, write, print."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _options(given)
    require_gpu(options)
    results = sharing.run(BENCHMARK, options, given)
    if options.serve is not None:
        return 0
    print(table(list(results["records"].values())))
    for arm, told in results.get("summary", {}).items():
        print(f"{arm} ({ARMS[arm].about}): {told}")
    return 1 if any("failed" in each for each in results["records"].values()) else 0


def run(options: argparse.Namespace, runner: Runner) -> records.Results:
    """All runs that have no record yet; the arms of a problem follow each other."""
    with _shelved(options, runner) as common:
        return sharing.alone(BENCHMARK, options, common)


def _keys(options: argparse.Namespace) -> list[str]:
    names = options.only or (problems.NAMES if options.start == "start" else None)
    return [f"{each.name}/{arm}" for each in _problems(names) for arm in options.arms]


@contextlib.contextmanager
def _opened(options: argparse.Namespace) -> Iterator[tuple[Runner, Shelf]]:
    with kept_judges(options, report=False) as runner, _shelved(options, runner) as common:
        yield common


@contextlib.contextmanager
def _shelved(options: argparse.Namespace, runner: Runner) -> Iterator[tuple[Runner, Shelf]]:
    searcher = searcher_or_none(options.index)
    with contextlib.closing(searcher) if searcher is not None else contextlib.nullcontext():
        yield runner, shelf_of(searcher)


def _finish(results: records.Results, options: argparse.Namespace) -> None:
    everything = [each for each in results["records"].values() if "arm" in each]
    results["seconds_each"], results["seed"] = options.seconds_each, options.seed
    results["gpus"] = records.gpus(everything)
    results["summary"] = summary(everything)


def _problems(only: list[str] | None) -> list[cases.Operator]:
    """The five problems and the first twenty operators, or those named."""
    found = {
        name: cases.Operator(name, problems.path_of(name), problems.DTYPE, "")
        for name in problems.NAMES
    } | {each.name: each for each in cases.load(lists=(cases.FIRST,))}
    return [found[name] for name in (only or found)]


def _measure(key: str, options: argparse.Namespace, common: tuple[Runner, Shelf]) -> records.Record:
    runner, shelf = common
    name, _, which = key.partition("/")
    (problem,), arm = _problems([name]), ARMS[which]
    known = {
        "name": problem.name, "arm": arm.name, "dtype": problem.dtype, "from": options.start,
    }  # fmt: skip
    config = configure(
        options,
        problem.path,
        dtype=problem.dtype,
        kernel=problems.start_of(name) if options.start == "start" else None,
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
    """Speedups over the start: one line a problem, a column an arm."""
    found = [each for each in found if "arm" in each]
    arms = list(dict.fromkeys(each["arm"] for each in found))
    lines = [f"{'over the start':<22}" + "".join(f"{arm:>15}" for arm in arms)]
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
    made.add_argument(
        "--from", dest="start", choices=["nothing", "start"], default="nothing",
        help="from no kernel, or from the five problems' plain kernels (default: nothing)",
    )  # fmt: skip
    options = made.parse_args(arguments)
    if options.start == "start" and not set(options.only or ()) <= set(problems.NAMES):
        made.error(f"--from start goes with {', '.join(problems.NAMES)}")
    return options


def _line(record: records.Record) -> str:
    told = record.get("failed") or f"{speedup(record) or float('nan'):.3f} over the start"
    return f"{record['name']}/{record.get('arm', '')}: {told}"


BENCHMARK = sharing.Benchmark(
    module="benchmarks.optimize.retrieval",
    keys=_keys,
    opened=_opened,
    measure=_measure,
    finish=_finish,
    line=_line,
)


if __name__ == "__main__":
    sys.exit(ended(main))
