"""What the roles are told of a search: the same facts in the same words for all of them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from agent.diagnose.result import Evidence
from agent.optimize.candidate import Judged, ProblemInfo, SearchState
from kb.vocabulary import find_metric, taxonomy

# Lines of what was tried: enough to see what is used up, little beside a kernel's text.
_TRIED = 24
_NOTES = 24
# Metrics of the profile beyond those that the diagnosis cites.
_PROFILE = 40
Suffix = Literal[".py", ".cu"]
OTHER = "other"
SOURCE = "source"
"""Id by which a plan cites the kernel's own text."""


@dataclass(frozen=True, slots=True)
class Line:
    """One measured value that a plan can cite."""

    id: str
    name: str
    label: str
    value: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class KernelText:
    """A kernel with a line about it."""

    id: str
    head: str
    source: str
    suffix: Suffix


@dataclass(frozen=True, slots=True)
class Brief:
    """Facts for a prompt."""

    problem: ProblemInfo
    dtype: str | None = None
    tf32: bool = False
    gpu: str | None = None
    architecture: str | None = None
    interpret: bool = False
    round: int = 0
    leader: str = ""
    kernels: tuple[KernelText, ...] = ()
    baselines: tuple[str, ...] = ()
    evidence: tuple[Line, ...] = ()
    headline: str = ""
    findings: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    knowledge: str = ""
    chunks: tuple[str, ...] = ()
    """Ids of what is in `knowledge`."""
    techniques: tuple[str, ...] = ()
    """Slugs of what is in `knowledge`."""
    retired: tuple[str, ...] = ()
    profiles: dict[str, dict[str, float]] = field(default_factory=dict)
    """Kernel id → its profile."""

    @property
    def parents(self) -> tuple[str, ...]:
        """Ids of the kernels that may be changed."""
        return tuple(each.id for each in self.kernels)

    @property
    def citable(self) -> tuple[str, ...]:
        """What a plan may cite, without the ids that searches give."""
        return tuple(
            dict.fromkeys((*(each.id for each in self.evidence), *self.techniques, *self.chunks))
        )

    def kernel(self, wanted: str) -> KernelText:
        """The kernel of this id."""
        return next(each for each in self.kernels if each.id == wanted)

    @classmethod
    def of(cls, state: SearchState) -> "Brief":
        """What a state tells."""
        beam = state.beam if state.leader in state.beam else (state.leader, *state.beam)
        shown = {each.id for each in beam}
        diagnosis = state.diagnosis
        return cls(
            problem=state.problem,
            dtype=state.dtype,
            tf32=state.tf32,
            gpu=state.gpu,
            architecture=state.architecture,
            interpret=state.interpret,
            round=state.round,
            leader=state.leader.id,
            kernels=tuple(kernel_text(each) for each in beam),
            baselines=tuple(_baselines(state)),
            evidence=tuple(_evidence(state)),
            headline=diagnosis.headline if diagnosis is not None else "",
            findings=tuple(each.cause for each in diagnosis.findings) if diagnosis else (),
            tried=tuple(_tried(each) for each in state.history if each.id not in shown)[-_TRIED:],
            notes=state.notes[-_NOTES:],
            knowledge=state.context.text,
            chunks=state.context.chunks,
            techniques=state.context.techniques,
            retired=tuple(sorted(state.retired)),
            profiles={each.id: each.outcome.profile or {} for each in beam},
        )


@cache
def technique_titles() -> dict[str, str]:
    """Slug → title of all techniques, and `other`."""
    named = {slug: title for group in taxonomy().values() for slug, title in group.items()}
    return dict(sorted(named.items())) | {OTHER: "Anything else"}


def kernel_text(judged: Judged) -> KernelText:
    """A kernel and what is known of it in one line."""
    candidate = judged.candidate
    return KernelText(candidate.id, head_of(judged), candidate.source, candidate.suffix)


def head_of(judged: Judged) -> str:
    """Family, origin and time."""
    outcome = judged.outcome
    parts = [f"{judged.family} (by {judged.candidate.proposer})"]
    if outcome.median_ms is not None:
        parts.append(f"{outcome.median_ms:.4g} ms")
    if outcome.floor_fraction is not None:
        parts.append(f"{outcome.floor_fraction:.0%} of the floor")
    start = outcome.over("start")
    if start is not None:
        parts.append(f"{start.ratio:.3g}x the start" if start.significant else "no faster")
    return ", ".join(parts)


def outcome_words(judged: Judged) -> str:
    """How far a candidate came, in one line."""
    outcome = judged.outcome
    words = f"{outcome.stage}"
    if outcome.verdict is not None:
        words += f", {outcome.verdict}"
    if outcome.median_ms is not None:
        words += f", {outcome.median_ms:.4g} ms"
        if outcome.p10_ms is not None and outcome.p90_ms is not None:
            words += f" ({outcome.p10_ms:.4g} to {outcome.p90_ms:.4g})"
    for each in outcome.ratios:
        told = f"{each.ratio:.3g} times as fast as {each.over} ({each.low:.3g} to {each.high:.3g})"
        words += f", {told}" + ("" if each.significant else ", within the noise")
    return words


def number_words(name: str, value: float, unit: str | None = None) -> str:
    """A metric's value in its base unit, the one in which a plan has to say what it expects."""
    metric = find_metric(name)
    if unit is None:
        unit = metric.unit if metric is not None else ""
    return f"{value:.6g} {unit}".strip()


def _tried(judged: Judged) -> str:
    reasons = judged.outcome.reasons
    claim = judged.candidate.hypothesis.claim if judged.candidate.hypothesis else ""
    why = f"; {reasons[0]}" if reasons and not judged.outcome.right else ""
    line = f"{judged.id} {judged.family}: {outcome_words(judged)}{why}"
    return " ".join(f"{line} [{claim}]".split())[:400] if claim else line[:400]


def _baselines(state: SearchState) -> Iterable[str]:
    for name, each in state.baselines.items():
        part = f", {each.floor_fraction:.0%} of the floor" if each.floor_fraction else ""
        yield f"{name}: {each.median_ms:.4g} ms{part}"
    if state.floor is not None:
        bound = state.floor.bound
        yield f"floor ({bound}-bound, no kernel can be faster): {state.floor.ms:.4g} ms"


def _evidence(state: SearchState) -> Iterable[Line]:
    known: dict[str, Evidence] = {}
    if state.diagnosis is not None:
        cited = [each for finding in state.diagnosis.findings for each in finding.evidence]
        for each in (*state.diagnosis.why, *cited):
            known.setdefault(each.metric, each)
    rest = 0
    for name, value in sorted((state.leader.outcome.profile or {}).items()):
        metric = find_metric(name)
        if name in known or metric is None or rest == _PROFILE:
            continue
        rest += 1
        known[name] = Evidence(
            metric=name, label=metric.label, value=value, unit=metric.unit, meaning=""
        )
    for number, each in enumerate(known.values(), start=1):
        yield Line(
            f"E{number}",
            each.metric,
            each.label,
            number_words(each.metric, each.value, each.unit),
            each.meaning,
        )
