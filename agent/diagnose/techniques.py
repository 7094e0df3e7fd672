"""From a finding to techniques: through the entries' metric gates, for this card and language."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from agent.diagnose.facts import Facts
from agent.diagnose.findings import BY_NAME
from agent.diagnose.result import Advice, Bottleneck, Finding
from agent.diagnose.rules_utilization import OCCUPANCY_LIMITS
from kb.architectures import any_runs_on, describe_targets
from kb.corpus.detection import Detector
from kb.corpus.entries import Kernel, Technique
from kb.corpus.loader import load_corpus, load_shipped_corpus
from kb.errors import KbError
from kb.search.gates import judge_gates

if TYPE_CHECKING:
    from kb.index.reader import Generation

# More than a few is a list to choose from, not an answer.
MAX_TECHNIQUES = 3
# A rule's own list says what answers the cause, the best first. Gates decide among them, and may
# bring in others that the measurements support.
_SUGGESTED = 0.5
_SUGGESTED_STEP = 0.05
_GATES = 0.4
_CATEGORY = 0.1
# A kernel that does it already gains little from reading about it.
_ALREADY_USED = 0.3
# Techniques below this speak against themselves.
_MIN_SCORE = 0.15
# The corpus's three bottlenecks, for the four of a diagnosis: arithmetic at a limit is a matter of
# which units do it, and that stands under utilization; a few lie under latency.
_CORPUS_BOTTLENECKS = {
    Bottleneck.MEMORY: {"memory"},
    Bottleneck.COMPUTE: {"utilization", "latency"},
    Bottleneck.LATENCY: {"latency"},
    Bottleneck.UNDERUTILIZED: {"utilization"},
}


@dataclass(frozen=True, slots=True)
class Catalog:
    """The techniques there are, with kernels that show them."""

    techniques: tuple[Technique, ...]
    kernels: dict[str, Kernel]

    def fitting(self, language: str | None, device: str | None) -> list[Technique]:
        """The techniques for a language and an architecture; None stands for any."""
        return [
            entry
            for entry in self.techniques
            if (language is None or language in entry.languages)
            and (device is None or any_runs_on(entry.architectures, device))
        ]

    def examples(self, entry: Technique, language: str | None, device: str | None) -> list[str]:
        """Slugs of kernels that show the entry and fit: its own order first."""
        showing = [slug for slug, kernel in self.kernels.items() if entry.slug in kernel.techniques]
        ordered = dict.fromkeys((*entry.examples, *sorted(showing)))
        return [
            slug
            for slug in ordered
            if slug in self.kernels
            and language in (None, self.kernels[slug].language)
            and (device is None or any_runs_on(self.kernels[slug].architectures, device))
        ]


@cache
def catalog_from_corpus(root: Path | None = None) -> Catalog:
    """The techniques of a corpus folder, read once; by default of the shipped one."""
    corpus = load_corpus(root) if root else load_shipped_corpus()
    return Catalog(
        _sorted_entries(file.entry for file in corpus.techniques),
        {file.entry.slug: file.entry for file in corpus.kernels},
    )


def catalog_from_index(folder: Path) -> Catalog:
    """The techniques of the current generation of an index.

    Raises
    ------
    IndexUnavailableError
        There is no index in `folder`.
    """
    from kb.index.reader import open_generation  # noqa: PLC0415 - loads numpy and the columns

    with closing(open_generation(folder)) as generation:
        return catalog_of(generation)


def catalog_or_corpus(folder: Path) -> Catalog:
    """The techniques of an index; those of the shipped corpus if it cannot be read or has none."""
    try:
        catalog = catalog_from_index(folder)
    except KbError:
        return catalog_from_corpus()
    return catalog if catalog.techniques else catalog_from_corpus()


def catalog_of(generation: "Generation") -> Catalog:
    """The techniques of an open index."""
    return Catalog(
        _sorted_entries(record.entry for record in generation.techniques.values()),
        {slug: record.entry for slug, record in generation.kernels.items()},
    )


def _sorted_entries(entries: Iterable[Technique]) -> tuple[Technique, ...]:
    return tuple(sorted(entries, key=lambda entry: entry.slug))


def advise(
    findings: Sequence[Finding], facts: Facts, catalog: Catalog, language: str | None
) -> tuple[Finding, ...]:
    """The findings with their techniques, best first.

    A technique stands under one finding, except where the other has no further one.
    """
    used = _already_used(facts, catalog.techniques, language)
    usable = catalog.fitting(language, facts.architecture)
    advised_slugs: set[str] = set()
    advised = []
    for finding in findings:
        weighed = [
            _weigh(entry, finding, facts, catalog, language=language, used=used) for entry in usable
        ]
        advice = [item for item in weighed if item is not None]
        advice.sort(key=lambda item: (-item.score, item.slug))
        new = [item for item in advice if item.slug not in advised_slugs]
        best = tuple((new or advice)[:MAX_TECHNIQUES])
        advised_slugs |= {item.slug for item in best}
        advised.append(finding.model_copy(update={"techniques": best}))
    return tuple(advised)


def _already_used(
    facts: Facts, entries: Iterable[Technique], language: str | None
) -> frozenset[str]:
    if facts.source is None:
        return frozenset()
    slugs = Detector(list(entries)).techniques(facts.source.text, language or facts.source.language)
    return frozenset(slugs)


def _decisive(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics without limits of occupancy that others share or undercut.

    Less of such a resource admits no further block, so no gate on it holds.
    """
    limits = {name: metrics[name] for name in OCCUPANCY_LIMITS if name in metrics}
    least = [name for name, value in limits.items() if value == min(limits.values())]
    slack = limits.keys() - (least if len(least) == 1 else ())
    return {name: value for name, value in metrics.items() if name not in slack}


def _weigh(
    entry: Technique,
    finding: Finding,
    facts: Facts,
    catalog: Catalog,
    *,
    language: str | None,
    used: frozenset[str],
) -> Advice | None:
    device = facts.architecture
    rule = BY_NAME[finding.rule]
    suggested = rule.techniques
    metrics = _decisive(facts.metrics)
    verdict = judge_gates(entry, metrics)
    cited = {evidence.metric for evidence in finding.evidence}
    on_evidence = any(
        gate.metric in cited and gate.holds(metrics[gate.metric])
        for gate in entry.when
        if gate.metric in metrics
    )
    at_home = bool(_CORPUS_BOTTLENECKS[finding.category] & set(entry.bottlenecks))
    if entry.slug not in suggested and not (rule.open and on_evidence and at_home):
        return None
    score = _GATES * verdict.support + (_CATEGORY if at_home else 0.0)
    reasons: list[str] = []
    if entry.slug in suggested:
        score += max(0.0, _SUGGESTED - _SUGGESTED_STEP * suggested.index(entry.slug))
        reasons.append(f"addresses the finding '{finding.rule}'")
    against = list(verdict.against_it)
    if verdict.failed:
        measured = verdict.failed + len(verdict.for_it)
        against.append(f"{verdict.failed} of its {measured} measured conditions do not hold")
    if entry.slug in used:
        score *= _ALREADY_USED
        against.insert(0, "the kernel already uses it")
    if score < _MIN_SCORE:
        return None
    if device is None and entry.architectures != ("sm_80",):
        reasons.append(f"needs {describe_targets(entry.architectures)}")
    return Advice(
        slug=entry.slug,
        title=entry.title,
        score=round(min(score, 1.0), 3),
        reasons=(*verdict.for_it, *reasons),
        against=tuple(against),
        examples=tuple(catalog.examples(entry, language, device)),
    )
