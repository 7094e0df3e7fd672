"""Medians, percentiles, and what a ratio of two medians is worth; knows nothing of GPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

# The interval's ends are quantiles of this many resamples: the 2.5 % tail holds 50 of them.
RESAMPLES: Final = 2000
CONFIDENCE: Final = 0.95
# With few rounds the percentile bootstrap is too narrow (8 rounds lie all on one side of the true
# median once in 128 runs, 5 rounds once in 16): from fewer nothing is claimed.
MIN_ROUNDS: Final = 8
# The bootstrap is repeatable; its seed decides nothing that a contender could use.
_SEED: Final = 20240

# Two runs of one kernel may differ in median by this fraction, by the kernel's time (upper bound in
# milliseconds). `benchmarks.judge.precision` measures it. A bootstrap over the rounds of one run
# does not see what differs between runs (addresses, clocks, temperature), so a smaller difference
# is inside the noise however narrow its interval is.
REPEATABILITY: Final = ((0.010, 0.05), (0.200, 0.03), (float("inf"), 0.01))


@dataclass(frozen=True, slots=True)
class Summary:
    """Times of one contender."""

    median: float
    p10: float
    p90: float
    count: int


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio of two medians with its 95 % bootstrap interval."""

    ratio: float
    low: float
    high: float
    significant: bool
    """The interval leaves 1 out, and the ratio differs from 1 by more than two runs of one kernel
    may."""


def summarise(times: Sequence[float]) -> Summary:
    """Median and 10th and 90th percentile (linear interpolation), in the unit of `times`.

    Raises
    ------
    ValueError
        There are no times.
    """
    if not times:
        raise ValueError("no times to summarise")
    p10, median, p90 = np.quantile(np.asarray(times, dtype=np.float64), (0.1, 0.5, 0.9))
    return Summary(float(median), float(p10), float(p90), len(times))


def repeatability(median_ms: float) -> float:
    """Fraction by which two runs of a kernel of this time may differ in median."""
    return next(fraction for upper, fraction in REPEATABILITY if median_ms < upper)


def ratio_of_medians(
    over: Mapping[int, Sequence[float]],
    of: Mapping[int, Sequence[float]],
    *,
    resamples: int = RESAMPLES,
) -> Interval:
    """Median time of `over` / median time of `of`, with a paired percentile bootstrap.

    Rounds, not launches, are drawn with replacement, the same rounds for both contenders: what a
    round has in common (clocks, temperature, contents) cancels, and the launches of a round, which
    are not independent, stay together (Efron and Tibshirani, An Introduction to the Bootstrap,
    1993, chapters 8 and 13).

    Parameters
    ----------
    over, of
        Milliseconds per launch by round. Rounds that one of the two lacks are left out.

    Raises
    ------
    ValueError
        The two have no round in common.
    """
    rounds = sorted(set(over) & set(of))
    if not rounds:
        raise ValueError("no round in which both contenders were timed")
    above, below = (_matrix([side[r] for r in rounds]) for side in (over, of))
    ratio = float(np.nanmedian(above) / np.nanmedian(below))
    draws = np.random.default_rng(_SEED).integers(len(rounds), size=(resamples, len(rounds)))
    ratios = np.empty(resamples)
    for index, rows in enumerate(draws):
        ratios[index] = np.nanmedian(above[rows]) / np.nanmedian(below[rows])
    tail = (1 - CONFIDENCE) / 2
    low, high = (float(q) for q in np.quantile(ratios, (tail, 1 - tail)))
    slowest = max(float(np.nanmedian(above)), float(np.nanmedian(below)))
    noise = repeatability(slowest)
    beyond = ratio > 1 + noise or ratio < 1 / (1 + noise)
    enough = len(rounds) >= MIN_ROUNDS
    return Interval(ratio, low, high, enough and beyond and not low <= 1 <= high)


def _matrix(rows: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Rounds by launches, short rows filled with NaN."""
    filled = np.full((len(rows), max(len(row) for row in rows)), np.nan)
    for index, row in enumerate(rows):
        filled[index, : len(row)] = row
    return filled
