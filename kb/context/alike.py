"""Kernels whose reference lies in a problem, for what no family of operators names."""

from dataclasses import dataclass

from kb.context.assuming import Assumptions
from kb.context.choosing import rank_kernels, slower_kernels
from kb.context.materials import Candidate
from kb.corpus.entries import Kernel
from kb.index.reader import Generation
from kb.problems.analysis import Analysis
from kb.problems.matching import Match, Matcher
from kb.problems.steps import Step

START = "Slower than PyTorch: a start, not an example to follow."
"""What is said of a kernel that is shown for want of a faster one."""
# Operators that take less of the estimated time than this need no kernel of their own, and lie in
# large modules by chance.
_MIN_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Alike:
    """Kernels that do together what several operators of a problem do."""

    op: str
    candidates: list[Candidate]
    """The best first."""
    fact: str
    """What they have in common with the problem, in one line."""
    techniques: tuple[str, ...]
    """Of the best kernel."""
    chief: bool
    """Whether their operators are those to build the kernel around."""


def kernels_alike(
    analysis: Analysis, generation: Generation, kernels: dict[str, Kernel], gpu: str | None
) -> Alike | None:
    """Return the kernels whose reference shares most with a problem; None where none does.

    Parameters
    ----------
    kernels
        Those to choose from.
    """
    matcher = Matcher(analysis.problem.operators, generation.rarities)
    found: dict[str, tuple[float, Match]] = {}
    for slug in kernels:
        reference = generation.kernels[slug].reference
        match = matcher.match(reference) if reference is not None else None
        if match is not None:
            share = _share(analysis, match)
            if share >= _MIN_SHARE:
                found[slug] = share, match
    if not found:
        return None
    best = max(found, key=lambda slug: (found[slug][0], found[slug][1].score, slug))
    op, match = kernels[best].op, found[best][1]
    ranked = rank_kernels(kernels, [op], (), gpu)
    slower = slower_kernels(kernels, [op], gpu)
    candidates = [
        Candidate(
            slug, assumed=Assumptions(gpu=gpu is not None), note=START if slug in slower else ""
        )
        for slug in (*ranked, *slower)
        if slug in found
    ]
    steps = _steps(analysis, match)
    names = ", ".join(dict.fromkeys(step.name for step in steps))
    heaviest = analysis.heaviest
    return Alike(
        op,
        candidates,
        f"{match.found} of the {match.size} operators of the reference of {candidates[0].slug} "
        f"({op}) are in this module: {names}. One kernel does them.",
        kernels[candidates[0].slug].techniques,
        heaviest is None
        or heaviest.family is None
        or max(step.seconds for step in steps) >= heaviest.seconds
        or found[best][0] >= analysis.share,
    )


def _steps(analysis: Analysis, match: Match) -> list[Step]:
    return [s for s in analysis.steps if any(id(op) in match.operators for op in s.operators)]


def _share(analysis: Analysis, match: Match) -> float:
    """Of the estimated time of all steps, what the matched operators take."""
    seconds = sum(
        step.seconds * sum(id(op) in match.operators for op in step.operators) / len(step.operators)
        for step in analysis.steps
    )
    return seconds / (sum(step.seconds for step in analysis.steps) or 1.0)
