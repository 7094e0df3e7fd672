"""Combiner: one kernel from two that got faster by different techniques."""

from agent.proposers.llm.brief import Brief, KernelText
from agent.proposers.llm.conversation import Conversation
from agent.proposers.llm.models import Code
from agent.proposers.llm.prompting import render
from agent.proposers.llm.roles.coder import unchanged
from agent.proposers.llm.search_tool import SearchTool


def combine(
    conversation: Conversation,
    system: str,
    brief: Brief,
    parents: tuple[KernelText, KernelText],
    tool: SearchTool | None,
) -> Code:
    """The file that combines both, in the form of the first.

    Raises
    ------
    LlmError
        No usable answer came.
    """
    first, second = parents
    prompt = render("combiner", brief=brief, first=first, second=second, suffix=first.suffix)
    return conversation.ask(
        Code,
        system,
        prompt,
        objection=lambda code: unchanged(code, first.source, second.source),
        tool=tool,
        base=first.base,
    )
