"""Coder, combiner and fixer: a whole kernel file for a plan, from two kernels, after a failure."""

from agent.optimize.candidate import Outcome, Proposal, Stage
from agent.proposers.llm.brief import COMBINED, Brief, KernelText
from agent.proposers.llm.conversation import Conversation
from agent.proposers.llm.models import Code, Plan
from agent.proposers.llm.prompting import render
from judge.evaluate.result import Verdict
from kb.context.materials import CUT

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


def write(conversation: Conversation, brief: Brief, plan: Plan) -> Code:
    """The file that carries out a plan.

    Raises
    ------
    LlmError
        No usable answer came.
    """
    parent = brief.kernel(plan.parent)
    prompt = render(
        "coder",
        brief=brief,
        plan=plan,
        parent=parent,
        suffix=parent.suffix,
        known=brief.parts.for_plan({plan.technique, *plan.evidence}),
        CUT=CUT,
    )
    return _ask(conversation, prompt, parent.base, parent.source)


def combine(
    conversation: Conversation, brief: Brief, first: KernelText, second: KernelText
) -> Code:
    """The file that combines two that got faster by different techniques, in the first's form.

    Raises
    ------
    LlmError
        No usable answer came.
    """
    known = brief.parts.for_plan({*first.families, *second.families})
    prompt = render(
        "combiner", brief=brief, first=first, second=second, suffix=first.suffix, known=known
    )
    return _ask(conversation, prompt, first.base, first.source, second.source)


def fix(conversation: Conversation, brief: Brief, proposal: Proposal, failure: Outcome) -> Code:
    """The corrected file after a compile error, a wrong result, a crash or a regression.

    Raises
    ------
    LlmError
        No usable answer came.
    """
    what, task = _describe_failure(failure)
    prompt = render(
        "fixer",
        brief=brief,
        source=proposal.source,
        suffix=proposal.suffix,
        claim=proposal.hypothesis.claim if proposal.hypothesis else "",
        what=what,
        task=task,
        reasons=failure.reasons or ("(no more is known)",),
        known=brief.parts.for_plan(set(proposal.family.split(COMBINED))),
    )
    return _ask(conversation, prompt, proposal.source, proposal.source)


def _ask(conversation: Conversation, prompt: str, base: str | None, *sources: str) -> Code:
    """A file that is none of the `sources`; edits in the answer change `base`."""

    def objection(code: Code) -> str:
        same = any(code.code.strip() == source.strip() for source in sources)
        return "the file is the one it was made from, unchanged" if same else ""

    return conversation.ask(Code, prompt, objection=objection, base=base)


def _describe_failure(failure: Outcome) -> tuple[str, str]:
    """What happened, and the task."""
    if failure.right:
        slower = failure.over("leader") or failure.over("start")
        than = f" than {slower.over}: {slower.ratio:.3g} times its speed" if slower else ""
        time = f" It takes {failure.median_ms:.4g} ms." if failure.median_ms is not None else ""
        return (
            f"Its results are right, but it is slower{than}.{time}",
            "Keep the idea, and remove what made it slower.",
        )
    verdict = failure.verdict
    if verdict is Verdict.WRONG and failure.error is not None:
        return ("A call of it fails.", "Correct this without giving up what it was to do.")
    what = _VERDICTS.get(verdict) if verdict is not None else None
    return (
        what or _WHAT.get(failure.stage, "It failed."),
        "Correct this without giving up what it was to do.",
    )
