"""The beginning of a chunk, as a search result shows it."""

import re
from dataclasses import dataclass

from markupsafe import Markup

from kb.context.cutting import prose_blocks
from kb.records import Chunk
from server.web.markup import code_block, render_markdown, with_code

# Enough to see whether it is what one looks for.
_CODE_LINES = 12
_PROSE_CHARS = 500
# Lines of an entry's card that serve the search; the result shows these facts around the excerpt.
_FACTS = re.compile(r"(Also called|Relieves|Runs on|Operator|Techniques|Dtypes|Improves on): ")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The beginning of a text, rendered."""

    html: Markup
    is_whole: bool


def excerpt(chunk: Chunk) -> Excerpt:
    """The beginning of a chunk: whole lines of code, or whole paragraphs of prose."""
    if chunk.section == "card":
        return _card(chunk.text)
    if chunk.language == "markdown":
        blocks = prose_blocks(chunk.text)
        head = _beginning(blocks)
        html = render_markdown("\n\n".join(head), below=None)
        return Excerpt(html, len(head) == len(blocks))
    lines = chunk.text.splitlines()
    head = lines[:_CODE_LINES]
    return Excerpt(code_block("\n".join(head), chunk.language), len(head) == len(lines))


def _card(text: str) -> Excerpt:
    """The effect of a technique, or the description of a kernel: text with code in backticks."""
    lines = [line for line in text.splitlines()[1:] if not _FACTS.match(line)]
    end = lines.index("Use when:") if "Use when:" in lines else len(lines)
    paragraphs = "\n".join(lines[:end]).strip().split("\n\n")
    head = _beginning(paragraphs)
    html = Markup("").join(Markup("<p>{}</p>").format(with_code(paragraph)) for paragraph in head)
    return Excerpt(html, end == len(lines) and len(head) == len(paragraphs))


def _beginning(blocks: list[str]) -> list[str]:
    """Blocks from the first on, at least one of them text; a heading never stands last."""
    head: list[str] = []
    for block in blocks:
        has_text = not all(map(_is_heading, head))
        if has_text and sum(map(len, head)) + len(block) > _PROSE_CHARS:
            break
        head.append(block)
    while len(head) > 1 and _is_heading(head[-1]):
        head.pop()
    return head


def _is_heading(block: str) -> bool:
    return block.startswith("#") and "\n" not in block
