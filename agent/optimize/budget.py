"""When a run ends, and which limit it was."""

from typing import Final

from agent.optimize.candidate import Judged
from agent.optimize.config import RunConfig
from agent.optimize.events import Stopped
from agent.optimize.record import Record, Round

ROUNDS, TIME, GPU_TIME = "rounds", "time", "gpu time"
TOKENS, MONEY = "tokens", "money"
# For each contender of the last session, beside the time that the start took: three of them took
# 1.6 to 1.8 times as long on an H200, four and five 2.1 to 2.6 times.
_EACH_CONTENDER: Final = 0.6
_LAST_SESSION: Final = 2.5
# What is so far beyond its floor shows that the floor is none, as of masked work that is counted.
_NO_FLOOR: Final = 1.05
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
    if fraction is not None and limits.floor_target <= fraction <= _NO_FLOOR:
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


def last_chance(record: Record, config: RunConfig, round_: Round) -> bool:
    """Whether candidates are to be judged in the last session at once, where there is nothing
    better than the start so far: there is no time for both, or it is the last round and quick
    timings have put them in order."""
    if record.standing is None or record.leader.id != record.start.id:
        return False
    if config.interpret or not config.strategy.confirm or round_.proposed is None:
        return False
    tuned = all(each.params or each.quick_ms for each in round_.proposed.candidates)
    last = round_.number >= config.limits.rounds and tuned
    return last or used_up(record, config, 0.0, judging=True) is not None


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
    contenders = 1 + len({*config.baselines, "eager"}) + config.given
    times = min(_LAST_SESSION, _EACH_CONTENDER * contenders)
    kept = times * standing.start.outcome.gpu_seconds
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
