"""Pack sections and examples into a budget, cut only at syntactic boundaries."""

from collections.abc import Sequence

from kb.context.budget import Budget
from kb.context.cutting import prose_prefixes
from kb.context.materials import COMPARISON, Example, Section
from kb.context.models import Citation, ContextResponse, ContextTechnique
from kb.context.selection import Selection
from kb.embedders.tokens import TOKENIZER_NAME, count_tokens

SEPARATOR = "\n\n---\n\n"
_GAP = "\n\n"
# What a pasted kernel's own text shows may take this part of a budget.
_SEEN_SHARE = 0.25
_SEEN_TITLE = "Seen in the kernel's source, which was not run:"
_FENCE_LANGUAGE = {"triton": "python", "python": "python", "cuda": "cuda", "cpp": "cpp"}


def pack_sections(head: str, sections: list[Section], budget: Budget) -> str | None:
    """As much of a technique as fits below its `head`; None if the head does not fit."""
    if not budget.fits(head):
        return None
    remaining = budget.less(head)
    packed: dict[int, tuple[str, list[str]]] = {}
    for section in sections:
        heading = section.heading if section.position not in packed else ""
        blocks = _fitting(section, remaining.less(heading + _GAP) if heading else remaining)
        if not blocks:
            continue
        remaining = remaining.less(*(_GAP + block for block in (heading, *blocks) if block))
        packed.setdefault(section.position, (heading, []))[1].extend(blocks)
    parts = [head]
    for position in sorted(packed):
        heading, blocks = packed[position]
        parts += [heading, *blocks] if heading else blocks
    return _GAP.join(parts)


def _fitting(section: Section, room: Budget) -> list[str]:
    """The blocks of a section that fit, in order, without an introduction to what does not."""
    blocks: list[str] = []
    for block in section.blocks:
        piece = room.less(_GAP).longest(prose_prefixes(block))
        if piece is not None:
            blocks.append(piece)
            room = room.less(_GAP, piece)
        if piece != block:
            # A later block may still be short enough, but not out of order in this section.
            break
    while blocks and blocks[-1].endswith(":"):
        blocks.pop()
    # This section's prose is about its code.
    if section.heading == COMPARISON and not any("```" in block for block in blocks):
        return []
    return blocks


def pack_example(example: Example, budget: Budget, *, brief: bool = False) -> str | None:
    """An example whole, in the fullest of its forms that fits; None if none does.

    With `brief`, the last form has only the first sentence of its note.
    """
    fence = _FENCE_LANGUAGE.get(example.language, "")
    about = [f"## Example: {example.title}", f"{example.path} — {example.origin}"]
    attempts = [(example.note, form) for form in example.forms()]
    if brief and attempts:
        attempts.append((next(iter(prose_prefixes(example.note)), ""), attempts[-1][1]))
    for note, form in attempts:
        notes = [line for line in (example.measured, note) if line]
        opening = "\n".join([*about, *notes]) + f"\n\n```{fence}\n"
        text = f"{opening}{form}\n```"
        if budget.fits(text):
            return text
    return None


def respond(
    text: str, selection: Selection, examples: list[str], available: int, citations: list[Citation]
) -> ContextResponse:
    """The answer with this text."""
    return ContextResponse(
        text=text,
        tokens=count_tokens(text),
        techniques=[
            ContextTechnique(
                slug=choice.technique.slug, score=round(choice.score, 4), reason=choice.reason
            )
            for choice in selection.techniques
        ],
        examples=examples,
        examples_available=available,
        citations=citations,
        ignored=selection.ignored,
        tokenizer=TOKENIZER_NAME,
        abstained=selection.abstained,
    )


def remarks_block(lines: Sequence[str], budget: Budget) -> str:
    """Return findings in a pasted kernel's text, as many lines as fit their share of the budget."""
    room, text = Budget(int(budget.limit * _SEEN_SHARE), budget.measure), _SEEN_TITLE
    for line in lines:
        more = f"{text}\n- {line}"
        if room.fits(more):
            text = more
    return text if text != _SEEN_TITLE else ""
