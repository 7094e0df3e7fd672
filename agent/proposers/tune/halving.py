"""Successive halving: many points timed a little, the better ones again and longer.

After Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter
optimization" (2016), with two changes for noisy clocks: a point's times of all rungs count, and
whoever cannot be told from the last one that is kept is kept as well.
"""

import math
import statistics
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from judge.progress import Progress, Say, silent

P = TypeVar("P", bound=Hashable)

# Launches on each rung; a third goes on, so that all rungs cost about the same.
RUNGS: Final = (3, 7)
_KEPT: Final = 3
# Survivors beside the kept third, where the clock cannot tell.
_MOST_DOUBTFUL: Final = 4
# What a clock can be trusted to when it was read a few times.
_LEAST_NOISE: Final = 0.01


@dataclass(slots=True)
class Timing:
    """Result of one measurement of a point."""

    ms: Sequence[float] = ()
    """Times of single launches; empty where it failed or was not tried."""
    error: str = ""
    """Why it is of no use."""
    tried: bool = True
    """False: there was no time for it; it may be tried again."""
    slow: bool = False
    """It was given up since it compiles for too long."""


Measure = Callable[[Sequence[P], int, float], Sequence[Timing]]
"""Times points with so many launches each; results in their order. It takes little more than the
given seconds: what is not begun by then has `tried` False."""


@dataclass(slots=True)
class Trial(Generic[P]):
    """All that is known of one point."""

    point: P
    ms: list[float] = field(default_factory=list)
    error: str = ""
    slow: bool = False
    """See `Timing`."""

    @property
    def median(self) -> float:
        """Milliseconds; infinite where it failed or was never timed."""
        return statistics.median(self.ms) if self.ms and not self.error else math.inf

    @property
    def noise(self) -> float:
        """Relative standard error of the median, robust, and no less than a clock has."""
        if len(self.ms) < 2:
            return 5 * _LEAST_NOISE
        middle = statistics.median(self.ms)
        deviation = 1.4826 * statistics.median(abs(ms - middle) for ms in self.ms)
        # 1.2533: the median's standard error over the mean's, for normal errors.
        return max(_LEAST_NOISE, 1.2533 * deviation / (math.sqrt(len(self.ms)) * max(middle, 1e-9)))


@dataclass(slots=True)
class Ledger(Generic[P]):
    """Trials by point, and what measuring them cost."""

    measure: Measure[P]
    deadline: float
    """On `clock`."""
    clock: Callable[[], float] = time.monotonic
    trials: dict[P, Trial[P]] = field(default_factory=dict)

    @property
    def left(self) -> float:
        """Seconds until the deadline, not below 0."""
        return max(0.0, self.deadline - self.clock())

    def add(self, points: Sequence[P], launches: int) -> None:
        """Measure points that have not failed; what there was no time for stays as it was."""
        pending = [p for p in points if p not in self.trials or not self.trials[p].error]
        if not pending or self.left <= 0:
            return
        for point, result in zip(pending, self.measure(pending, launches, self.left), strict=True):
            if not result.tried and not result.ms:
                continue
            trial = self.trials.setdefault(point, Trial(point))
            trial.ms += result.ms
            trial.error, trial.slow = result.error, result.slow

    @property
    def errors(self) -> list[str]:
        """Why each failed point failed."""
        return [trial.error for trial in self.trials.values() if trial.error]

    def ranking(self) -> list[Trial[P]]:
        """All points that work, the fastest first."""
        return _rank(self.trials.values())

    @property
    def best_ms(self) -> float:
        """Milliseconds of the fastest point; infinite where none works."""
        return min((trial.median for trial in self.trials.values()), default=math.inf)


def halve(
    ledger: Ledger[P],
    points: Sequence[P],
    incumbent: P,
    rungs: Sequence[int] = RUNGS,
    *,
    say: Say = silent,
) -> list[Trial[P]]:
    """Time `points` and the incumbent, which is never dropped; what is left, the fastest first.

    Parameters
    ----------
    ledger
        Holds earlier times, which count, and the deadline.
    points
        New or known.
    incumbent
        The point to beat.
    rungs
        Launches on each.
    """
    alive = list(dict.fromkeys([incumbent, *points]))
    for number, launches in enumerate(rungs):
        ledger.add(alive, launches)
        trials = [ledger.trials[p] for p in alive if p in ledger.trials]
        ranked = _rank(trials)
        if number == len(rungs) - 1 or ledger.left <= 0 or len(ranked) <= 1:
            break
        alive = [survivor.point for survivor in survivors(ranked, max(2, -(-len(ranked) // _KEPT)))]
        if incumbent not in alive:
            alive.append(incumbent)
        say(Progress(f"{len(alive)} of {len(trials)} continue"))
    return ranked


def survivors(ranked: Sequence[Trial[P]], count: int) -> list[Trial[P]]:
    """The first `count`, and some that cannot be told from the last of them."""
    best = list(ranked[:count])
    if not best:
        return best
    limit = best[-1].median * (1 + 2 * best[-1].noise)
    doubtful = [trial for trial in ranked[count:] if trial.median * (1 - 2 * trial.noise) <= limit]
    return best + doubtful[:_MOST_DOUBTFUL]


def _rank(trials: Iterable[Trial[P]]) -> list[Trial[P]]:
    return sorted((t for t in trials if t.median < math.inf), key=lambda trial: trial.median)
