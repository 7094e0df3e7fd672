"""The piece: a run of whole source lines of one file, and its metadata."""

import re
from dataclasses import dataclass

# Nobody opens a scope in more characters, and what is tried on a line costs their square.
_LONGEST_SCOPE_LINE = 200
# What opens or closes a scope or a condition and says nothing else, and lines without a word. Such
# lines stay covered (nothing is dropped), but alone they are noise in an index.
_SCOPE_LINE = re.compile(
    r"""\s*(?:
        [\W_]*
      | (?:inline\s+)?namespace\b[\w:\s]*\{?
      | extern\s+"C"\s*\{?
      | (?:public|private|protected)\s*:
      | \#\s*(?:if|ifdef|ifndef|elif|else|endif|undef)\b.*
      | \#\s*pragma\s+(?:once|unroll|GCC|nv_).*
      | [A-Z0-9_]*NAMESPACE[A-Z0-9_]*(?:\(.*\))?;?
    )\s*""",
    re.VERBOSE,
)
_LICENCE = re.compile(
    r"licensed under|redistribution and use|SPDX-License-Identifier|permission is hereby granted"
    r"|all rights reserved|copyright \(c\)",
    re.IGNORECASE,
)
_SCOPE_COMMENT = re.compile(
    r"\W*(?:(?:end|of|anonymous|inline)\b\W*)*namespace\b.*|[^\w]*(?:end\b.*)?"
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
    calls: tuple[str, ...] = ()
    """Triton only: symbols of the kernels this piece launches, as written at the launch."""

    @property
    def is_trivial(self) -> bool:
        """Whether the piece is a licence header or only opens and closes scopes.

        Nobody looks for such a piece, so it need not be indexed.
        """
        if self.heading or self.language in {"markdown", "text"}:
            return False
        if self.symbol is None and is_licence_comment(self.text):
            return True
        return self.language in {"cuda", "cpp"} and all(
            _opens_or_closes(line) for line in self.text.split("\n")
        )


def is_licence_comment(text: str) -> bool:
    """Whether `text` is one comment that states a licence or a copyright and nothing else."""
    text = text.strip()
    if not _LICENCE.search(text):
        return False
    if text.startswith("/*"):
        return text.find("*/") == len(text) - 2
    mark = "#" if text.startswith("#") else "//"
    return all(line.lstrip().startswith(mark) for line in text.split("\n"))


def _opens_or_closes(line: str) -> bool:
    if len(line) > _LONGEST_SCOPE_LINE:
        return False
    code, slashes, comment = line.partition("//")
    if not _SCOPE_LINE.fullmatch(code):
        return False
    return not slashes or bool(code.strip()) or bool(_SCOPE_COMMENT.fullmatch(comment))
