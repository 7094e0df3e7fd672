"""The techniques that a planner may choose from, cut to what the problem and the card allow."""

from functools import cache
from importlib.resources import files
from typing import Final

from pydantic import BaseModel, ConfigDict

from agent.diagnose.techniques import shelf_from_corpus
from kb.architectures import any_runs_on
from kb.corpus.entries import Technique
from kb.errors import KbError
from kb.problems.analysis import analyse
from kb.problems.reading import read_problem
from kb.vocabulary import load_yaml, taxonomy

OTHER: Final = "other"
_FP8: Final = "float8"


class _Table(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    needs: dict[str, frozenset[str]]


@cache
def titles() -> dict[str, str]:
    """Slug → title of all techniques, and `other`."""
    named = {slug: title for group in taxonomy().values() for slug, title in group.items()}
    return dict(sorted(named.items())) | {OTHER: "Anything else"}


def offered(
    problem: str, architecture: str | None, retired: frozenset[str], *, when: bool
) -> list[tuple[str, str]]:
    """(slug, line) of the techniques that fit; `when`: the line says when each helps."""
    kinds = _kinds(problem)
    entries = _entries()
    needs = _table().needs
    return [
        (slug, _line(title, entries.get(slug) if when else None))
        for slug, title in titles().items()
        if slug not in retired
        and (kinds is None or slug not in needs or needs[slug] & kinds)
        and _runs(entries.get(slug), architecture)
    ]


def _line(title: str, entry: Technique | None) -> str:
    if entry is None or not entry.when:
        return title
    return f"{title}. When: {entry.when[0].because}"


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
    low = any(_FP8 in each.dtype for each in analysis.problem.inputs)
    if not kinds or "unknown" in kinds or "library" in kinds or low:
        return None
    return frozenset(kinds)


@cache
def _entries() -> dict[str, Technique]:
    return {each.slug: each for each in shelf_from_corpus().techniques}


@cache
def _table() -> _Table:
    text = (files("agent.proposers.llm") / "techniques.yaml").read_text(encoding="utf-8")
    return _Table.model_validate(load_yaml(text))
