"""Finds the best of several kernels and its best configuration, all timed in one process.

First a few configurations of every kernel, in one race: what a launch or two shows to be hopeless
is launched no more. Then the search goes on with the kernels that are nearest to the best, and the
winner of each is timed in turn with the others and with the reference.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from agent.proposers.tune.autotune import read_tunables
from agent.proposers.tune.halving import Ledger, Trial, halve
from agent.proposers.tune.material import Subject
from agent.proposers.tune.request import Ranking, Screened, Screening, Version
from agent.proposers.tune.search import first_generation, search
from agent.proposers.tune.space import Point, Space
from agent.proposers.tune.timing import SourceTimer, processes
from agent.proposers.tune.tuner import (
    LAST_SECONDS,
    final_times,
    ledger_of,
    starts_of,
    versions_of,
    with_times,
)
from judge.problem.kernel import KernelFile
from judge.progress import Say, silent
from judge.sandbox.launch import Zygote

# Configurations of each kernel in the race: its own, what usually is good, its neighbours.
_PER_KERNEL: Final = 10
# All of them; with many kernels each gets fewer, but its own.
_MOST: Final = 48
# What one takes to compile, and the share of the time that the race may take for that.
_COMPILE_SECONDS: Final = 4.0
_RACE_SHARE: Final = 0.5
# How far behind the best a kernel's race may end for it to be searched on: configurations of one
# kernel differ by more than this, and there is time for two. The second may be this far behind what
# the first one's search found; of nine that were searched on an H200 none became the best.
_NEAR: Final = 1.5
_SEARCHED: Final = 2
_STILL_NEAR: Final = 1.3
# How far behind the run's start the best may end the race for any to be searched: no search has
# brought more than 1.3 times. Networks of dozens of launches are that far behind, and stay it.
_HOPELESS: Final = 3.0
# Of the time after the race, for the best kernel where there is a second one.
_SHARE: Final = 0.65
_BATCH: Final = 24
# Of the last comparison.
_LAUNCHES: Final = 30

KernelPoint = tuple[int, Point]
"""A kernel by number, and a point of its space."""


@dataclass(slots=True)
class _Entry:
    """One kernel."""

    space: Space
    ledger: Ledger[Point]
    points: list[Point]
    """Points of the race."""


def screen(request: Screening, *, zygote: Zygote, say: Say = silent) -> Ranking:
    """Race and tune kernels; see `Screening`.

    Raises
    ------
    KbError
        The problem or the reference cannot be run at all, or the card is busy.
    """
    subject = Subject.like(
        request,
        kernel=KernelFile.parse(request.kernels[0]),
        reference=KernelFile.parse(request.reference),
    )
    hold_seconds = request.hold_seconds - LAST_SECONDS
    with SourceTimer(
        subject, zygote, say, patience=request.patience, hold_seconds=hold_seconds
    ) as timer:
        deadline = timer.clock() + timer.left(request.seconds)
        ranking = _race_and_tune(timer, request, deadline, say)
    return ranking.model_copy(update={"held_seconds": timer.held_seconds})


def _race_and_tune(timer: SourceTimer, request: Screening, deadline: float, say: Say) -> Ranking:
    """Race within an open timer; `deadline` is on its clock."""
    generator = random.Random(request.seed)  # noqa: S311 (a search)
    end = deadline - LAST_SECONDS
    rest = max(0.0, end - timer.clock())
    limit = _MOST
    if request.device != "cpu":
        limit = min(_MOST, int(processes() * _RACE_SHARE * rest / _COMPILE_SECONDS))
    per_kernel = max(1, min(_PER_KERNEL, limit // len(request.kernels)))
    entries = [_entry(text, timer, end, generator, per_kernel) for text in request.kernels]
    _race(timer, entries, end, say)
    working = [entry for entry in entries if entry.ledger.best_ms < math.inf]
    ranked = sorted(working, key=lambda entry: entry.ledger.best_ms)
    if ranked and ranked[0].ledger.best_ms > _HOPELESS * (request.start_ms or math.inf):
        return _final(timer, request, entries)
    near = [
        entry
        for entry in ranked[:_SEARCHED]
        if entry.ledger.best_ms <= _NEAR * ranked[0].ledger.best_ms
    ]
    for number, entry in enumerate(near):
        rival = min((other.ledger.best_ms for other in near[:number]), default=math.inf)
        if entry.ledger.best_ms > _STILL_NEAR * rival:
            break
        rest = end - timer.clock()
        share = _SHARE if number < len(near) - 1 else 1.0
        entry.ledger.deadline = timer.clock() + share * rest
        if rest > 0 and entry.space.parameters:
            starts = [entry.ledger.ranking()[0].point]
            batch = max(4, min(_BATCH, int(processes() * share * rest / (2 * _COMPILE_SECONDS))))
            search(
                entry.space,
                entry.ledger,
                generator,
                starts=starts,
                batch=batch,
                rival=rival,
                say=say,
            )
    return _final(timer, request, entries)


def _entry(
    text: str, timer: SourceTimer, deadline: float, generator: random.Random, count: int
) -> _Entry:
    tunable, alternatives = read_tunables(text)
    space = Space(tunable, timer.item_bytes)
    points = first_generation(space, generator, starts_of(space, alternatives), count)[:count]
    return _Entry(space, ledger_of(space.text, timer, deadline), points)


def _race(timer: SourceTimer, entries: Sequence[_Entry], deadline: float, say: Say) -> None:
    """Time all kernels' first points together; what is found goes to their own ledgers."""

    def text(key: KernelPoint) -> str:
        number, point = key
        return entries[number].space.text(point)

    ledger = ledger_of(text, timer, deadline)
    # In turn, the given configurations first: where time runs out every kernel was seen.
    by_kernel = ([(number, p) for p in entry.points] for number, entry in enumerate(entries))
    keys = [key for turn in zip_longest(*by_kernel) for key in turn if key is not None]
    halve(ledger, keys, keys[0], say=say)
    for (number, point), trial in ledger.trials.items():
        entries[number].ledger.trials[point] = Trial(point, trial.ms, trial.error, trial.slow)


def _final(timer: SourceTimer, request: Screening, entries: Sequence[_Entry]) -> Ranking:
    """Time the best of every kernel in turn with the reference; of one that is far behind the best
    it is known well enough what it takes."""
    bests = [versions_of(entry.space, entry.ledger.ranking()[:1]) for entry in entries]
    most = _NEAR * min((version.ms for best in bests for version in best), default=math.inf)
    texts = [version.source for best in bests for version in best if version.ms <= most]
    final = final_times(timer, [request.reference, *texts], _LAUNCHES)
    pairs = zip(entries, bests, strict=True)
    return Ranking(
        kernels=tuple(_result_of(entry, with_times(best, final)) for entry, best in pairs),
        reference_ms=final[request.reference],
    )


def _result_of(entry: _Entry, best: Sequence[Version]) -> Screened:
    errors = entry.ledger.errors
    version = next(iter(best), None)
    return Screened(
        version=version,
        start=entry.space.tunable.start,
        tried=len(entry.ledger.trials),
        failed=len(errors),
        why="" if version is not None else (errors[0] if errors else "there was no time to try it"),
    )
