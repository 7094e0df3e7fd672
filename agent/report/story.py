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
class RoundStory:
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
    other_parents: tuple[str, ...]
    """Further parents."""


def round_stories(record: Record) -> list[RoundStory]:
    """The rounds in order."""
    earlier: frozenset[str] = frozenset()
    stories = []
    leader = record.start.id
    for _, round_ in sorted(record.rounds.items()):
        if round_.advised is None and round_.proposed is None and not round_.judged:
            continue
        retired = frozenset(round_.closed.retired) if round_.closed is not None else earlier
        stories.append(_story_of(record, round_, leader, tuple(sorted(retired - earlier))))
        earlier = retired
        leader = round_.closed.leader if round_.closed is not None else leader
    return stories


def _story_of(record: Record, round_: Round, leader: str, retired: tuple[str, ...]) -> RoundStory:
    proposed = round_.proposed
    judged = [record.find(item.id) for item in round_.in_order()]
    dropped = proposed.dropped if proposed is not None else ()
    judged_ids = {item.id for item in judged}
    notes = list(round_.advised.notes) if round_.advised is not None else []
    if proposed is not None:
        notes += [f"{name} could not propose: {why}" for name, why in proposed.failures.items()]
        notes += [f"{name}: {text}" for name, texts in proposed.notes.items() for text in texts]
    return RoundStory(
        round=round_,
        notes=tuple(notes),
        attempts=tuple(_attempt(record, round_, item, leader) for item in (*judged, *dropped)),
        unjudged=tuple(item for item in round_.candidates if item.id not in judged_ids),
        retired=retired,
    )


def _attempt(record: Record, round_: Round, judged: Judged, leader: str) -> Attempt:
    fate, kept = _fate(record, round_, judged, leader)
    paired = judged.outcome.over("leader")
    gain = change(paired) if judged.outcome.timed and paired is not None else ""
    return Attempt(judged, fate, kept, gain, _metric_change(record, judged, leader))


def _fate(record: Record, round_: Round, judged: Judged, leader: str) -> tuple[str, bool]:
    if not judged.outcome.right:
        return _failure(round_, judged), False
    closed = round_.closed
    if closed is None:
        return "right; the round was interrupted before it was decided", False
    if closed.leader == judged.id:
        return "new leader" if judged.id != leader else "stays the leader", True
    if judged.id in closed.beam:
        return "kept in the beam", True
    rivals = [id_ for id_ in closed.beam if record.find(id_).family == judged.family]
    if judged.family in closed.retired:
        why = f"the family {judged.family} was retired"
    elif rivals:
        why = f"{rivals[0]} of the same family is ahead"
    else:
        why = "no room in the beam"
    return f"dropped: {why}", False


def _failure(round_: Round, judged: Judged) -> str:
    outcome = judged.outcome
    if outcome.stage is Stage.DUPLICATE:
        return "not judged: the same program was already tried"
    if outcome.stage is Stage.RETIRED:
        return "not judged: its family was retired"
    if outcome.stage is Stage.SLOWER:
        return f"not judged: {outcome.reasons[0]}"
    verdict = f", {outcome.verdict}" if outcome.verdict is not None else ""
    repaired = [fix.candidate for fix in round_.repaired.values() if fix.failed == judged.id]
    repair_note = next((f"; repaired as {fix.id}" for fix in repaired if fix is not None), "")
    return f"failed at {outcome.stage}{verdict}{repair_note}"


def _metric_change(record: Record, judged: Judged, leader: str) -> str:
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
    text = f"{name}: {after:.4g}{expected}"
    return f"{text}, {before:.4g} before" if before is not None else text


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
        parent_ids = (candidate.repairs,) if candidate.repairs in seen else candidate.parents
        parents = [id_ for id_ in dict.fromkeys(parent_ids) if id_ is not None and id_ in seen]
        seen.add(judged.id)
        if parents:
            children.setdefault(parents[0], []).append((judged, tuple(parents[1:])))
        else:
            roots.append((judged, ()))
    lines: list[Line] = []
    stack = [(0, *root) for root in reversed(roots)]
    while stack:
        depth, judged, other_parents = stack.pop()
        lines.append(Line(depth, judged, other_parents))
        stack += [(depth + 1, *child) for child in reversed(children.get(judged.id, []))]
    return lines


def chunks_used(record: Record, best: Judged) -> list[str]:
    """Ids of the retrieved chunks that the best and its ancestors name."""
    by_id = {judged.id: judged.candidate for judged in (record.start, *record.history)}
    parents = {item.id: filter(None, (*item.parents, item.repairs)) for item in by_id.values()}
    related = [by_id[id_] for id_ in (best.id, *ancestors(best.id, parents)) if id_ in by_id]
    return list(dict.fromkeys(chunk for candidate in related for chunk in candidate.chunks))


def citations(record: Record, chunks: Sequence[str]) -> list[str]:
    """Citations of the contexts that showed these chunks."""
    chunk_ids = set(chunks)
    contexts = [
        round_.advised.context
        for _, round_ in sorted(record.rounds.items())
        if round_.advised is not None and chunk_ids & set(round_.advised.context.chunks)
    ]
    return list(dict.fromkeys(citation for context in contexts for citation in context.citations))


def failure_reason(judged: Judged) -> str:
    """The main reason of a failure; empty for a correct kernel."""
    outcome = judged.outcome
    if outcome.right and outcome.verdict is not Verdict.LIBRARY:
        return ""
    return outcome.reasons[0] if outcome.reasons else ""
