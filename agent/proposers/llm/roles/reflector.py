"""Reflector: what a round's numbers say about its hypotheses, checked against those numbers."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from agent.optimize.candidate import Judged, SearchState
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
    def head(self) -> str:
        """A line about it."""
        return head_of(self.judged)

    @property
    def claim(self) -> str:
        """Its hypothesis."""
        hypothesis = self.judged.candidate.hypothesis
        return hypothesis.claim if hypothesis is not None else "(none was given)"

    @property
    def outcome(self) -> str:
        """What judging it gave."""
        return outcome_words(self.judged)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it failed; empty where it is right."""
        return () if self.judged.outcome.right else self.judged.outcome.reasons

    @classmethod
    def of(cls, judged: Judged, parent: Judged) -> "Case":
        """The case of a candidate and the first of its parents."""
        before, after = parent.outcome.profile or {}, judged.outcome.profile or {}
        hypothesis = judged.candidate.hypothesis
        metric = hypothesis.metric if hypothesis is not None else None
        names = sorted(before.keys() & after.keys(), key=lambda name: (name != metric, name))
        moved: bool | None = None
        expectation = ""
        if metric is not None and hypothesis is not None:
            expectation = f"{metric}"
            if hypothesis.expected is not None:
                expectation += f" to about {number_words(metric, hypothesis.expected)}"
            if metric in before and metric in after:
                was, now = before[metric], after[metric]
                if hypothesis.expected is not None and hypothesis.expected != was:
                    moved = (now - was) * (hypothesis.expected - was) > 0
                expectation += (
                    f"; it went from {number_words(metric, was)} to {number_words(metric, now)}"
                )
                if moved is not None:
                    expectation += ", the expected way" if moved else ", not the expected way"
            else:
                expectation += "; it was not measured on both"
        lacking = [
            name for name, values in (("parent", before), ("candidate", after)) if not values
        ]
        return cls(
            judged,
            parent.id,
            _diff(parent, judged),
            tuple(
                (name, number_words(name, before[name]), number_words(name, after[name]))
                for name in names[:_METRICS]
            ),
            f"no profile of the {' and the '.join(lacking)}" if lacking else "no metric in common",
            moved,
            expectation,
        )


def cases_of(state: SearchState, judged: Sequence[Judged], proposer: str) -> list[Case]:
    """The round's candidates of a proposer, beside their parents; none where nothing was measured:
    why files failed is told to the planner anyway."""
    if not any(each.candidate.proposer == proposer and each.outcome.timed for each in judged):
        return []
    now = {each.id: each for each in judged}
    cases = []
    for each in judged:
        if each.candidate.proposer != proposer:
            continue
        parents = [now.get(name) or state.judged(name) for name in each.candidate.parents]
        known = [parent for parent in parents if parent is not None]
        cases.append(Case.of(each, known[0] if known else state.start))
    return cases


def reflect(
    conversation: Conversation, system: str, brief: Brief, cases: Sequence[Case]
) -> list[str]:
    """Notes for later rounds, one for each case.

    Raises
    ------
    LlmError
        No usable answer came.
    """
    prompt = render("reflector", brief=brief, cases=cases)
    answer = conversation.ask(
        Reflections, system, prompt, objection=lambda given: objection(given, cases)
    )
    by_id = {case.id: case for case in cases}
    return [_note(each, by_id[each.candidate]) for each in answer.reflections]


def objection(reflections: Reflections, cases: Sequence[Case]) -> str:
    """What is wrong with reflections that have the right form; empty if nothing."""
    known = {case.id: case for case in cases}
    given = [each.candidate for each in reflections.reflections]
    if sorted(given) != sorted(known):
        return f"give one reflection for each of {', '.join(known)}, and no others"
    for each in reflections.reflections:
        case = known[each.candidate]
        if each.finding is not Finding.CONFIRMED:
            continue
        if not case.judged.outcome.right:
            return f"{case.id} is not right, so its hypothesis is not confirmed"
        if case.moved is False:
            return f"{case.id}: the metric did not move as expected, so that is not confirmed"
    return ""


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
