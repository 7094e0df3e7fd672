"""When a run ends, and which limit it was."""

from typing import Final

from agent.optimize.candidate import Judged
from agent.optimize.config import RunConfig
from agent.optimize.events import Stopped
from agent.optimize.record import Record

ROUNDS, TIME, GPU_TIME = "rounds", "time", "gpu time"
TOKENS, MONEY = "tokens", "money"
# The last session times three to five contenders in full, the first one or two of them briefly: on
# an H200 it took 2.1 to 2.6 times as long.
_LAST_SESSION: Final = 2.5
FLOOR, NO_GAIN, NO_PROPOSALS, JUDGE = "floor", "no gain", "no proposals", "judge"


def used_up(
    record: Record, config: RunConfig, wall: float, *, judging: bool = False
) -> tuple[str, str] | None:
    """The limit (reason and detail) that ends a run even in the middle of a round; None: none.

    Parameters
    ----------
    record
        What was spent.
    config
        The limits.
    wall
        Seconds that the run has taken.
    judging
        Whether there has to be time for judging one more candidate.
    """
    limits, spent = config.limits, record.total
    if limits.seconds is not None and wall >= limits.seconds:
        return TIME, f"{wall:.0f} of {limits.seconds:.0f} s"
    kept = reserve(record, config)
    if judging and kept:
        kept += judging_seconds(record)
    if limits.gpu_seconds is not None and record.gpu_seconds + kept >= limits.gpu_seconds:
        told = f", {kept:.0f} s kept for the last session" if kept else ""
        return GPU_TIME, f"{record.gpu_seconds:.0f} of {limits.gpu_seconds:.0f} s{told}"
    tokens = spent.tokens_in + spent.tokens_out
    if limits.tokens is not None and tokens >= limits.tokens:
        return TOKENS, f"{tokens} of {limits.tokens}"
    if limits.money is not None and spent.money >= limits.money:
        return MONEY, f"{spent.money:.2f} of {limits.money:.2f}"
    return None


def finished(record: Record, config: RunConfig, leader: Judged) -> tuple[str, str] | None:
    """What ends a run between two rounds; None: go on."""
    strategy, limits = config.strategy, config.limits
    fraction = leader.outcome.floor_fraction
    if fraction is not None and fraction >= limits.floor_target:
        return FLOOR, f"the best is at {fraction:.0%} of the floor"
    closed = record.closed
    if len(closed) >= limits.rounds:
        return ROUNDS, f"{len(closed)} of {limits.rounds}"
    fruitless = record.fruitless(strategy.least_gain)
    if leader.outcome.timed and fruitless >= strategy.patience:
        return NO_GAIN, (
            f"{fruitless} rounds in a row brought less than {strategy.least_gain:.0%} or less "
            "than the noise"
        )
    return None


def gpu_seconds_left(record: Record, config: RunConfig) -> float | None:
    """GPU time that the search may still use; None: as much as it takes."""
    most = config.limits.gpu_seconds
    return None if most is None else max(0.0, most - record.gpu_seconds - reserve(record, config))


def last_chance(record: Record, config: RunConfig) -> bool:
    """Whether a candidate that is judged now has to be judged in the last session, where there is
    nothing better than the start so far: there is no time for both."""
    if record.standing is None or record.leader.id != record.start.id:
        return False
    return used_up(record, config, 0.0, judging=True) is not None


def judging_seconds(record: Record) -> float:
    """What judging one candidate takes, by those before; the start is timed beside nothing."""
    known = [each.outcome.gpu_seconds for each in record.history]
    return max([1.2 * record.start.outcome.gpu_seconds, *known])


def reserve(record: Record, config: RunConfig) -> float:
    """GPU time kept for the evaluation and the profile of the best at the end, by what those of the
    start took."""
    strategy, standing = config.strategy, record.standing
    if standing is None or config.interpret or not strategy.confirm:
        return 0.0
    kept = _LAST_SESSION * standing.start.outcome.gpu_seconds
    profiled = record.profiles.get(standing.start.id)
    return kept + (profiled.gpu_seconds if profiled is not None and strategy.profiling else 0.0)


def words(stopped: Stopped) -> str:
    """The end of a run, as a reader is told."""
    told = {
        ROUNDS: "all rounds done",
        TIME: "out of time",
        GPU_TIME: "out of GPU time",
        TOKENS: "out of tokens",
        MONEY: "out of money",
        FLOOR: "the floor is reached",
        NO_GAIN: "no gain",
        NO_PROPOSALS: "nothing more to try",
        JUDGE: "the judge fails",
    }.get(stopped.reason, stopped.reason)
    return f"{told} ({stopped.detail})" if stopped.detail else told
