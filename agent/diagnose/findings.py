"""Two distinct findings: the gravest of all that the rules say, on different subjects."""

from agent.diagnose import rules_compute, rules_latency, rules_memory, rules_utilization
from agent.diagnose.result import Finding
from agent.diagnose.rules import Case, Rule

RULES: tuple[Rule, ...] = (
    *rules_memory.RULES,
    *rules_compute.RULES,
    *rules_latency.RULES,
    *rules_utilization.RULES,
)
BY_NAME = {rule.name: rule for rule in RULES}
FINDINGS = 2
# What agrees with the dominant bottleneck explains the time better than an equal cause beside it.
_DOMINANT = 0.25


def select(case: Case) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """The findings, and what to say where there are fewer than two.

    Two findings never share a subject, and never rest on the same metrics alone.
    """
    fired = [
        Finding(rule=rule.name, **draft._asdict())
        for rule in RULES
        if (draft := rule.check(case)) is not None
    ]

    def weight(finding: Finding) -> float:
        agrees = finding.category == case.decision.bottleneck
        return finding.severity + (_DOMINANT if agrees else 0.0)

    chosen: list[Finding] = []
    # Equal ones stay in the order of the rules.
    for finding in sorted(fired, key=weight, reverse=True):
        if len(chosen) < FINDINGS and all(_distinct(finding, each) for each in chosen):
            chosen.append(finding)
    return tuple(chosen), _shortfall(case, len(chosen))


def _distinct(one: Finding, other: Finding) -> bool:
    if BY_NAME[one.rule].subject == BY_NAME[other.rule].subject:
        return False
    mine, theirs = ({each.metric for each in finding.evidence} for finding in (one, other))
    return not mine <= theirs


def _shortfall(case: Case, found: int) -> tuple[str, ...]:
    if found >= FINDINGS:
        return ()
    needed = dict.fromkeys(alias for rule in RULES for alias in rule.needs)
    missing = [alias for alias in needed if case.get(alias) is None]
    what = "no finding" if found == 0 else "only one finding"
    if not missing:
        return (f"{what}: the values that were measured show no further cause",)
    shown = ", ".join(missing[:6]) + (f" and {len(missing) - 6} more" if len(missing) > 6 else "")
    return (f"{what}: {len(missing)} metrics that rules need were not measured ({shown})",)
