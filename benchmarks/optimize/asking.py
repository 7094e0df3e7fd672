"""Command line of the optimizer's benchmarks, and the configuration of their runs."""

import argparse
import contextlib
import time
from contextlib import AbstractContextManager
from pathlib import Path

from agent.cards.pool import CardPool
from agent.cards.sweep import Runner
from agent.optimize.config import ROUNDS, Limits, RunConfig, Strategy
from agent.optimize.starting import read_problem, read_start
from benchmarks import tasks
from judge.evaluate.options import BASELINES
from kb.index.layout import default_index_dir

# No model, so that everyone can reproduce the figures.
PROPOSERS = ("tune", "recipe")


def make_parser(
    module: str, about: str, names: list[str] | None, out: str = "JSON file"
) -> argparse.ArgumentParser:
    """Options that they share; without `names`, `--only` takes beginnings of names."""
    epilog = (
        "What is done already is not done again: start it once more to go on, or to try again what "
        "failed. Times of compiled baselines are cached in $XDG_CACHE_HOME/kernel-kb."
    )
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about, epilog=epilog)
    parser.add_argument("--out", type=Path, required=True, help=f"{out} to write, or go on with")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="only these")
    seconds, rounds = "GPU time of a run (default: 240)", f"of a run at most (default: {ROUNDS})"
    parser.add_argument("--seconds-each", type=tasks.positive, default=240.0, help=seconds)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=rounds)
    parser.add_argument("--index", type=Path, default=default_index_dir(), help="index folder")
    parser.add_argument("--seed", type=int, default=0)
    tasks.add_options(parser)
    for flag, help_text in (
        ("--trust", "run although the sandbox is incomplete"),
        ("--interpret", "correctness alone: shows that it runs (CPU)"),
    ):
        parser.add_argument(flag, action="store_true", help=help_text)
    return parser


def configure(
    options: argparse.Namespace,
    problem: Path,
    *,
    dtype: str | None,
    kernel: Path | None = None,
    baselines: tuple[str, ...] = BASELINES,
) -> RunConfig:
    """A run without a model.

    Parameters
    ----------
    kernel
        The kernel to start from; None: eager PyTorch.
    """
    return RunConfig(
        problem=read_problem(problem),
        given=kernel is not None,
        start=read_start(kernel) if kernel is not None else None,
        dtype=dtype,
        device=None if options.interpret else "cuda:0",
        interpret=options.interpret,
        trust=options.trust,
        baselines=baselines,
        proposers=PROPOSERS,
        seed=options.seed,
        limits=Limits(gpu_seconds=options.seconds_each, rounds=options.rounds),
        strategy=Strategy(profiling=False),
    )


def shared_runner(options: argparse.Namespace, cards: CardPool) -> AbstractContextManager[Runner]:
    """A runner that starts runs one after another on the same cards."""
    return contextlib.nullcontext(Runner(options.index, cards, lambda root: Lines(root.name)))


class Lines:
    """Prints each event of a run with its time, so that a log shows where the seconds go."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._start = time.monotonic()

    def event(self, event: object) -> None:
        """Print the event's line, if it has one."""
        from agent.optimize.progress import lines_of

        for line in lines_of(event):  # type: ignore[arg-type]
            self._print(line)

    def working(self, candidate: str, line: str) -> None:
        """Print a step of work on a candidate."""
        self._print(f"  {candidate}: {line}")

    def _print(self, line: str) -> None:
        print(f"  {self._name} {time.monotonic() - self._start:7.1f} s  {line}", flush=True)
