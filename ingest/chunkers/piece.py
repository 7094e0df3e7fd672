"""The piece: a run of whole source lines of one file, and what is known of it."""

import re
from dataclasses import dataclass

# What closes or opens a scope and says nothing else. Such lines stay covered (nothing is dropped),
# but alone they are noise in an index.
_CLOSING_LINE = re.compile(
    r"""\s*(?:
        [{}()\[\];,\s]*(?:(?://|/\*)\s*(?:end\s+)?(?:of\s+)?(?:anonymous\s+)?namespace\b.*)?
      | (?:inline\s+)?namespace\b[\w:\s]*\{?
      | extern\s+"C"\s*\{?
      | (?:public|private|protected)\s*:
      | \#\s*(?:endif|else)\b.*
      | \#\s*pragma\s+once
    )\s*""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of one file that is retrieved as a unit.

    `text` equals the source lines `start_line` to `end_line` joined by line feeds. The one
    exception is a single line above the hard cap (`limits.MAX_CHARS`): it becomes several pieces
    that name the same line and whose texts, joined, are that line.
    """

    text: str
    start_line: int
    """First line, 1-based."""
    end_line: int
    """Last line, 1-based, inclusive."""
    language: str
    """One of `markdown`, `python`, `triton`, `cuda`, `cpp`, `text`."""
    symbol: str | None = None
    """Qualified name (`Class.method`, `ns::fn`). Every part of an over-long function keeps it."""
    signature: str | None = None
    """The declaration on one line, without its body."""
    heading: str | None = None
    """Markdown only: the path of headings that leads here, `A > B`."""
    is_kernel: bool = False
    """A Triton `@triton.jit` function or a CUDA `__global__` function."""
    doc: str | None = None
    """First paragraph of the docstring or of the leading comment, on one line."""
    calls: tuple[str, ...] = ()
    """Symbols of the kernels this piece launches, as written at the launch."""

    @property
    def is_trivial(self) -> bool:
        """Whether the piece only opens or closes scopes, so that indexing it serves nobody."""
        return self.language in {"cuda", "cpp"} and all(
            _CLOSING_LINE.fullmatch(line) for line in self.text.split("\n")
        )
