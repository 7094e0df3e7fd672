"""Two distinct findings: the gravest of all that the rules say, on different subjects."""

from agent.diagnose import rules_compute, rules_latency, rules_memory, rules_utilization
from agent.diagnose.result import Finding
from agent.diagnose.rules import Case, Draft, Rule

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


def drafts(case: Case) -> list[tuple[Rule, Draft]]:
    """Every rule that fires with what it says, the gravest first."""
    fired = [(rule, draft) for rule in RULES if (draft := rule.check(case)) is not None]

    def weight(pair: tuple[Rule, Draft]) -> float:
        draft = pair[1]
        agrees = draft.category == case.decision.bottleneck
        return -(draft.severity + (_DOMINANT if agrees else 0.0))

    return sorted(fired, key=weight)  # equal ones stay in the order of the rules


def select(case: Case) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """The findings, and what to say where there are fewer than two.

    Two findings never share a subject, and never rest on the same metrics alone.
    """
    chosen: list[tuple[Rule, Draft]] = []
    for rule, draft in drafts(case):
        if len(chosen) < FINDINGS and all(_distinct((rule, draft), each) for each in chosen):
            chosen.append((rule, draft))
    findings = tuple(
        Finding(
            rule=rule.name,
            cause=draft.cause,
            category=draft.category,
            severity=draft.severity,
            evidence=draft.evidence,
        )
        for rule, draft in chosen
    )
    return findings, _shortfall(case, len(findings))


def _distinct(one: tuple[Rule, Draft], other: tuple[Rule, Draft]) -> bool:
    if one[0].subject == other[0].subject:
        return False
    mine, theirs = ({each.metric for each in draft.evidence} for _, draft in (one, other))
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
