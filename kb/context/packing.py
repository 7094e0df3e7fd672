"""Pack sections and examples into a budget, cut only at syntactic boundaries."""

from kb.context.budget import Budget
from kb.context.cutting import prose_prefixes
from kb.context.materials import Example, Section
from kb.context.models import Citation, ContextResponse, ContextTechnique
from kb.context.selection import Selection
from kb.embedders.tokens import TOKENIZER_NAME, count_tokens

SEPARATOR = "\n\n---\n\n"
_GAP = "\n\n"
_FENCE_LANGUAGE = {"triton": "python", "python": "python", "cuda": "cuda", "cpp": "cpp"}


def pack_sections(head: str, sections: list[Section], budget: Budget) -> str | None:
    """As much of a technique as fits below its `head`; None if not even the head does."""
    if not budget.fits(head):
        return None
    left = budget.less(head)
    taken: dict[int, tuple[str, list[str]]] = {}
    for section in sections:
        for block in section.blocks:
            new = section.position not in taken
            overhead = _GAP + (section.heading + "\n\n" if new and section.heading else "")
            room = left.less(overhead)
            piece = room.longest(prose_prefixes(block))
            if piece is None:
                # A later block may still be short enough, but not out of order in this section.
                break
            left = room.less(piece)
            taken.setdefault(section.position, (section.heading, []))[1].append(piece)
            if piece != block:
                break
    parts = [head]
    for position in sorted(taken):
        heading, blocks = taken[position]
        parts += [heading, *blocks] if heading else blocks
    return _GAP.join(parts)


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
        told = [line for line in (example.measured, note) if line]
        opening = "\n".join([*about, *told]) + f"\n\n```{fence}\n"
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
