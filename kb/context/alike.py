"""Kernels for what no family of operators names: by their references, and by a problem's words."""

from collections import defaultdict
from dataclasses import dataclass

from kb.context.assuming import Assumptions
from kb.context.choosing import rank_kernels, slower_kernels
from kb.context.materials import Candidate
from kb.corpus.entries import Kernel
from kb.corpus.operators import kinds_of, lineage, operators_asked
from kb.index.reader import Generation
from kb.problems.analysis import Analysis
from kb.problems.matching import Match, Matcher, OperatorGraph
from kb.problems.steps import Step
from kb.problems.vocabulary import PRODUCTS
from kb.problems.wording import wording
from kb.search.engine import Searcher
from kb.search.models import Filters

START = "Slower than PyTorch: a start, not an example to follow."
"""What is said of a kernel that is shown for want of a faster one."""
_NAMED = "Chosen by the problem's names and comments."
# Operators that multiply matrices.
_PRODUCTS = frozenset({"attention", "convolution", "matmul"})
# Of the search's results so many are looked at.
_DEPTH = 60
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
    alike = defaultdict[OperatorGraph, list[str]](list)  # a plain kernel and what improves on it
    for slug in kernels:
        reference = generation.kernels[slug].reference
        if reference is not None:
            alike[reference].append(slug)
    found: dict[str, tuple[float, Match]] = {}
    for reference, slugs in alike.items():
        match = matcher.match(reference)
        share = _share(analysis, match) if match is not None else 0.0
        if match is not None and share >= _MIN_SHARE:
            found |= dict.fromkeys(slugs, (share, match))
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
        heaviest is None
        or heaviest.family is None
        or max(step.seconds for step in steps) >= heaviest.seconds
        or found[best][0] >= analysis.share,
    )


def kernels_named(
    text: str, analysis: Analysis, searcher: Searcher, kernels: dict[str, Kernel], gpu: str | None
) -> list[Candidate]:
    """Return the kernels of the operator that a problem's names and comments speak of, the best
    first; nothing unless what they name is also what they find first.

    Parameters
    ----------
    kernels
        Those to choose from.
    """
    said = wording(text)
    ranking = searcher.rank(said, _DEPTH, Filters(kinds=["kernel"])) if said else None
    if ranking is None or ranking.abstained:
        return []
    entries = searcher.generation.columns["entries"]
    slugs = [name.removeprefix("kernel:") for hit in ranking.hits for name in entries.of(hit.row)]
    op = next((kernels[slug].op for slug in slugs if slug in kernels), None)
    if op is None or not any(op in kinds_of(asked) for asked in operators_asked(said)):
        return []
    multiplies = analysis.loop is not None or any(s.kind in PRODUCTS for s in analysis.steps)
    if _PRODUCTS & set(lineage(op)) and not multiplies:
        return []  # it would have been seen
    ranked = rank_kernels(kernels, [op], dict.fromkeys(slugs), gpu)
    return [
        Candidate(slug, assumed=Assumptions(gpu=gpu is not None), note=_NAMED)
        for slug in (*ranked, *slower_kernels(kernels, [op], gpu))
    ]


def _steps(analysis: Analysis, match: Match) -> list[Step]:
    return [s for s in analysis.steps if any(id(op) in match.operators for op in s.operators)]


def _share(analysis: Analysis, match: Match) -> float:
    """Of the estimated time of all steps, what the matched operators take."""
    seconds = sum(
        step.seconds * sum(id(op) in match.operators for op in step.operators) / len(step.operators)
        for step in analysis.steps
    )
    return seconds / (sum(step.seconds for step in analysis.steps) or 1.0)
