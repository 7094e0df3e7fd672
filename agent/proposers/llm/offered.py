"""The techniques that a planner may choose from, cut to what the problem and the card allow."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from agent.diagnose.techniques import catalog_from_corpus
from kb.architectures import any_runs_on
from kb.corpus.entries import Technique
from kb.errors import KbError
from kb.problems.analysis import analyse
from kb.problems.reading import read_problem
from kb.search.gates import judge_gates
from kb.vocabulary import load_yaml, technique_titles

OTHER: Final = "other"
_FP8: Final = "float8"


@cache
def titles() -> dict[str, str]:
    """Slug → title of all techniques, and `other`."""
    return dict(sorted(technique_titles().items())) | {OTHER: "Anything else"}


def eligible(
    problem: str,
    architecture: str | None,
    retired: frozenset[str],
    profile: Mapping[str, float],
) -> list[tuple[str, str]]:
    """(slug, line) of the techniques that fit; the line says what of a `profile` speaks for one."""
    kinds = _kinds(problem)
    entries = _entries()
    needs = _needs()
    return [
        (slug, _line(title, entries.get(slug), profile))
        for slug, title in titles().items()
        if slug not in retired
        and (kinds is None or slug not in needs or not kinds.isdisjoint(needs[slug]))
        and _runs(entries.get(slug), architecture)
    ]


def _line(title: str, entry: Technique | None, profile: Mapping[str, float]) -> str:
    verdict = judge_gates(entry, profile) if entry is not None and profile else None
    if verdict is None or verdict.support <= 0 or not verdict.for_it:
        return title
    return f"{title}. Here: {verdict.for_it[0].rstrip('.')}."


def _runs(entry: Technique | None, architecture: str | None) -> bool:
    if entry is None or architecture is None:
        return True
    return any_runs_on(entry.architectures, architecture)


def _kinds(problem: str) -> frozenset[str] | None:
    """Kinds of the problem's operators; None where they cannot all be told."""
    try:
        analysis = analyse(read_problem(problem))
    except KbError:
        return None
    kinds = {step.kind for step in analysis.steps}
    low = any(_FP8 in input_.dtype for input_ in analysis.problem.inputs)
    if not kinds or "unknown" in kinds or "library" in kinds or low:
        return None
    return frozenset(kinds)


@cache
def _entries() -> dict[str, Technique]:
    return {technique.slug: technique for technique in catalog_from_corpus().techniques}


@cache
def _needs() -> dict[str, list[str]]:
    """Slug → kinds of operators, of which one has to occur."""
    text = (files("agent.proposers.llm") / "techniques.yaml").read_text(encoding="utf-8")
    needs: dict[str, list[str]] = load_yaml(text)["needs"]
    return needs
