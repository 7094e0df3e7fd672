"""Fixer: a corrected file after a compile error, a wrong result, a crash or a regression."""

from agent.optimize.candidate import Outcome, Proposal, Stage
from agent.proposers.llm.brief import Brief
from agent.proposers.llm.conversation import Conversation
from agent.proposers.llm.models import Code
from agent.proposers.llm.prompting import render
from agent.proposers.llm.roles.coder import unchanged
from agent.proposers.llm.search_tool import SearchTool
from judge.evaluate.result import Verdict

_WHAT = {
    Stage.SYNTAX: "The file cannot be read as a kernel file.",
    Stage.COMPILE: "It does not load or compile.",
    Stage.TIME: "Its results are right, but it could not be timed: it crashed, hung, or is slow "
    "beyond all measure.",
}
_VERDICTS = {
    Verdict.WRONG: "Its results are wrong.",
    Verdict.CHEAT: "The judge says that its results or times are not those of the work.",
    Verdict.INCONCLUSIVE: "The judge cannot tell whether it is right.",
}


def fix(
    conversation: Conversation,
    system: str,
    brief: Brief,
    proposal: Proposal,
    failure: Outcome,
    *,
    tool: SearchTool | None,
) -> Code:
    """The corrected file.

    Raises
    ------
    LlmError
        No usable answer came.
    """
    what, task = _told(failure)
    prompt = render(
        "fixer",
        brief=brief,
        source=proposal.source,
        suffix=proposal.suffix,
        claim=proposal.hypothesis.claim if proposal.hypothesis else "",
        what=what,
        task=task,
        reasons=failure.reasons or ("(no more is known)",),
    )
    return conversation.ask(
        Code,
        system,
        prompt,
        objection=lambda code: unchanged(code, proposal.source),
        tool=tool,
        base=proposal.source,
    )


def _told(failure: Outcome) -> tuple[str, str]:
    if failure.right:
        slower = failure.over("leader") or failure.over("start")
        than = f" than {slower.over}: {slower.ratio:.3g} times its speed" if slower else ""
        time = f" It takes {failure.median_ms:.4g} ms." if failure.median_ms is not None else ""
        return (
            f"Its results are right, but it is slower{than}.{time}",
            "Keep the idea, and remove what made it slower.",
        )
    verdict = failure.verdict
    what = _VERDICTS.get(verdict) if verdict is not None else None
    return (
        what or _WHAT.get(failure.stage, "It failed."),
        "Correct this without giving up what it was to do.",
    )
