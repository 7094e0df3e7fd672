"""Planner: which changes to try, with what they rest on and what they should move."""

from agent.proposers.llm.brief import Brief
from agent.proposers.llm.conversation import Conversation
from agent.proposers.llm.models import Plan, Plans
from agent.proposers.llm.offered import OTHER, eligible, titles
from agent.proposers.llm.prompting import render
from kb.vocabulary import find_metric


def plan(conversation: Conversation, brief: Brief, count: int) -> list[Plan]:
    """At most `count` plans, the most promising first; metrics by their Nsight Compute names.

    Raises
    ------
    LlmError
        No usable answer came.
    """
    state = brief.state
    # Gates are knowledge too: a run without it gets titles alone.
    profile = (state.leader.outcome.profile or {}) if state.knowledge else {}
    techniques = eligible(state.problem.source, state.architecture, state.retired, profile)
    prompt = render(
        "planner",
        brief=brief,
        techniques=techniques,
        measured=bool(profile),
        count=count,
        suffix=brief.kernels[0].suffix,
        searches=conversation.tool is not None,
    )
    answer = conversation.ask(
        Plans, prompt, objection=lambda plans: objection(plans, brief, conversation.found_chunks)
    )
    return [_canonical(plan) for plan in answer.plans[:count]]


def objection(plans: Plans, brief: Brief, found_chunks: tuple[str, ...] = ()) -> str:
    """What is wrong with plans that have the right form; empty if nothing."""
    known = titles()
    citable = {*brief.accepted_evidence, *found_chunks}
    for plan in plans.plans:
        if plan.parent not in brief.parents:
            return f"there is no kernel '{plan.parent}'; there are {', '.join(brief.parents)}"
        if plan.technique not in known:
            return f"the technique '{plan.technique}' is not in the list; `{OTHER}` stands for it"
        if plan.technique in brief.state.retired:
            return f"the technique '{plan.technique}' is retired"
        for ref in plan.evidence:
            if ref not in citable:
                return f"there is no evidence '{ref}'; there are {', '.join(sorted(citable))}"
        problem = _metric_objection(plan, brief)
        if problem:
            return problem
    return ""


def _metric_objection(plan: Plan, brief: Brief) -> str:
    metric = find_metric(plan.metric) if plan.metric is not None else None
    # Values of the evaluation are evidence, and no counters: they are not compared.
    if metric is None and plan.metric in {None, *(line.name for line in brief.evidence)}:
        return ""
    if metric is None:
        return f"'{plan.metric}' is no metric of the evidence; use null if none fits"
    if plan.direction is None:
        return f"say which way {plan.metric} should move"
    measured = brief.profiles.get(plan.parent, {}).get(metric.name)
    if measured is None or plan.expected is None:
        return ""
    rises = plan.expected > measured
    if plan.expected != measured and rises != (plan.direction == "up"):
        return (
            f"{plan.metric} is {measured:.6g} now, so {plan.expected:.6g} is not {plan.direction}"
        )
    return ""


def _canonical(plan: Plan) -> Plan:
    metric = find_metric(plan.metric) if plan.metric is not None else None
    return plan.model_copy(update={"metric": metric.name if metric is not None else None})
