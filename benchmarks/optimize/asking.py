"""What the optimizer's benchmarks are asked on the command line, and the runs' configuration."""

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

# No model, so that the figures can be had again by everyone.
PROPOSERS = ("tune", "recipe")


def parser(
    module: str, about: str, names: list[str] | None, out: str = "JSON file"
) -> argparse.ArgumentParser:
    """Options that all of them have; without `names`, `--only` takes beginnings of names."""
    epilog = (
        "What is done already is not done again: start it once more to go on, or to try again what "
        "failed. Times of compiled baselines are cached in $XDG_CACHE_HOME/kernel-kb."
    )
    made = argparse.ArgumentParser(prog=f"python -m {module}", description=about, epilog=epilog)
    made.add_argument("--out", type=Path, required=True, help=f"{out} to write, or go on with")
    made.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="only these")
    seconds, rounds = "GPU time of a run (default: 240)", f"of a run at most (default: {ROUNDS})"
    made.add_argument("--seconds-each", type=tasks.positive, default=240.0, help=seconds)
    made.add_argument("--rounds", type=int, default=ROUNDS, help=rounds)
    made.add_argument("--index", type=Path, default=default_index_dir(), help="index folder")
    made.add_argument("--seed", type=int, default=0)
    tasks.add_options(made)
    for flag, told in (
        ("--trust", "run although the sandbox is incomplete"),
        ("--interpret", "correctness alone: shows that it runs (CPU)"),
    ):
        made.add_argument(flag, action="store_true", help=told)
    return made


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
        To start from; None: eager PyTorch.
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


def kept_judges(options: argparse.Namespace, cards: CardPool) -> AbstractContextManager[Runner]:
    """Runs one after another on the same cards."""
    return contextlib.nullcontext(Runner(options.index, cards, lambda root: Lines(root.name)))


class Lines:
    """Prints what happens in a run, and when: where its seconds go can be read off a log."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._began = time.monotonic()

    def event(self, event: object) -> None:
        """A line, if the event has one."""
        from agent.optimize.progress import lines_of

        for line in lines_of(event):  # type: ignore[arg-type]
            self._say(line)

    def working(self, candidate: str, line: str) -> None:
        """What is done for a candidate."""
        self._say(f"  {candidate}: {line}")

    def _say(self, line: str) -> None:
        print(f"  {self._name} {time.monotonic() - self._began:7.1f} s  {line}", flush=True)
