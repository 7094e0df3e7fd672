"""Two distinct findings: the gravest of all that the rules say, on different subjects."""

from collections.abc import Mapping, Sequence

from agent.diagnose import (
    rules_caches,
    rules_compute,
    rules_grid,
    rules_latency,
    rules_memory,
    rules_pipes,
    rules_spills,
    rules_utilization,
)
from agent.diagnose.result import Finding
from agent.diagnose.rules import Case, Draft, Rule, clamp
from agent.diagnose.units import active_share, ceiling, ceiling_of_active

RULES: tuple[Rule, ...] = (
    *rules_memory.RULES,
    *rules_spills.RULES,
    *rules_caches.RULES,
    *rules_compute.RULES,
    *rules_pipes.RULES,
    *rules_latency.RULES,
    *rules_grid.RULES,
    *rules_utilization.RULES,
)
BY_NAME = {rule.name: rule for rule in RULES}
FINDINGS = 2
# What agrees with the dominant bottleneck explains the time better than an equal cause beside it.
_DOMINANT = 0.25
# More so what says why a unit is full, or SMs have no work.
_SETTLED = 0.25
# Half of the warp slots are empty for one cause: the severity that rules of occupancy give it.
_EXPLAINS = 0.3
# Less than any difference between two severities.
_BEFORE = 0.001


def select(case: Case) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """The findings, and what to say where there are fewer than two.

    Two findings never share a subject, and never rest on the same metrics alone.
    """
    fired = [
        Finding(rule=rule.name, **draft._asdict())
        for rule in RULES
        if (draft := check(rule, case)) is not None
    ]
    decision = case.decision

    def weight(finding: Finding) -> float:
        if finding.category != decision.bottleneck:
            return finding.severity
        cited = {evidence.metric for evidence in finding.evidence}
        settles = decision.settled and decision.why[0].metric in cited
        return finding.severity + _DOMINANT + (_SETTLED if settles else 0.0)

    weights = {finding.rule: weight(finding) for finding in fired}
    chosen: list[Finding] = []
    causes = [_with_symptoms(finding, fired, weights) for finding in fired]
    # Equal ones stay in the order of the rules.
    for _, finding in sorted(causes, key=lambda pair: pair[0], reverse=True):
        if len(chosen) < FINDINGS and all(_are_distinct(finding, other) for other in chosen):
            chosen.append(finding)
    return tuple(chosen), _explain_shortfall(case, len(chosen))


def _with_symptoms(
    finding: Finding, fired: Sequence[Finding], weights: Mapping[str, float]
) -> tuple[float, Finding]:
    """The finding with its weight: as grave as what follows from it, and before that."""
    weight, severity = weights[finding.rule], finding.severity
    if severity >= _EXPLAINS:
        for other in fired:
            if other.rule in BY_NAME[finding.rule].explains:
                weight = max(weight, weights[other.rule] + _BEFORE)
                severity = max(severity, other.severity)
    return weight, finding.model_copy(update={"severity": severity})


def check(rule: Rule, case: Case) -> Draft | None:
    """What a rule drafts, unless a unit at its ceiling refutes it."""
    if rule.refuted_by is None:
        return rule.check(case)
    active = rule.refuted_by == "active ceiling"
    saturated = ceiling_of_active(case.facts) if active else ceiling(case.facts)
    if case.position.at_memory_roof or saturated is not None:
        return None
    draft = rule.check(case)
    if draft is None or not active:
        return draft
    # It costs only the time in which SMs have work.
    return draft._replace(severity=clamp(draft.severity * active_share(case.facts)))


def _are_distinct(one: Finding, other: Finding) -> bool:
    if BY_NAME[one.rule].subject == BY_NAME[other.rule].subject:
        return False
    own, others = ({evidence.metric for evidence in finding.evidence} for finding in (one, other))
    return not own <= others


def _explain_shortfall(case: Case, count: int) -> tuple[str, ...]:
    if count >= FINDINGS:
        return ()
    needed = dict.fromkeys(alias for rule in RULES for alias in rule.needs)
    missing = [alias for alias in needed if case.get(alias) is None]
    what = "no finding" if count == 0 else "only one finding"
    if not missing:
        return (f"{what}: the measured values show no further cause",)
    listed = ", ".join(missing[:6]) + (f" and {len(missing) - 6} more" if len(missing) > 6 else "")
    return (f"{what}: {len(missing)} metrics that rules need were not measured ({listed})",)
