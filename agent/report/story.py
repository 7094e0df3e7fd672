"""The attempts of each round, why each was kept or dropped, and the lineage of candidates."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.optimize.beam import ancestors
from agent.optimize.candidate import Candidate, Judged, Stage
from agent.optimize.record import Record, Round
from agent.report.words import change
from judge.evaluate.result import Verdict


@dataclass(frozen=True, slots=True)
class Attempt:
    """One candidate and the decision about it."""

    judged: Judged
    fate: str
    """`new leader`, `kept`, `dropped: …`, `failed at …`: one line."""
    kept: bool
    gain: str
    """Gain over the leader that it was judged against."""
    tested: str
    """The hypothesis's metric before and after; empty if none was named or measured."""


@dataclass(frozen=True, slots=True)
class Telling:
    """One round, as the report describes it."""

    round: Round
    notes: tuple[str, ...]
    """Notes on missing data, failed proposers, and fewer proposals than allowed."""
    attempts: tuple[Attempt, ...]
    unjudged: tuple[Candidate, ...]
    """Proposals that were not judged before the run was interrupted."""
    retired: tuple[str, ...]
    """Families that were retired in this round."""


@dataclass(frozen=True, slots=True)
class Line:
    """One candidate of the lineage tree, in the order of a walk from the roots."""

    depth: int
    judged: Judged
    also: tuple[str, ...]
    """Further parents."""


def story(record: Record) -> list[Telling]:
    """The rounds in order."""
    before: frozenset[str] = frozenset()
    told = []
    leader = record.start.id
    for _, round_ in sorted(record.rounds.items()):
        if round_.advised is None and round_.proposed is None and not round_.judged:
            continue
        retired = frozenset(round_.closed.retired) if round_.closed is not None else before
        told.append(_telling(record, round_, leader, tuple(sorted(retired - before))))
        before = retired
        leader = round_.closed.leader if round_.closed is not None else leader
    return told


def _telling(record: Record, each: Round, leader: str, retired: tuple[str, ...]) -> Telling:
    proposed = each.proposed
    judged = [record.find(one.id) for one in each.in_order()]
    dropped = proposed.dropped if proposed is not None else ()
    done = {one.id for one in judged}
    notes = list(each.advised.notes) if each.advised is not None else []
    if proposed is not None:
        notes += [f"{name} could not propose: {why}" for name, why in proposed.failures.items()]
        notes += [f"{name}: {one}" for name, told in proposed.notes.items() for one in told]
    return Telling(
        round=each,
        notes=tuple(notes),
        attempts=tuple(_attempt(record, each, one, leader) for one in (*judged, *dropped)),
        unjudged=tuple(one for one in each.candidates if one.id not in done),
        retired=retired,
    )


def _attempt(record: Record, each: Round, judged: Judged, leader: str) -> Attempt:
    fate, kept = _fate(record, each, judged, leader)
    paired = judged.outcome.over("leader")
    gain = change(paired) if judged.outcome.timed and paired is not None else ""
    return Attempt(judged, fate, kept, gain, _tested(record, judged, leader))


def _fate(record: Record, each: Round, judged: Judged, leader: str) -> tuple[str, bool]:
    if not judged.outcome.right:
        return _failure(each, judged), False
    closed = each.closed
    if closed is None:
        return "right; the round was interrupted before it was decided", False
    if closed.leader == judged.id:
        return "new leader" if judged.id != leader else "stays the leader", True
    if judged.id in closed.beam:
        return "kept in the beam", True
    same = [one for one in closed.beam if record.find(one).family == judged.family]
    if judged.family in closed.retired:
        why = f"the family {judged.family} was retired"
    elif same:
        why = f"{same[0]} of the same family is ahead"
    else:
        why = "no room in the beam"
    return f"dropped: {why}", False


def _failure(each: Round, judged: Judged) -> str:
    outcome = judged.outcome
    if outcome.stage is Stage.DUPLICATE:
        return "not judged: the same program was already tried"
    if outcome.stage is Stage.RETIRED:
        return "not judged: its family was retired"
    if outcome.stage is Stage.SLOWER:
        return f"not judged: {outcome.reasons[0]}"
    verdict = f", {outcome.verdict}" if outcome.verdict is not None else ""
    repaired = [fix.candidate for fix in each.repaired.values() if fix.failed == judged.id]
    after = next((f"; repaired as {fix.id}" for fix in repaired if fix is not None), "")
    return f"failed at {outcome.stage}{verdict}{after}"


def _tested(record: Record, judged: Judged, leader: str) -> str:
    """The named metric of the leader before, and of the candidate, where both were profiled."""
    hypothesis = judged.candidate.hypothesis
    if hypothesis is None or hypothesis.metric is None:
        return ""
    name = hypothesis.metric
    expected = f", {hypothesis.expected:.4g} expected" if hypothesis.expected is not None else ""
    before = (record.find(leader).outcome.profile or {}).get(name)
    after = (judged.outcome.profile or {}).get(name)
    if after is None:
        return f"{name}: not measured{expected}"
    told = f"{name}: {after:.4g}{expected}"
    return f"{told}, {before:.4g} before" if before is not None else told


def lineage(record: Record) -> list[Line]:
    """All candidates as a forest, each under its first known parent, in the order of judging.

    A parent that was not judged before the candidate counts as unknown, so a record with nonsense
    in it cannot make a circle.
    """
    children: dict[str, list[tuple[Judged, tuple[str, ...]]]] = {}
    roots: list[tuple[Judged, tuple[str, ...]]] = [(record.start, ())]
    seen = {record.start.id}
    for judged in record.history:
        if judged.id in seen:
            continue
        candidate = judged.candidate
        # A repair stands under what it repairs, which stands under their common parents.
        named = (candidate.repairs,) if candidate.repairs in seen else candidate.parents
        parents = [one for one in dict.fromkeys(named) if one is not None and one in seen]
        seen.add(judged.id)
        if parents:
            children.setdefault(parents[0], []).append((judged, tuple(parents[1:])))
        else:
            roots.append((judged, ()))
    lines: list[Line] = []
    waiting = [(0, *root) for root in reversed(roots)]
    while waiting:
        depth, judged, also = waiting.pop()
        lines.append(Line(depth, judged, also))
        waiting += [(depth + 1, *child) for child in reversed(children.get(judged.id, []))]
    return lines


def chunks_used(record: Record, best: Judged) -> list[str]:
    """Ids of the retrieved chunks that the best and its ancestors name."""
    known = {one.id: one.candidate for one in (record.start, *record.history)}
    parents = {one.id: filter(None, (*one.parents, one.repairs)) for one in known.values()}
    related = [known[one] for one in (best.id, *ancestors(best.id, parents)) if one in known]
    return list(dict.fromkeys(chunk for one in related for chunk in one.chunks))


def citations(record: Record, chunks: Sequence[str]) -> list[str]:
    """Citations of the contexts that showed these chunks."""
    wanted = set(chunks)
    contexts = [
        round_.advised.context
        for _, round_ in sorted(record.rounds.items())
        if round_.advised is not None and wanted & set(round_.advised.context.chunks)
    ]
    return list(dict.fromkeys(one for context in contexts for one in context.citations))


def why_failed(judged: Judged) -> str:
    """The main reason of a failure; empty for a correct kernel."""
    outcome = judged.outcome
    if outcome.right and outcome.verdict is not Verdict.LIBRARY:
        return ""
    return outcome.reasons[0] if outcome.reasons else ""
