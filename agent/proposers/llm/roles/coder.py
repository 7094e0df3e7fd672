"""Coder: the whole kernel file for one plan."""

from agent.proposers.llm.brief import Brief
from agent.proposers.llm.conversation import Conversation
from agent.proposers.llm.models import Code, Plan
from agent.proposers.llm.prompting import render
from agent.proposers.llm.search_tool import SearchTool


def write(
    conversation: Conversation, system: str, brief: Brief, plan: Plan, tool: SearchTool | None
) -> Code:
    """The file that carries out a plan.

    Raises
    ------
    LlmError
        No usable answer came.
    """
    parent = brief.kernel(plan.parent)
    prompt = render("coder", brief=brief, plan=plan, parent=parent, suffix=parent.suffix)
    return conversation.ask(
        Code,
        system,
        prompt,
        objection=lambda code: unchanged(code, parent.source),
        tool=tool,
        base=parent.base,
    )


def unchanged(code: Code, *sources: str) -> str:
    """What is wrong with a file that is one of those it was made from; empty if it is not."""
    same = any(code.code.strip() == each.strip() for each in sources)
    return "the file is the one it was made from, unchanged" if same else ""
