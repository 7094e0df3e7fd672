"""Reflector: what a round's numbers say about its hypotheses, checked against those numbers."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.optimize.candidate import Hypothesis, Judged, SearchState
from agent.proposers.llm.brief import Brief, head_of, number_words, outcome_words
from agent.proposers.llm.conversation import Conversation
from agent.proposers.llm.models import Finding, Reflection, Reflections
from agent.proposers.llm.prompting import flat, render

# Lines of a diff's surroundings: less than the usual three, since both files are known in parts.
_AROUND = 2
# Kernel files have some hundreds; comparing takes time with the square of them.
_LINES = 2000
_METRICS = 48
_NOTE = 700


@dataclass(frozen=True, slots=True)
class Case:
    """One candidate beside its parent."""

    judged: Judged
    parent: str
    diff: str
    metrics: tuple[tuple[str, str, str], ...]
    """Metric, parent's value, candidate's value."""
    missing: str
    """Why there are none."""
    moved: bool | None
    """Whether the metric of the hypothesis went the expected way; None: not measured."""
    expectation: str

    @property
    def id(self) -> str:
        """The candidate's."""
        return self.judged.id

    @property
    def claim(self) -> str:
        """Its hypothesis."""
        hypothesis = self.judged.candidate.hypothesis
        return hypothesis.claim if hypothesis is not None else "(none was given)"

    @classmethod
    def of(cls, judged: Judged, parent: Judged) -> "Case":
        """The case of a candidate and the first of its parents."""
        before, after = parent.outcome.profile or {}, judged.outcome.profile or {}
        hypothesis = judged.candidate.hypothesis
        metric = hypothesis.metric if hypothesis is not None else None
        names = sorted(before.keys() & after.keys(), key=lambda name: (name != metric, name))
        profiles = {"parent": before, "candidate": after}
        missing = [name for name, values in profiles.items() if not values]
        expectation, moved = _expectation(hypothesis, before, after)
        return cls(
            judged,
            parent.id,
            _diff(parent, judged),
            tuple(
                (name, number_words(name, before[name]), number_words(name, after[name]))
                for name in names[:_METRICS]
            ),
            f"no profile of the {' and the '.join(missing)}" if missing else "no metric in common",
            moved,
            expectation,
        )


def cases_of(state: SearchState, judged: Sequence[Judged], proposer: str) -> list[Case]:
    """The round's candidates of a proposer, beside their parents; none where nothing was measured:
    why files failed is told to the planner anyway."""
    if not any(entry.candidate.proposer == proposer and entry.outcome.timed for entry in judged):
        return []
    by_id = {entry.id: entry for entry in judged}
    cases = []
    for entry in (entry for entry in judged if entry.candidate.proposer == proposer):
        parents = (by_id.get(name) or state.judged(name) for name in entry.candidate.parents)
        parent = next((parent for parent in parents if parent is not None), state.start)
        cases.append(Case.of(entry, parent))
    return cases


def reflect(conversation: Conversation, brief: Brief, cases: Sequence[Case]) -> list[str]:
    """Notes for later rounds, one for each case.

    Raises
    ------
    LlmError
        No usable answer came.
    """
    prompt = render("reflector", brief=brief, cases=cases, head=head_of, outcome=outcome_words)
    answer = conversation.ask(Reflections, prompt, objection=lambda reply: objection(reply, cases))
    by_id = {case.id: case for case in cases}
    return [_note(reflection, by_id[reflection.candidate]) for reflection in answer.reflections]


def objection(reflections: Reflections, cases: Sequence[Case]) -> str:
    """What is wrong with reflections that have the right form; empty if nothing."""
    by_id = {case.id: case for case in cases}
    ids = [reflection.candidate for reflection in reflections.reflections]
    if sorted(ids) != sorted(by_id):
        return f"give one reflection for each of {', '.join(by_id)}, and no others"
    for reflection in reflections.reflections:
        case = by_id[reflection.candidate]
        if reflection.finding is not Finding.CONFIRMED:
            continue
        if not case.judged.outcome.right:
            return f"{case.id} is not right, so its hypothesis is not confirmed"
        if case.moved is False:
            return f"{case.id}: the metric did not move as expected, so that is not confirmed"
    return ""


def _expectation(
    hypothesis: Hypothesis | None, before: Mapping[str, float], after: Mapping[str, float]
) -> tuple[str, bool | None]:
    """What became of the metric of a hypothesis, and whether it went the expected way."""
    if hypothesis is None or hypothesis.metric is None:
        return "", None
    metric, expected = hypothesis.metric, hypothesis.expected
    text = metric if expected is None else f"{metric} to about {number_words(metric, expected)}"
    if metric not in before or metric not in after:
        return f"{text}; it was not measured on both", None
    was, now = before[metric], after[metric]
    text += f"; it went from {number_words(metric, was)} to {number_words(metric, now)}"
    if expected is None or expected == was:
        return text, None
    moved = (now - was) * (expected - was) > 0
    return f"{text}, {'the' if moved else 'not the'} expected way", moved


def _note(reflection: Reflection, case: Case) -> str:
    claim = flat(case.claim, 160)
    text = (
        f"{case.id} ({case.judged.family}; {claim}): {reflection.finding}, {reflection.action}. "
        f"{reflection.lesson}"
    )
    return flat(text, _NOTE)


def _diff(parent: Judged, judged: Judged) -> str:
    lines = difflib.unified_diff(
        parent.candidate.source.splitlines()[:_LINES],
        judged.candidate.source.splitlines()[:_LINES],
        parent.id,
        judged.id,
        lineterm="",
        n=_AROUND,
    )
    return "\n".join(lines) or "(the same text)"
