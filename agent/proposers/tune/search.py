"""Searches a kernel's space by generations: what is near the best, halved by measurement."""

import math
import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from agent.proposers.tune.halving import Ledger, Trial, halve, survivors
from agent.proposers.tune.space import Point, Space
from judge.progress import Progress, Say, silent

# The first generation: neighbours of the start, and points at random for what is far from it.
_FIRST: Final = 48
_GENERATION: Final = 24
# Of each generation, what the surrogate does not ask for.
_FREE_SHARE: Final = 0.25
# Best points whose surroundings are searched.
_PARENTS: Final = 4
# Generations without a gain of this much end the search, sooner once nothing next to the best is
# new. In eleven searches on an H200 the third generation after two without a gain still brought 2
# to 7 % twice, and a later one nothing.
_GAIN: Final = 0.01
_PATIENCE: Final = 2
_MOST_PATIENCE: Final = 3
# A kernel that is further behind another is given up at its first generation without a gain.
_BEHIND: Final = 1.03
# A share of the time is kept for the run-off of the best.
_RUN_OFF_SHARE: Final = 0.12
_FINALISTS: Final = 4
_RUN_OFF_LAUNCHES: Final = 40
# A neighbour's time says less the further it is: by this factor a step.
_REACH: Final = 0.9
# What the surrogate takes for a point that failed: e^1 times the slowest of the others.
_PENALTY: Final = 1.0


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Result of a search."""

    ranking: tuple[Trial[Point], ...]
    """All that works, the fastest first; empty where not even the start does."""
    tried: int
    """Points that were tried."""
    failed: int
    """Number of tried points that fail to compile or give other results."""


def search(
    space: Space,
    ledger: Ledger[Point],
    generator: random.Random,
    *,
    starts: Sequence[Point] = (),
    batch: int = _FIRST,
    rival: float = math.inf,
    say: Say = silent,
) -> SearchResult:
    """Search until the ledger's deadline, or until nothing gets better.

    Parameters
    ----------
    space
        Its start is the incumbent.
    ledger
        Measures, and ends the search.
    generator
        All choices come from it: with the same times the search is the same.
    starts
        Further points to begin at, such as configurations that the file listed.
    batch
        Points of the first generation at most.
    rival
        Milliseconds that another kernel takes, for which this one would be given up.
    say
        Takes a line of progress.
    """
    run_off = ledger.left * _RUN_OFF_SHARE
    incumbent, stale = space.start, 0
    points = first_generation(space, generator, starts, batch)
    while points and ledger.left > run_off:
        before, clock, count = ledger.best_ms, ledger.left, len(ledger.trials)
        halve(ledger, points, incumbent)
        _freeze(space, ledger)
        best = ledger.best_ms
        say(Progress(f"{len(ledger.trials)} configurations, the best takes {best:.4g} ms"))
        stale = 0 if best < before * (1 - _GAIN) else stale + 1
        ranking = ledger.ranking()
        if not ranking:
            break
        incumbent = ranking[0].point
        new = max(1, len(ledger.trials) - count)
        # No generation may use up all that is left: later ones know more.
        affordable = int(max(4.0, 0.5 * ledger.left * new / max(clock - ledger.left, 1e-6)))
        near = [p for p in space.neighbours(incumbent, 1) if p not in ledger.trials]
        points = _next(space, ledger, generator, min(_GENERATION, affordable))
        patience = _MOST_PATIENCE if near else _PATIENCE
        if stale >= (1 if best > _BEHIND * rival else patience):
            break
    ranked = _run_off(space, ledger)
    return SearchResult(tuple(ranked), len(ledger.trials), len(ledger.errors))


def first_generation(
    space: Space, generator: random.Random, starts: Sequence[Point], batch: int
) -> list[Point]:
    """Where to begin: the start and `starts`, what usually is good, neighbours, and some at random;
    up to `batch` unless the first of these are more."""
    points: dict[Point, None] = dict.fromkeys([space.start, *starts, *space.presets()])
    near = space.neighbours(space.start, 2)
    random_points = (space.random_point(generator) for _ in range(4 * batch))
    far = list(dict.fromkeys(point for point in random_points if point is not None))
    # Half of each where there is plenty: a start may be far from anything good.
    for point in (*near[: batch // 2], *far[: batch // 2], *near[batch // 2 :], *far[batch // 2 :]):
        if len(points) >= batch:
            break
        points[point] = None
    return list(points)


def _next(space: Space, ledger: Ledger[Point], generator: random.Random, count: int) -> list[Point]:
    """The most promising untried points around the best ones."""
    parents = [trial.point for trial in ledger.ranking()[:_PARENTS]]
    pool: dict[Point, None] = {}

    def offer(points: Iterable[Point | None]) -> None:
        for point in points:
            if point is not None and point not in ledger.trials and space.is_allowed(point):
                pool[point] = None

    for parent in parents:
        offer(space.neighbours(parent, 2))
        offer(space.pairs(parent))
    for one in parents:
        for other in parents:
            if one != other:
                offer(space.crossover(one, other, generator) for _ in range(2))
    free = max(1, int(count * _FREE_SHARE))
    guess = _surrogate(space, ledger)
    promising = sorted(pool, key=guess)[: count - free]
    offer(space.random_point(generator) for _ in range(4 * free))
    others = [point for point in pool if point not in set(promising)]
    # Next to the best first: that is what says whether it is one.
    nearest = [p for p in space.neighbours(parents[0], 1) if p in set(others)]
    generator.shuffle(others)
    return list(dict.fromkeys([*promising, *nearest[:free], *others]))[:count]


def _surrogate(space: Space, ledger: Ledger[Point]) -> Callable[[Point], float]:
    """Guess log times: an effect for each value of each parameter, and what is left by nearness."""
    times = {
        trial.point: math.log(max(trial.median, 1e-9))
        for trial in ledger.trials.values()
        if trial.median < math.inf
    }
    worst = max(times.values(), default=0.0) + _PENALTY
    observed = {p: times.get(p, worst) for p in ledger.trials}
    mean = statistics.fmean(observed.values()) if observed else 0.0
    effects: dict[tuple[int, object], float] = {}
    for _ in range(3):  # each parameter's, given the others': settles quickly
        for index in range(len(space.parameters)):
            by_setting: dict[object, list[float]] = {}
            for point, value in observed.items():
                others = sum(effects.get((i, v), 0.0) for i, v in enumerate(point) if i != index)
                by_setting.setdefault(point[index], []).append(value - mean - others)
            for setting, residuals in by_setting.items():
                # One observation counts half: an effect that was seen once may be another's.
                effects[index, setting] = sum(residuals) / (len(residuals) + 1)
    additive = {p: mean + sum(effects[i, v] for i, v in enumerate(p)) for p in observed}
    places = [(space.position(p), observed[p] - additive[p]) for p in observed]

    def guess(point: Point) -> float:
        position = space.position(point)
        weights = total = 0.0
        for place, residual in places:
            steps = sum(abs(a - b) for a, b in zip(position, place, strict=True))
            weight = math.exp(-steps / _REACH)
            weights += weight
            total += weight * residual
        near = total / (weights + 0.1)
        return mean + sum(effects.get((i, v), 0.0) for i, v in enumerate(point)) + near

    return guess


def _freeze(space: Space, ledger: Ledger[Point]) -> None:
    """Leave alone parameters whose every other value fails, and what compiles for too long."""
    for trial in ledger.trials.values():
        if trial.slow:
            space.exclude_slow(trial.point)
    for index in range(len(space.parameters)):
        variants = [
            trial
            for trial in ledger.trials.values()
            if sum(a != b for a, b in zip(trial.point, space.start, strict=True)) == 1
            and trial.point[index] != space.start[index]
        ]
        if len(variants) > 1 and all(trial.error for trial in variants):
            space.freeze(index)


def _run_off(space: Space, ledger: Ledger[Point]) -> list[Trial[Point]]:
    """Time the best ones and the start together, long enough to tell them apart."""
    ranking = ledger.ranking()
    finalists = [survivor.point for survivor in survivors(ranking, _FINALISTS)]
    contenders = list(dict.fromkeys([*finalists, space.start]))
    trials = [ledger.trials[p] for p in contenders if p in ledger.trials]
    if len(trials) > 1 and ledger.left > 0:
        earlier = [trial.ms for trial in trials]
        for trial in trials:
            trial.ms = []  # times of one turn only: clocks drift
        ledger.add([trial.point for trial in trials], _RUN_OFF_LAUNCHES)
        for trial, ms in zip(trials, earlier, strict=True):
            trial.ms = trial.ms or ms
    return sorted(ledger.ranking(), key=lambda trial: trial not in trials)
