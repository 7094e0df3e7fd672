"""Hold claimed event times against the judge's own clock, one-sidedly.

A contender's process reports its own event times, so they are a claim. The judge takes the wall
clock of every batch, from sending the command to receiving the reply, and what eager's batch took
beyond eager's own event times under the same command in the same round (messages, queueing, holding
the stream) is the gap that an honest contender has as well:

    excess = median over rounds of ((wall - claimed) - (eager's wall - eager's claimed)) / launches

An honest excess is near zero; under-reported time shows in it in full. Two kinds of batches see
different tricks:

*held* batches, those that the times come from: the stream is held while the host queues a launch,
so a contender's slower host code does not show. Work that a contender hides on another stream while
the stream is held does not show either; `turns` looks for that.

*free* batches (events only), in which nothing is held: hidden work shows, and so does slower host
code. Honest kernels spend up to some 0.25 ms of host time on a launch, so free batches say
something about kernels of about a millisecond and more, or about gross lies.

**Sensitivity.** A batch of n launches, eager's gap g ms a launch, standard error e of the excess:
a held claim of c ms is found to be too low once the excess passes

    0.05 c + 0.02 g + 0.05 / n + 3 e        (and 0.25 more in free batches)

Without noise (e = 0) and with the 0.5 ms of the hold as gap, what has to be kept back of a launch's
true time to be found is:

| true time | held batches | free batches |
|---|---|---|
| 2 µs, 4 graphs of 64 | 22 % | - |
| 5 µs, 4 graphs of 64 | 11 % | - |
| 20 µs, 4 graphs of 64 | 6 % | - |
| 30 µs, events, n = 16 | 46 % | nothing |
| 100 µs, events, n = 16 | 17 % | nothing |
| 1 ms, events, n = 2 | 8 % | 31 % |
| 8 ms, events, n = 2 | 5 % | 8 % |
"""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from judge.evaluate.result import WallCheck

# Two runs of one kernel in one session differ by a percent or so, and clocks fall while a heavy
# contender runs: 5 % of the claim is not evidence.
CLAIM_SHARE: Final = 0.05
# The hold is a number of cycles, so its length moves with the clock: 1 to 2 % under load.
GAP_SHARE: Final = 0.02
# Sending, waking up and parsing differ by less than this between two workers' medians.
BATCH_MS: Final = 0.05
# A statement of cheating needs more than chance: three standard errors.
ERRORS: Final = 3.0
# Host time of one launch that an honest kernel may have beyond eager (Triton's launcher with an
# autotuner and a few tensor descriptors); shows in free batches only.
HOST_MS: Final = 0.25
# Fewer rounds say nothing about the spread.
MIN_ROUNDS: Final = 3
# Standard error of a median of normal values / (median absolute deviation / sqrt(n)):
# 1.4826 turns the deviation into sigma, 1.2533 sigma / sqrt(n) is the error of the median.
_MAD_TO_ERROR: Final = 1.4826 * 1.2533


@dataclass(frozen=True, slots=True)
class Batch:
    """One command to one contender."""

    wall_ms: float
    """From sending the command to receiving the reply, by the judge's clock."""
    claimed_ms: float
    """Sum of the times that the contender reports for its launches."""
    launches: int
    """How many launches that were."""


def check(
    contender: str, batches: Mapping[int, Batch], eager: Mapping[int, Batch], *, held: bool
) -> WallCheck | None:
    """One contender's claim against the judge's clock; None where there are too few rounds.

    Parameters
    ----------
    batches, eager
        Batches of the contender and of eager by round, under the same command.
    """
    rounds = sorted(set(batches) & set(eager))
    if len(rounds) < MIN_ROUNDS:
        return None
    excesses = [_gap(batches[r]) - _gap(eager[r]) for r in rounds]
    excess = statistics.median(excesses)
    deviation = statistics.median(abs(value - excess) for value in excesses)
    error = _MAD_TO_ERROR * deviation / len(rounds) ** 0.5
    claimed = statistics.median(batches[r].claimed_ms / batches[r].launches for r in rounds)
    gap = statistics.median(_gap(eager[r]) for r in rounds)
    launches = statistics.median(batches[r].launches for r in rounds)
    allowed = CLAIM_SHARE * claimed + GAP_SHARE * max(gap, 0.0) + BATCH_MS / launches
    allowed += ERRORS * error + (0.0 if held else HOST_MS)
    kind = "held" if held else "free-running"
    detail = (
        f"{len(rounds)} {kind} batches of {launches:.0f} launches: "
        f"{excess * 1e3:+.1f} µs a launch beyond the reported time and eager's gap, "
        f"up to {allowed * 1e3:.1f} µs is tolerated"
    )
    return WallCheck(
        contender=contender,
        claimed_ms=claimed,
        wall_ms=statistics.median(batches[r].wall_ms / batches[r].launches for r in rounds),
        gap_ms=gap,
        passed=excess <= allowed,
        detail=detail,
    )


def statement(check: WallCheck) -> str:
    """One line that says what a violated check means."""
    return (
        f"{check.contender} reports {check.claimed_ms:.4g} ms a launch, but the judge measured "
        f"{check.wall_ms:.4g} ms, of which launching and waiting explain {check.gap_ms:.4g} ms "
        f"({check.detail})"
    )


def _gap(batch: Batch) -> float:
    return (batch.wall_ms - batch.claimed_ms) / batch.launches
