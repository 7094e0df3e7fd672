"""The rules of the beam, over whatever may be judged."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import kernel, ratio

from agent.optimize import beam
from agent.optimize.candidate import Candidate, Judged, Outcome, Proposal, Stage
from judge.evaluate.result import Verdict
from judge.evaluate.statistics import repeatability

FAMILIES = ("baseline", "tiling", "vectorize", "fusion", "tune")
MS = st.floats(0.05, 5.0).map(lambda value: round(value, 3))


def judged(
    ms: float | None,
    family: str = "tiling",
    round_: int = 1,
    *,
    leader: float | None = None,
    parents: Sequence[str] = (),
    mark: str = "",
) -> Judged:
    proposal = Proposal(
        source=f"{kernel(ms or 0.0, mark)}# {family} {round_} {leader} {parents}\n",
        proposer="p", family=family, parents=tuple(parents),
    )  # fmt: skip
    candidate = Candidate.of(proposal, round_=round_)
    right = ms is not None
    outcome = Outcome(
        candidate=candidate.id,
        stage=Stage.DONE if right else Stage.VERIFY,
        verdict=Verdict.CORRECT if right else Verdict.WRONG,
        median_ms=ms,
        ratios=(ratio("leader", leader, ms),) if leader is not None and ms is not None else (),
    )
    return Judged(candidate=candidate, outcome=outcome)


@st.composite
def histories(draw: st.DrawFn) -> list[Judged]:
    """A start, and some rounds of anything."""
    found = [judged(draw(MS), "baseline", 0)]
    for round_ in range(1, draw(st.integers(1, 5)) + 1):
        for _ in range(draw(st.integers(0, 4))):
            ms = draw(st.one_of(st.none(), MS))
            found.append(judged(ms, draw(st.sampled_from(FAMILIES[1:])), round_))
    return found


@settings(deadline=None)
@given(histories(), st.integers(1, 6), st.sets(st.sampled_from(FAMILIES[1:])))
def test_survivors(history: list[Judged], width: int, retired: set[str]) -> None:
    leader = beam.choose_leader(history[0], history[1:])
    kept = beam.survivors(history, leader, width=width, retired=retired)
    families = [each.family for each in kept]
    assert kept[0] == leader
    assert len(kept) <= width
    assert len(set(families)) == len(families)
    assert not set(families[1:]) & retired
    assert all(each.outcome.timed for each in kept)
    times = [each.outcome.median_ms or 0 for each in kept[1:]]
    assert times == sorted(times)
    # Nobody faster was left out of a family that survives, nor a family where there was room.
    for family in set(families[1:]):
        mine = [e.outcome.median_ms for e in history if e.family == family and e.outcome.timed]
        assert (
            min(m for m in mine if m is not None) == kept[families.index(family)].outcome.median_ms
        )
    open_families = {e.family for e in history if e.outcome.timed} - retired - {leader.family}
    assert len(kept) == min(width, 1 + len(open_families))
    assert beam.survivors(reversed(history), leader, width=width, retired=retired) == kept


@settings(deadline=None)
@given(histories())
def test_a_leader_is_replaced_only_beyond_the_noise_and_then_by_the_fastest(
    history: list[Judged],
) -> None:
    old, new = history[0], beam.choose_leader(history[0], history[1:])
    before, after = old.outcome.median_ms or 0, new.outcome.median_ms or 0
    gain = beam.gain(old, new)
    if new is old:
        assert gain == 0
        fastest = min((e.outcome.median_ms or 9 for e in history[1:] if e.outcome.timed), default=9)
        assert before / fastest <= 1 + repeatability(max(before, fastest))
    else:
        assert before / after > 1 + repeatability(before)
        assert gain > 0
        assert after == min(e.outcome.median_ms or 9 for e in history[1:] if e.outcome.timed)


def test_a_paired_ratio_counts_more_than_times_of_two_sessions() -> None:
    leader = judged(1.0, "baseline", 0)
    # The card was slower in its session: it is behind by the median, and ahead beside the leader.
    paired = judged(1.05, leader=1.3)
    assert beam.improves(paired, leader)
    assert beam.choose_leader(leader, [paired]).id == paired.id
    assert not beam.improves(judged(0.9, leader=0.9), leader)


@settings(deadline=None)
@given(histories())
def test_retirement(history: list[Judged]) -> None:
    leader = beam.choose_leader(history[0], history[1:])
    retired = beam.stalled_families(history, leader)
    assert leader.family not in retired
    assert not retired & {beam.BASELINE, beam.TUNE}
    for family in retired:
        rounds = sorted({e.candidate.round for e in history if e.family == family})
        assert len(rounds) > beam.PLATEAU_ROUNDS
        times = [e.outcome.median_ms for e in history if e.family == family and e.outcome.timed]
        known = [ms for ms in times if ms is not None]
        assert not known or min(known) > (leader.outcome.median_ms or 0)


def test_a_family_is_given_up_when_it_stays_behind_and_not_while_it_gains() -> None:
    leader = judged(0.5, "fusion", 1)
    still = [judged(0.9, "tiling", 1), judged(0.895, "tiling", 2), judged(0.89, "tiling", 3)]
    assert beam.stalled_families([leader, *still], leader) == {"tiling"}
    assert beam.stalled_families([leader, *still[:2]], leader) == frozenset()
    gaining = [judged(0.9, "tiling", 1), judged(0.895, "tiling", 2), judged(0.8, "tiling", 3)]
    assert beam.stalled_families([leader, *gaining], leader) == frozenset()
    level = [judged(0.501, "tiling", 1), judged(0.5005, "tiling", 2), judged(0.5, "tiling", 3)]
    assert beam.stalled_families([leader, *level], leader) == frozenset()
    failing = [judged(None, "tiling", number) for number in (1, 2, 3)]
    assert beam.stalled_families([leader, *failing], leader) == {"tiling"}
    tuned = [judged(0.9, "tune", number) for number in (1, 2, 3)]
    assert beam.stalled_families([leader, *tuned], leader) == frozenset()


@settings(deadline=None)
@given(histories())
def test_crossover_pairs(history: list[Judged]) -> None:
    leader = beam.choose_leader(history[0], history[1:])
    kept = beam.survivors(history, leader, width=4)
    crossed: set[frozenset[str]] = set()
    while (pair := beam.crossover_pair(kept, history, crossed)) is not None:
        first, second = pair
        assert first.family != second.family
        assert beam.BASELINE not in {first.family, second.family}
        assert kept.index(first) < kept.index(second)
        assert frozenset({first.id, second.id}) not in crossed
        crossed.add(frozenset({first.id, second.id}))
    usable = sum(each.family != beam.BASELINE for each in kept)
    assert len(crossed) == usable * (usable - 1) // 2


def test_descendants_are_not_crossed_with_their_ancestors() -> None:
    first = judged(0.5, "tiling")
    child = judged(0.4, "fusion", 2, parents=[first.id])
    grandchild = judged(0.3, "vectorize", 3, parents=[child.id])
    other = judged(0.6, "layout", 2)
    history = [first, child, grandchild, other]
    pair = beam.crossover_pair([grandchild, child, first, other], history)
    assert pair is not None
    assert {each.id for each in pair} == {grandchild.id, other.id}


def test_a_dry_run_keeps_what_is_right_the_latest_of_a_family() -> None:
    def right(family: str, round_: int) -> Judged:
        one = judged(None, family, round_)
        update = {"stage": Stage.DONE, "verdict": Verdict.CORRECT}
        return one.model_copy(update={"outcome": one.outcome.model_copy(update=update)})

    start = right("baseline", 0)
    history = [start, right("tiling", 1), judged(None, "fusion", 1), right("tiling", 2)]
    assert beam.choose_leader(start, history) == start
    assert beam.survivors(history, start, width=4) == (start, history[3])
    assert beam.stalled_families(history, start) == frozenset()
