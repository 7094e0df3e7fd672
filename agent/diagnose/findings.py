"""Two distinct findings: the gravest of all that the rules say, on different subjects."""

from agent.diagnose import rules_compute, rules_latency, rules_memory, rules_utilization
from agent.diagnose.result import Bottleneck, Finding
from agent.diagnose.rules import Case, Draft, Rule

RULES: tuple[Rule, ...] = (
    *rules_memory.RULES,
    *rules_compute.RULES,
    *rules_latency.RULES,
    *rules_utilization.RULES,
)
FINDINGS = 2
# What agrees with the dominant bottleneck explains the time better than an equal cause beside it.
_DOMINANT = 0.25


def rule_named(name: str) -> Rule:
    """The rule of this name.

    Raises
    ------
    KeyError
        There is none.
    """
    for rule in RULES:
        if rule.name == name:
            return rule
    raise KeyError(name)


def drafts(case: Case) -> list[tuple[Rule, Draft]]:
    """Every rule that fires with what it says, the gravest first."""
    fired = [(rule, draft) for rule in RULES if (draft := rule.check(case)) is not None]
    order = {rule.name: number for number, rule in enumerate(RULES)}

    def weight(pair: tuple[Rule, Draft]) -> tuple[float, int]:
        rule, draft = pair
        agrees = draft.category == case.decision.bottleneck
        return (-(draft.severity + (_DOMINANT if agrees else 0.0)), order[rule.name])

    return sorted(fired, key=weight)


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
    missing = [
        alias
        for rule in RULES
        for alias in rule.needs
        if case.get(alias) is None
    ]  # fmt: skip
    missing = list(dict.fromkeys(missing))
    what = "no finding" if found == 0 else "only one finding"
    if not missing:
        return (f"{what}: the values that were measured show no further cause",)
    shown = ", ".join(missing[:6]) + (f" and {len(missing) - 6} more" if len(missing) > 6 else "")
    return (f"{what}: {len(missing)} metrics that rules need were not measured ({shown})",)


def bottleneck_words(bottleneck: Bottleneck) -> str:
    """The bottleneck as part of a sentence."""
    return {
        Bottleneck.MEMORY: "bound by memory",
        Bottleneck.COMPUTE: "bound by compute",
        Bottleneck.LATENCY: "bound by latency",
        Bottleneck.UNDERUTILIZED: "underutilizing the GPU",
    }[bottleneck]
