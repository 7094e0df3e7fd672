"""One diagnosis: facts together, position, bottleneck, two findings, techniques, a headline."""

from collections.abc import Sequence

from agent.diagnose.bottleneck import Decision, decide
from agent.diagnose.facts import Facts
from agent.diagnose.findings import select
from agent.diagnose.inputs import ProfileData
from agent.diagnose.result import Bottleneck, Diagnosis, Finding, Roofline
from agent.diagnose.roofline import NO_FLOOR, WASTE, at_floor, excess, roofline
from agent.diagnose.rules import Case
from agent.diagnose.rules_memory import WASTEFUL
from agent.diagnose.techniques import Catalog, advise
from judge.evaluate.result import Evaluation
from kb.gpus import GpuSpec
from kb.pasted.source import read_source

# As near to its floor as this nothing is left.
_AT_FLOOR = 0.95


def gather_facts(
    measured: ProfileData,
    spec: GpuSpec | None = None,
    evaluation: Evaluation | None = None,
    source: str | None = None,
) -> Facts:
    """Put together what is known about one kernel."""
    timings = evaluation.timings if evaluation else ()
    times = [timing.median_ms for timing in timings if timing.contender == "candidate"]
    words = measured.words + (f" {evaluation.problem} {evaluation.kernel}" if evaluation else "")
    return Facts(
        metrics=measured.metrics,
        spec=spec,
        static=measured.static,
        source=read_source(source) if source else None,
        floor=evaluation.floor if evaluation else None,
        ceilings=evaluation.ceilings if evaluation else None,
        median_ms=times[0] if times else None,
        dtype=evaluation.dtype if evaluation else None,
        tf32=evaluation is not None and evaluation.precision == "tf32",
        kernel=measured.kernel,
        share=measured.share,
        words=words,
    )


def diagnose(
    facts: Facts,
    catalog: Catalog,
    *,
    language: str | None = None,
    notes: tuple[str, ...] = (),
    ignored: tuple[str, ...] = (),
) -> Diagnosis:
    """Diagnose by rules: the same facts and entries always give the same answer.

    Facts that are missing are not judged. Techniques are those for the `language`, `triton` or
    `cuda`; by default that of the kernel's source. The input's `notes` and `ignored` are passed on.
    """
    position = roofline(facts)
    decision = decide(facts, position)
    case = Case(facts, position, decision)
    findings, shortfall = select(case)
    language = language or (facts.source.language if facts.source is not None else None)
    all_notes = (*notes, *_missing_inputs(facts, position), *shortfall)
    return Diagnosis(
        headline=headline(facts, position, decision, findings),
        kernel=facts.kernel,
        gpu=facts.spec.name if facts.spec is not None else None,
        bottleneck=decision.bottleneck,
        why=decision.why,
        roofline=position,
        findings=advise(findings, facts, catalog, language),
        notes=all_notes,
        ignored=ignored,
    )


def headline(
    facts: Facts, position: Roofline, decision: Decision, findings: Sequence[Finding]
) -> str:
    """The answer in one sentence."""
    name = facts.kernel or "The kernel"
    if decision.bottleneck is None:
        return _no_bottleneck(name, facts, position, findings)
    if position.at_memory_roof:
        ratio = excess(position)
        if ratio is not None and ratio >= WASTE:
            return (
                f"{name} is at the memory roof but moves {ratio:.1f} times the bytes that are "
                "needed: move fewer bytes."
            )
        wasteful = next((finding for finding in findings if finding.rule in WASTEFUL), None)
        if wasteful is not None:
            return f"{name} is at the memory roof and may move bytes needlessly: {wasteful.cause}"
        if any(finding.rule == "possible-rereads" for finding in findings):
            return f"{name} is at the memory roof: only moving fewer bytes is faster."
        attained = ""
        if at_floor(facts):
            attained = f", at {position.floor_fraction:.0%} of the floor"
        elif position.memory_fraction is not None:
            attained = f", {position.memory_fraction:.0%} of {_roof_words(position)}"
        return f"{name} is at the memory roof{attained}: little is left to gain."
    underutilized = decision.bottleneck is Bottleneck.UNDERUTILIZED
    words = "underutilizing the GPU" if underutilized else f"bound by {decision.bottleneck}"
    if decision.unit is not None:
        words += f", at the ceiling of {decision.unit.words}"
    reasons = "; ".join(
        f"{evidence.label} {evidence.value:.4g}{' %' if evidence.unit == '%' else ''}"
        for evidence in decision.why[:2]
    )
    return f"{name} is {words} ({reasons})." if reasons else f"{name} is {words}."


def _no_bottleneck(name: str, facts: Facts, position: Roofline, findings: Sequence[Finding]) -> str:
    """What can be said where the bottleneck is not known."""
    if findings:
        reason = "too little was measured to name the bottleneck, but there are findings"
        return f"{name}: {reason}: {findings[0].cause}"
    share = position.floor_fraction
    if facts.floor is None or facts.metrics or not share or share > NO_FLOOR:
        return f"{name}: no diagnosis, because none of the given values shows what limits it."
    sets = "the traffic to memory" if facts.floor.bound == "memory" else "the arithmetic"
    floor = f"its floor of {facts.floor.ms:.4g} ms, which {sets} sets"
    if share >= _AT_FLOOR:
        return f"{name} is at {floor}."
    return f"{name} takes {1 / share:.3g} times {floor}; only a profile tells what else limits it."


def _roof_words(position: Roofline) -> str:
    roof = position.memory_roof
    if roof is None:
        return "DRAM's peak"
    if roof.source == "measured":
        return "the bandwidth measured on the GPU"
    return "the data sheet's DRAM bandwidth"


def _missing_inputs(facts: Facts, position: Roofline) -> tuple[str, ...]:
    gaps = []
    if facts.spec is None and facts.ceilings is None:
        gaps.append("no GPU is named, so there are no roofs: name one with --gpu")
    if facts.metrics and position.flops is None:
        gaps.append(
            "operations are unknown, so there is no arithmetic intensity: give --evaluation"
        )
    if not facts.metrics:
        gaps.append("no metric was measured: only the code was examined")
    return tuple(gaps)
