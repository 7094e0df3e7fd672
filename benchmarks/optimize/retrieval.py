"""`python -m benchmarks.optimize.retrieval --out FILE`: what retrieval is worth to the optimizer.

The same operators, budget and seed, from no kernel: with the index's kernels, with none, and with
those of another operator family. Needs a GPU. FILE is written after each run; run folders lie
beside it, in FILE-runs.

Of what is retrieved, only kernels reach the proposers that run here: `recipe` asks for them, `tune`
goes by the diagnosis, and the context's text is read by language models alone.
"""

import argparse
import contextlib
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agent.cards.pool import CardPool
from agent.cards.sweep import Runner
from agent.opening import searcher_or_none
from agent.proposers.recipe.carry import Stock
from agent.proposers.recipe.stock import EmptyShelf, Shelf, shelf_of
from benchmarks import tasks
from benchmarks.optimize import records
from benchmarks.optimize.asking import configure, kept_judges, parser
from benchmarks.optimize.operators import load
from benchmarks.tasks import Record
from kb.corpus.loader import load_shipped_corpus

START = "start"
INDEX = "index"


class OtherFamily:
    """Kernels of another operator family than the one that is asked for, always the same one.

    What a search gives that finds the wrong thing: the kernels themselves are sound.

    Parameters
    ----------
    shelf
        Where kernels come from.
    families
        Those that there are.
    seed
        Of the permutation, which leaves no family where it was.
    """

    def __init__(self, shelf: Shelf, families: Sequence[str], seed: int) -> None:
        self._shelf = shelf
        order = sorted(families)
        random.Random(seed).shuffle(order)
        # One cycle through all of them: none comes to itself.
        self.instead = dict(zip(order, [*order[1:], *order[:1]], strict=True))

    def kernels(self, family: str, architecture: str | None, gpu: str | None) -> Sequence[Stock]:
        """See `Shelf.kernels`; kernels pass for members of `family`."""
        return self._shelf.kernels(self.instead.get(family, family), architecture, gpu)


def families() -> list[str]:
    """Operator families of the shipped corpus's kernels."""
    corpus = load_shipped_corpus()
    return sorted({each.entry.op for each in corpus.kernels if each.entry.language == "triton"})


ARMS: dict[str, Callable[[Shelf, int], Shelf]] = {
    INDEX: lambda shelf, _: shelf,
    "empty": lambda *_: EmptyShelf(),
    "shuffled": lambda shelf, seed: OtherFamily(shelf, families(), seed),
}
"""Name → what makes an arm's shelf from the index's own and the seed."""


def _keys(options: argparse.Namespace) -> list[str]:
    return [f"{each.name}/{arm}" for each in load(options.only) for arm in options.arms]


@contextlib.contextmanager
def _opened(options: argparse.Namespace, cards: CardPool) -> Iterator[tuple[Runner, Shelf]]:
    with kept_judges(options, cards, report=False) as runner:
        searcher = searcher_or_none(options.index)
        with contextlib.closing(searcher) if searcher is not None else contextlib.nullcontext():
            yield runner, shelf_of(searcher)


def _measure(key: str, options: argparse.Namespace, common: tuple[Runner, Shelf]) -> Record:
    runner, shelf = common
    name, _, arm = key.partition("/")
    (operator,) = load([name])
    # All arms are measured by eager; compiling others for each would take most of the time.
    config = configure(options, operator.path, dtype=operator.dtype, baselines=("eager",))
    root = records.runs_of(options.out) / f"{name}-{arm}"
    return records.recorded(
        lambda: runner.run(root, config, shelf=ARMS[arm](shelf, options.seed)),
        name=name, arm=arm, dtype=operator.dtype,
    )  # fmt: skip


def speedup(record: Record) -> float | None:
    """Over the start, in one session; 1 where nothing better was found; None where it failed.

    The start is what every way begins with and is timed beside, so it is the common measure.
    """
    if not records.timed(record):
        return None
    if not record["better"]:
        return 1.0
    over = record["over"].get(START)
    return None if over is None else float(over["ratio"])


def summary(found: Sequence[Record]) -> dict[str, Any]:
    """By arm. Means are over the operators that this arm and the index's both have."""
    by: dict[str, dict[str, Record]] = {}
    for each in found:
        by.setdefault(each.get("arm", ""), {})[each["name"]] = each
    return {arm: _compared(mine, by.get(INDEX, {})) for arm, mine in by.items()}


def _compared(mine: Mapping[str, Record], index: Mapping[str, Record]) -> dict[str, Any]:
    pairs = [
        (own, theirs)
        for name, record in mine.items()
        if (own := speedup(record)) is not None
        and (theirs := speedup(index.get(name, {}))) is not None
    ]
    ended = [each for each in mine.values() if "failed" not in each]
    return {
        "problems": len(mine),
        "compared": len(pairs),
        "failed": sorted(name for name, each in mine.items() if "failed" in each),
        "found_better": sum(each["better"] for each in ended),
        "geometric_mean_over_the_start": records.mean([own for own, _ in pairs]),
        "geometric_mean_over_index": records.mean([own / theirs for own, theirs in pairs]),
        "gpu_seconds": round(sum(each["gpu_seconds"] for each in ended), 1),
    }


def _cells(record: Record) -> list[str]:
    ratio = speedup(record)
    return ["-" if ratio is None else f"{ratio:.3f}", f"{record['gpu_seconds']:.0f}"]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    made = parser(
        "benchmarks.optimize.retrieval",
        "Run the optimizer with and without its knowledge.",
        [each.name for each in load()],
    )
    made.add_argument(
        "--arms", nargs="+", choices=list(ARMS), default=list(ARMS), metavar="ARM",
        help=f"only these, of {', '.join(ARMS)}",
    )  # fmt: skip
    return made.parse_args(arguments)


BENCHMARK = tasks.Benchmark(
    options=_options,
    keys=_keys,
    opened=_opened,
    measure=_measure,
    columns=("over the start", "GPU s"),
    cells=_cells,
    summary=summary,
)


if __name__ == "__main__":
    sys.exit(tasks.main(BENCHMARK))
