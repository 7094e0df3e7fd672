"""Whether each launch of a batch does its share, or a few do the work of the rest.

All contents of a batch are in place when it begins, so a contender that knows the sets' addresses
can compute every result in one launch and return the others at once. The sum of the times is then
honest, and every output right, but the median launch takes no time. The mean of a batch does not
change.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

# Means above medians by more than this, beyond eager's: the means are given. Launches of one kernel
# on a quiet card differ by a percent or two, and a single disturbed launch does not move the median
# over the rounds.
UNEVEN: Final = 0.03
# Beyond this it is no property of a kernel: more than a third of the time falls on a minority.
SHIFTED: Final = 0.5

Rounds = Mapping[int, Sequence[float]]


def unevenness(rounds: Rounds) -> float:
    """Mean / median of a batch's launches, minus 1; the median over the rounds.

    Parameters
    ----------
    rounds
        Milliseconds per launch by round; rounds of one or two launches have none.
    """
    ratios = []
    for row in rounds.values():
        middle = statistics.median(row)
        mean = statistics.fmean(row)
        ratios.append(mean / middle - 1 if middle > 0 else float("inf"))
    return statistics.median(ratios) if ratios else 0.0


def batch_means(rounds: Rounds) -> dict[int, list[float]]:
    """Every launch with the mean time of its batch."""
    return {number: [statistics.fmean(row)] * len(row) for number, row in rounds.items()}
