"""Decides when a run ends, and by which limit."""

from typing import Final

from agent.diagnose.roofline import NO_FLOOR
from agent.optimize.config import RunConfig
from agent.optimize.events import Stopped
from agent.optimize.judge import Allowance
from agent.optimize.record import Record, Round
from judge.evaluate.options import COMPILE_SECONDS, EAGER

ROUNDS, TIME, GPU_TIME = "rounds", "time", "gpu time"
TOKENS, MONEY = "tokens", "money"
# What the last session takes, see `last_session`: in times the finalist's judging, and seconds for
# each further contender to start and be called. For 42 of 53 last sessions on an H200 this is
# within a third of what they took; kernels that compile for long took more.
_WHOLE: Final = 1.6
_SHORT: Final = 1.0
_WHOLE_EACH_S: Final = 2.0
_SHORT_EACH_S: Final = 3.0
# Wall time to compile one baseline: `torch.compile` and max-autotune took 15 to 16 s together.
_BASELINE_S: Final = 8.0
# Of what a limit leaves after the start's judging, this much at most is kept: the rest is for the
# search, without which there is nothing to confirm.
_MAX_RESERVE: Final = 0.75
FLOOR, NO_GAIN, NO_PROPOSALS, JUDGE = "floor", "no gain", "no proposals", "judge"


def limit_reached(
    record: Record, config: RunConfig, wall: float, *, judging: bool = False
) -> tuple[str, str] | None:
    """The limit (reason and detail) that ends a run even in the middle of a round; None: none.

    The run has taken `wall` seconds. With `judging` there has to be time for one more candidate.
    """
    limits, spent = config.limits, record.total
    for reason, (used, limit) in _usage(record, config, wall).items():
        reserved = reserve(record, config, reason)
        needed = reserved + (judging_seconds(record) if judging and reserved else 0.0)
        if used + needed >= limit:
            detail = f"{used:.0f} of {limit:.0f} s"
            if reserved and record.confirmed:
                detail += ", too little for another candidate and last session"
            elif reserved:
                detail += f", {reserved:.0f} s reserved for the last session"
            return reason, detail
    tokens = spent.tokens_in + spent.tokens_out
    if limits.tokens is not None and tokens >= limits.tokens:
        return TOKENS, f"{tokens} of {limits.tokens}"
    if limits.money is not None and spent.money >= limits.money:
        return MONEY, f"{spent.money:.2f} of {limits.money:.2f}"
    return None


def stop_reason(record: Record, config: RunConfig) -> tuple[str, str] | None:
    """What ends a run between two rounds; None: go on."""
    strategy, limits, leader = config.strategy, config.limits, record.leader
    fraction = leader.outcome.floor_fraction
    if fraction is not None and limits.floor_target <= fraction <= NO_FLOOR:
        return FLOOR, f"the best is at {fraction:.0%} of the floor"
    closed = record.closed
    if len(closed) >= limits.rounds:
        return ROUNDS, f"{len(closed)} of {limits.rounds}"
    fruitless = record.rounds_without_gain(strategy.least_gain)
    if leader.outcome.timed and fruitless >= strategy.patience:
        return NO_GAIN, (
            f"{fruitless} rounds in a row gained less than {strategy.least_gain:.0%} or less "
            "than the noise"
        )
    return None


def seconds_left(record: Record, config: RunConfig, wall: float) -> float | None:
    """Seconds left for the search by the nearer limit, of GPU time or wall time; None: no limit.

    The run has taken `wall` seconds. Wall time passes at least as fast as GPU time.
    """
    return min(_remaining(record, config, wall).values(), default=None)


def wall_left(record: Record, config: RunConfig, wall: float) -> float | None:
    """Seconds of wall time left for the search; None: no limit. See `seconds_left`."""
    return _remaining(record, config, wall).get(TIME)


def _remaining(record: Record, config: RunConfig, wall: float) -> dict[str, float]:
    """Of TIME and GPU_TIME, where they are limited: seconds left for the search."""
    return {
        reason: max(0.0, limit - used - reserve(record, config, reason))
        for reason, (used, limit) in _usage(record, config, wall).items()
    }


def _usage(record: Record, config: RunConfig, wall: float) -> dict[str, tuple[float, float]]:
    """TIME and GPU_TIME, where they are limited: seconds used and the limit."""
    limits = config.limits
    usage = {TIME: (wall, limits.seconds), GPU_TIME: (record.gpu_seconds, limits.gpu_seconds)}
    return {reason: (used, limit) for reason, (used, limit) in usage.items() if limit is not None}


def last_chance(
    record: Record, config: RunConfig, round_: Round, wall: float, *, asks_model: bool
) -> bool:
    """Whether candidates are to be judged in the last session at once, where there is nothing
    better than the start so far: there is no time for both, or quick timings have put them in order
    and nobody is to learn from them, since it is the last round or no model is asked."""
    if record.standing is None or record.leader.id != record.start.id:
        return False
    if config.interpret or not config.strategy.confirm or round_.proposed is None:
        return False
    candidates = round_.proposed.candidates
    tuned = all(candidate.params or candidate.quick_ms for candidate in candidates)
    last = round_.number >= config.limits.rounds and tuned
    ordered = not asks_model and all(candidate.quick_ms for candidate in candidates)
    return last or ordered or limit_reached(record, config, wall, judging=True) is not None


def judging_seconds(record: Record) -> float:
    """Estimated GPU seconds of judging one candidate, from those judged before."""
    costs = [judged.outcome.gpu_seconds for judged in record.history]
    return max([1.2 * record.start.outcome.gpu_seconds, *costs])


def reserve(record: Record, config: RunConfig, reason: str = GPU_TIME) -> float:
    """Seconds of TIME or GPU_TIME that are kept for the last session and the profile of the best.

    That is the time of a whole last session, unless little would be left for the search: then the
    time of a short one, and never more than `_MAX_RESERVE` of what the start left. So a slow start
    under a short limit is searched as well, at the price of fewer launches in the last session.
    """
    measured = record.standing is not None and record.standing.measured
    if not measured or config.interpret or not config.strategy.confirm:
        return 0.0
    compiling = 0.0
    if reason == TIME:
        compiling = _BASELINE_S * len({*config.baselines} - {EAGER} - record.baselines.keys())
    whole = last_session(record, config) + compiling
    cap = _max_reserve(record, config, reason)
    if cap is None or whole <= cap:
        return whole
    return min(last_session(record, config, short=True) + compiling, cap)


def last_session(record: Record, config: RunConfig, *, short: bool = False) -> float:
    """GPU seconds that the last session takes, and the profile of the best.

    The finalist goes through the same cases as when it was judged, which took most of that time; it
    is launched 100 times and not 40, and more of its launches are compared with the oracle. The
    finalist is the leader: its judging says what its cases, its compilation and its launches take,
    where that of a slow start says it for the start alone. With further contenders (the compiled
    baselines, and the start or the best) it grows by what it takes to start them, since time for
    launches is limited for each. A `short` one has as few launches as a candidate in the search.
    """
    others = 1 + len({*config.baselines} - {EAGER})
    factor, each_s = (_SHORT, _SHORT_EACH_S) if short else (_WHOLE, _WHOLE_EACH_S)
    # What was judged in a last session at once has its seconds there.
    judging = record.leader.outcome.gpu_seconds or record.start.outcome.gpu_seconds
    profiled = record.profiles.get(record.start.id)
    profiling = profiled.gpu_seconds if profiled is not None and config.strategy.profiling else 0.0
    return factor * judging + each_s * others + profiling


def allowance(record: Record, config: RunConfig, wall: float) -> Allowance:
    """What a last session that begins after `wall` seconds may take.

    It uses as few launches as the search if time was reserved for a short session only and the
    search left no more. Compiling the baselines may take what is left of the wall time.
    """
    short, limit = _is_short(record, config), config.limits.seconds
    if limit is None:
        return Allowance(short)
    left = limit - wall - last_session(record, config, short=short)
    return Allowance(short, min(COMPILE_SECONDS, max(0.0, left)))


def _is_short(record: Record, config: RunConfig) -> bool:
    limit = config.limits.gpu_seconds
    cap = _max_reserve(record, config, GPU_TIME)
    if limit is None or cap is None:
        return False
    whole = last_session(record, config)
    return whole > cap and record.gpu_seconds + whole > limit


def _max_reserve(record: Record, config: RunConfig, reason: str) -> float | None:
    """Seconds of a limit that may be kept from the search; None: no limit."""
    start_s, limit = record.start.outcome.gpu_seconds, config.limits.gpu_seconds
    if reason == TIME:
        start_s, limit = record.started_wall, config.limits.seconds
    return None if limit is None else _MAX_RESERVE * max(0.0, limit - start_s)


def no_proposals_reason(record: Record) -> str:
    """The proposers' reasons for a round without proposals: only the first of each, since all were
    shown when the round began, and those of a network are long."""
    proposals = (record.rounds[number].proposed for number in sorted(record.rounds, reverse=True))
    proposed = next((item for item in proposals if item and (item.failures or item.notes)), None)
    if proposed is None:
        return ""
    why = [f"{name}: {reason}" for name, reason in proposed.failures.items()]
    for name, notes in proposed.notes.items():
        more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
        why += [f"{name}: {note}{more}" for note in notes[:1]]
    return "; ".join(why)


def describe_end(stopped: Stopped) -> str:
    """The end of a run in words, for reports and the command."""
    text = {
        ROUNDS: "all rounds done",
        TIME: "out of time",
        GPU_TIME: "out of GPU time",
        TOKENS: "out of tokens",
        MONEY: "out of money",
        FLOOR: "the floor was reached",
        NO_GAIN: "no gain",
        NO_PROPOSALS: "nothing more to try",
        JUDGE: "the judge failed",
    }.get(stopped.reason, stopped.reason)
    return f"{text} ({stopped.detail})" if stopped.detail else text
