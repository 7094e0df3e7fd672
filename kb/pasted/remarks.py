"""Remarks on a pasted kernel, in the order of its lines."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kb.parsing import PARSING
from kb.pasted import cuda, triton
from kb.pasted.remark import Remark

# Longer text is generated, and nobody reads remarks on it.
_MAX_CHARS: Final = 40_000
_MAX_LINES_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class Remarks:
    """What was seen in a kernel."""

    lines: tuple[str, ...] = ()
    """One sentence for each kind of remark, with the numbers of its lines."""
    techniques: tuple[str, ...] = ()
    """Slugs that answer them, in the order of the lines."""


def remarks_on(text: str) -> Remarks:
    """Return what a Triton or CUDA kernel's text shows; nothing of text that is neither.

    Takes time in proportion to the text.
    """
    if len(text) > _MAX_CHARS:
        return Remarks()
    seen_remarks = list(cuda.remarks(text)) if "__global__" in text else list(_python(text))
    slugs = (remark.technique for remark in seen_remarks if remark.technique is not None)
    return Remarks(tuple(_sentences(seen_remarks)), tuple(dict.fromkeys(slugs)))


def _python(text: str) -> Iterable[Remark]:
    if ".jit" not in text and "@jit" not in text:
        return ()
    try:
        with PARSING:
            tree = ast.parse(text)
        return list(triton.remarks(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def _sentences(remarks: Iterable[Remark]) -> Iterable[str]:
    lines: dict[str, dict[int, None]] = {}
    for remark in sorted(remarks, key=lambda r: r.line):
        lines.setdefault(remark.text, {})[remark.line] = None
    for text, numbers in lines.items():
        listed = ", ".join(map(str, list(numbers)[:_MAX_LINES_NAMED]))
        more = " and more" if len(numbers) > _MAX_LINES_NAMED else ""
        yield f"{'Line' if len(numbers) == 1 else 'Lines'} {listed}{more}: {text}"
