"""Selects the candidates that survive a round. Pure functions: no clock, no randomness.

Candidates of one round are compared with the leader in one session, so the leader is chosen by
these paired ratios. Times of different sessions order the rest of the beam; they differ by what
`statistics.repeatability` says even for one kernel, and a smaller difference counts as none.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from agent.optimize.candidate import Judged
from judge.evaluate.statistics import repeatability

BASELINE: Final = "baseline"
"""Family of the start."""
TUNE: Final = "tune"
"""Family of changed meta-parameters: no technique of its own, it is due again for each kernel."""
# A family gets this many rounds of trying without gain before it is retired.
PLATEAU_ROUNDS: Final = 2
# A round that gains less than this fraction counts as having brought nothing.
LEAST_GAIN: Final = 0.03


def improves(new: Judged, leader: Judged) -> bool:
    """Whether `new` is significantly faster than the leader."""
    if not new.outcome.timed:
        return False
    if not leader.outcome.timed:
        return True
    paired = new.outcome.over("leader")
    if paired is not None:
        return paired.significant and paired.ratio > 1
    return _faster(_median_ms(new), _median_ms(leader))


def choose_leader(leader: Judged, judged: Iterable[Judged]) -> Judged:
    """The candidate with the largest gain over the leader, or the leader itself."""
    better = [rival for rival in judged if rival.id != leader.id and improves(rival, leader)]
    return min(better, key=lambda rival: (_median_ms(leader) / _gain_over(rival, leader), rival.id),
               default=leader)  # fmt: skip


def gain(before: Judged, after: Judged) -> float:
    """Relative gain of one leader over another: 0.25 where it takes 1/1.25 of the time."""
    if before.id == after.id or not before.outcome.timed:
        return 0.0
    return _gain_over(after, before) - 1


def survivors(
    judged: Iterable[Judged], leader: Judged, *, width: int, retired: Collection[str] = ()
) -> tuple[Judged, ...]:
    """The beam: the leader, then the fastest of each other family that is not retired.

    Of everything that was `judged` so far, what is wrong or not timed does not survive. Where
    nothing was timed at all (a dry run), what is right survives, the latest of a family. At most
    `width` survive; 1 is the greedy search.
    """
    everything = list(judged)
    timed = leader.outcome.timed or any(item.outcome.timed for item in everything)
    if timed:
        ordered = sorted(
            (item for item in everything if item.outcome.timed),
            key=lambda item: (_median_ms(item), item.candidate.round, item.id),
        )
    else:
        ordered = [item for item in reversed(everything) if item.outcome.right]
    beam = [leader]
    families = {leader.family, *retired}
    for item in ordered:
        if len(beam) >= width:
            break
        if item.family not in families:
            families.add(item.family)
            beam.append(item)
    return tuple(beam)


def stalled_families(judged: Sequence[Judged], leader: Judged) -> frozenset[str]:
    """Families that stay behind the leader and stopped gaining.

    A family is one where, over its last `PLATEAU_ROUNDS` rounds (rounds in which it was tried), its
    best time fell by less than `LEAST_GAIN`, and where that time is behind the leader's by more
    than the noise; or that had nothing right at all. The leader's family never is, nor is `TUNE`.
    """
    if not leader.outcome.timed:
        return frozenset()
    stalled = set()
    for family in {item.family for item in judged} - {leader.family, BASELINE, TUNE}:
        members = [item for item in judged if item.family == family]
        rounds = sorted({item.candidate.round for item in members})
        if len(rounds) <= PLATEAU_ROUNDS:
            # The first round of a family sets its level: from there it has its chances.
            continue
        since = rounds[-PLATEAU_ROUNDS]
        early_ms = _best_ms(item for item in members if item.candidate.round < since)
        late_ms = _best_ms(members)
        behind = late_ms is None or _faster(_median_ms(leader), late_ms)
        gained = late_ms is not None and (early_ms is None or early_ms / late_ms - 1 >= LEAST_GAIN)
        if behind and not gained:
            stalled.add(family)
    return frozenset(stalled)


def crossover_pair(
    beam: Sequence[Judged], history: Sequence[Judged], crossed: Collection[frozenset[str]] = ()
) -> tuple[Judged, Judged] | None:
    """The best two survivors of distinct families that may have something to give each other.

    Left out are the start, pairs of which one descends from the other, and pairs in `crossed` (as
    sets of two ids).
    """
    parents = {judged.id: judged.candidate.parents for judged in history}
    usable = [judged for judged in beam if judged.family != BASELINE and judged.outcome.right]
    pairs = (
        (first, second)
        for number, second in enumerate(usable)
        for first in usable[:number]
        if first.family != second.family
        and frozenset({first.id, second.id}) not in crossed
        and second.id not in ancestors(first.id, parents)
        and first.id not in ancestors(second.id, parents)
    )
    return next(pairs, None)


def ancestors(candidate: str, parents: Mapping[str, Iterable[str]]) -> list[str]:
    """Ids of a candidate's ancestors, the nearest first."""
    ids = [candidate]
    for id_ in ids:  # which grows meanwhile
        ids += [parent for parent in dict.fromkeys(parents.get(id_, ())) if parent not in ids]
    return ids[1:]


def _gain_over(new: Judged, leader: Judged) -> float:
    paired = new.outcome.over("leader")
    if paired is not None:
        return paired.ratio
    return _median_ms(leader) / _median_ms(new) if leader.outcome.timed else 1 / _median_ms(new)


def _median_ms(judged: Judged) -> float:
    median = judged.outcome.median_ms
    return median if median is not None else 1.0


def _best_ms(judged: Iterable[Judged]) -> float | None:
    return min((_median_ms(item) for item in judged if item.outcome.timed), default=None)


def _faster(ms: float, other: float) -> bool:
    return other / ms > 1 + repeatability(max(ms, other))
