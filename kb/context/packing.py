"""Pack sections and examples into a budget, cut only at syntactic boundaries."""

from dataclasses import dataclass

from kb.context.budget import Budget
from kb.context.cutting import code_prefixes, prose_prefixes
from kb.context.materials import Example, Section

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


@dataclass(frozen=True, slots=True)
class PackedExample:
    """An example as it stands in the text."""

    id: str
    text: str


def pack_example(example: Example, budget: Budget) -> PackedExample | None:
    """An example whole, or its most useful pieces, or the beginning of the first; None if none."""
    fence = _FENCE_LANGUAGE.get(example.language, "")
    opening = f"## Example: {example.title}\n{example.provenance}\n\n```{fence}\n"
    closing = "\n```"
    room = budget.less(opening, closing)
    if room.limit <= 0:
        return None
    code = example.whole if room.fits(example.whole) else _pieces(example, room)
    if code is None:
        return None
    return PackedExample(example.id, f"{opening}{code}{closing}")


def _pieces(example: Example, room: Budget) -> str | None:
    comment = "//" if example.language in {"cuda", "cpp"} else "#"
    taken: list[str] = []
    for piece in example.pieces:
        mark = f"{comment} lines {piece.start_line}-{piece.end_line}\n"
        gap = _GAP if taken else ""
        left = room.less(gap, mark)
        if left.fits(piece.text):
            taken.append(mark + piece.text)
            room = left.less(piece.text)
            continue
        if not taken:
            # Only the first piece is cut: half of a second one would say little.
            cut = f"{comment} lines {piece.start_line}- (cut)\n"
            left = room.less(cut)
            beginning = left.longest(code_prefixes(piece.text, piece.language))
            return cut + beginning if beginning else None
    return _GAP.join(taken) if taken else None
