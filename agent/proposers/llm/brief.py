"""The state of a search as the roles read it: the same facts in the same words for each."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from agent.diagnose.result import Evidence
from agent.optimize.candidate import Judged, SearchState
from agent.proposers.llm.conditions import conditions, dtype_of, facts
from agent.proposers.llm.prompting import shorten
from agent.proposers.llm.shown import ContextParts
from kb.vocabulary import find_metric

# Lines of what was tried: enough to see what is used up, little beside a kernel's text.
_TRIED = 24
_NOTES = 24
# Characters of one line about a candidate that was tried.
_LINE = 400
# Metrics of the profile beyond those that the diagnosis cites.
_PROFILE = 40
COMBINED = "+"
"""Between the techniques of a kernel that combines two."""
Suffix = Literal[".py", ".cu"]
SOURCE = "source"
"""Id by which a plan cites the kernel's own text, or the problem's where there is no kernel."""


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
    eager: bool = False
    """It is the problem's own model, which the prompt has already: there is no kernel yet."""
    families: tuple[str, ...] = ()
    """Techniques that it was made with."""

    @property
    def base(self) -> str | None:
        """The file that edits may change."""
        return None if self.eager else self.source


@dataclass(frozen=True, slots=True)
class Brief:
    """Facts for a prompt: a state, and what it means in words."""

    state: SearchState
    conditions: tuple[str, ...]
    facts: tuple[str, ...]
    kernels: tuple[KernelText, ...]
    baselines: tuple[str, ...]
    evidence: tuple[Line, ...]
    headline: str
    findings: tuple[str, ...]
    tried: tuple[str, ...]
    notes: tuple[str, ...]
    profiles: dict[str, dict[str, float]]
    """Kernel id → its profile."""
    parts: ContextParts
    """The context in parts."""

    @property
    def dtype(self) -> str | None:
        """PyTorch's name of the run's dtype, None where the file says it."""
        return dtype_of(self.state)

    @property
    def parents(self) -> tuple[str, ...]:
        """Ids of the kernels that may be changed."""
        return tuple(kernel.id for kernel in self.kernels)

    @property
    def citable(self) -> tuple[str, ...]:
        """Ids that a plan may cite: those of what it can read here."""
        measured = (line.id for line in self.evidence)
        return tuple(dict.fromkeys((*measured, *self.parts.slugs, SOURCE)))

    @property
    def for_planner(self) -> str:
        """The part of the knowledge base that a planner reads."""
        return self.parts.for_planner(self.state.context.reasons, measured=bool(self.evidence))

    @property
    def accepted_evidence(self) -> frozenset[str]:
        """Ids allowed as a plan's evidence, without those that searches return."""
        context = self.state.context
        return frozenset((*self.citable, *context.techniques, *context.chunks))

    def evidence_on(self, kernel: str) -> tuple[Line, ...]:
        """What was measured of a kernel: of the leader what plans cite, of others the profile."""
        if kernel == self.state.leader.id:
            return self.evidence
        return tuple(_profile_lines(self.profiles.get(kernel, {}), "P"))

    def kernel(self, kernel_id: str) -> KernelText:
        """The kernel of this id."""
        return next(text for text in self.kernels if text.id == kernel_id)

    @classmethod
    def of(cls, state: SearchState) -> "Brief":
        """The brief of a state."""
        beam = state.beam if state.leader in state.beam else (state.leader, *state.beam)
        ids = {judged.id for judged in beam}
        diagnosis = state.diagnosis
        profiled = bool(state.leader.outcome.profile)
        lines = facts(state)
        return cls(
            state=state,
            conditions=conditions(state),
            facts=lines,
            kernels=tuple(kernel_text(judged, state.problem.source) for judged in beam),
            baselines=tuple(_baselines(state)),
            evidence=tuple(_evidence(state)),
            # Without measurements it says that there is no diagnosis.
            headline=diagnosis.headline if diagnosis and (diagnosis.why or profiled) else "",
            findings=tuple(finding.cause for finding in diagnosis.findings) if diagnosis else (),
            tried=tuple(_line_of(judged) for judged in state.history if judged.id not in ids)[
                -_TRIED:
            ],
            notes=state.notes[-_NOTES:],
            profiles={judged.id: judged.outcome.profile or {} for judged in beam},
            parts=ContextParts.of(state.context, lines),
        )


def kernel_text(judged: Judged, problem: str) -> KernelText:
    """A kernel and what is known of it in one line."""
    candidate = judged.candidate
    eager = candidate.proposer == "start" and problem.strip() in candidate.source
    head = head_of(judged)
    if candidate.proposer == "start":
        what = "eager PyTorch, the problem's `Model`" if eager else "the kernel that was given"
        head = head.replace(f"{judged.family} (by start)", what)
    families = tuple(judged.family.split(COMBINED))
    return KernelText(candidate.id, head, candidate.source, candidate.suffix, eager, families)


def head_of(judged: Judged) -> str:
    """Family, origin and time."""
    outcome = judged.outcome
    parts = [f"{judged.family} (by {judged.candidate.proposer})"]
    if outcome.median_ms is not None:
        parts.append(f"{outcome.median_ms:.4g} ms")
    elif outcome.verdict is None:
        parts.append("not measured yet")
    if outcome.floor_fraction is not None:
        parts.append(f"{outcome.floor_fraction:.0%} of the floor")
    start = outcome.over("start")
    if start is not None:
        parts.append(f"{start.ratio:.3g}x the start" if start.significant else "no faster")
    return ", ".join(parts)


def outcome_words(judged: Judged) -> str:
    """The outcome of a candidate, in one line."""
    outcome = judged.outcome
    words = f"{outcome.stage}"
    if outcome.verdict is not None:
        words += f", {outcome.verdict}"
    if outcome.error_share is not None:
        words += f", error {outcome.error_share:.2g} of what is allowed"
    if outcome.language == "python":
        words += ", ran without a kernel of its own"
    if outcome.median_ms is not None:
        words += f", {outcome.median_ms:.4g} ms"
        if outcome.p10_ms is not None and outcome.p90_ms is not None:
            words += f" ({outcome.p10_ms:.4g} to {outcome.p90_ms:.4g})"
    for ratio in outcome.ratios:
        comparison = (
            f"{ratio.ratio:.3g} times as fast as {ratio.over} ({ratio.low:.3g} to {ratio.high:.3g})"
        )
        words += f", {comparison}" + ("" if ratio.significant else ", within the noise")
    return words


def number_words(name: str, value: float, unit: str | None = None) -> str:
    """A metric's value in its base unit, the one in which a plan has to say what it expects."""
    metric = find_metric(name)
    if unit is None:
        unit = metric.unit if metric is not None else ""
    return f"{value:.6g} {unit}".strip()


def _line_of(judged: Judged) -> str:
    reasons = judged.outcome.reasons
    claim = judged.candidate.hypothesis.claim if judged.candidate.hypothesis else ""
    why = f"; {reasons[0]}" if reasons and not judged.outcome.right else ""
    by = "" if judged.candidate.proposer == "llm" else f" by {judged.candidate.proposer}"
    line = f"{judged.id} {judged.family}{by}: {outcome_words(judged)}{why}"
    return shorten(f"{line} [{claim}]" if claim else line, _LINE)


def _baselines(state: SearchState) -> Iterable[str]:
    for name, baseline in state.baselines.items():
        part = f", {baseline.floor_fraction:.0%} of the floor" if baseline.floor_fraction else ""
        yield f"{name}: {baseline.median_ms:.4g} ms{part}"
    if state.floor is not None:
        best, least = state.leader.outcome.median_ms, state.floor.ms
        if best is not None and best < least:
            why = "the leader is below it, so a part of PyTorch's work is needless"
        else:
            why = "no kernel can be faster"
        yield f"floor at measured rates ({state.floor.bound}-bound): {least:.4g} ms; {why}"


def _evidence(state: SearchState) -> Iterable[Line]:
    by_metric: dict[str, Evidence] = {}
    if state.diagnosis is not None:
        items = [evidence for finding in state.diagnosis.findings for evidence in finding.evidence]
        for evidence in (*state.diagnosis.why, *items):
            by_metric.setdefault(evidence.metric, evidence)
    for number, evidence in enumerate(by_metric.values(), start=1):
        yield Line(
            f"E{number}",
            evidence.metric,
            evidence.label,
            number_words(evidence.metric, evidence.value, evidence.unit),
            evidence.meaning,
        )
    profile = state.leader.outcome.profile or {}
    rest = {name: value for name, value in profile.items() if name not in by_metric}
    yield from _profile_lines(rest, "E", len(by_metric))


def _profile_lines(profile: dict[str, float], letter: str, after: int = 0) -> Iterable[Line]:
    """Metrics that are known by name, numbered on."""
    rows = [(name, value, find_metric(name)) for name, value in sorted(profile.items())]
    numbered = [(name, value, metric) for name, value, metric in rows if metric is not None]
    for number, (name, value, metric) in enumerate(numbered[:_PROFILE], start=after + 1):
        yield Line(f"{letter}{number}", name, metric.label, number_words(name, value, metric.unit))
