"""Code without what it says about itself: comments and docstrings blanked, line by line.

One pass from left to right, in time linear in the text: nothing that is looked for in vain is
looked for again.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

Kind = Literal["comment", "docstring", "string"]

_OPENS_HASH = re.compile(r"[\"'#]")
_OPENS_SLASH = re.compile(r"[\"']|//|/\*")
# What of a literal stands on its line. Possessive: a quote that nothing closes is given up at once.
_REST = {'"': re.compile(r'(?:\\.|[^"\\\n])*+'), "'": re.compile(r"(?:\\.|[^'\\\n])*+")}
_PREFIXES = frozenset("rRbBuUfF")
_LONGEST_PREFIX = 2


class Span(NamedTuple):
    """A comment or a literal: `code[start:end]`."""

    kind: Kind
    start: int
    end: int


def without_comments(code: str, language: str, *, keep_docstrings: bool = False) -> str:
    """The code with its comments and docstrings as spaces; offsets and lines stay as they are.

    Other strings stay, since inline assembly is one.
    """
    kinds = {"comment"} if keep_docstrings else {"comment", "docstring"}
    out: list[str] = []
    at = 0
    for span in literals_and_comments(code, language):
        if span.kind in kinds:
            out += [code[at : span.start], _blank(code[span.start : span.end])]
            at = span.end
    return "".join([*out, code[at:]])


def literals_and_comments(code: str, language: str) -> Iterator[Span]:
    """Every comment and every closed literal in order; quotes within them begin nothing.

    Parameters
    ----------
    language
        `cuda` and `cpp` have `//` and `/* */`; any other has `#` and literals of three quotes.
    """
    has_slashes = language in {"cuda", "cpp"}
    opens = _OPENS_SLASH if has_slashes else _OPENS_HASH
    scan = _Scan(code, triple_quotes=not has_slashes)
    at = 0
    while (match := opens.search(code, at)) is not None:
        span = scan.at(match.start(), match[0])
        if span is not None:
            yield span
        at = span.end if span is not None else match.end()


class _Scan:
    """What is known of one text while it is read."""

    def __init__(self, code: str, *, triple_quotes: bool) -> None:
        self.code = code
        self._triple_quotes = triple_quotes
        # mark -> up to where it is known that nothing closes it
        self._open_until: dict[str, int] = {}

    def at(self, start: int, mark: str) -> Span | None:
        """What begins at `start` with this mark; None if nothing closes it."""
        if mark in {"//", "#"}:
            end = self.code.find("\n", start)
            return Span("comment", start, len(self.code) if end < 0 else end)
        if mark == "/*":
            closed = self._closed_by("*/", start + 2)
            return None if closed is None else Span("comment", start, closed)
        three = mark * 3
        if self._triple_quotes and self.code.startswith(three, start):
            closed = self._closed_by(three, start + 3)
            if closed is not None:
                first = self._with_prefix(start)
                kind: Kind = "docstring" if self._stands_alone(first) else "string"
                return Span(kind, first, closed)
        return self._on_line(start, mark)

    def _closed_by(self, mark: str, start: int) -> int | None:
        """The end behind the first `mark` from `start` on."""
        if mark in self._open_until:
            return None
        end = self.code.find(mark, start)
        if end < 0:
            self._open_until[mark] = len(self.code)
            return None
        return end + len(mark)

    def _on_line(self, start: int, quote: str) -> Span | None:
        """The literal whose opening quote is at `start`, if it ends on its line."""
        if start < self._open_until.get(quote, 0):
            return None
        rest = _REST[quote].match(self.code, start + 1)
        assert rest is not None
        end = rest.end()
        if self.code[end : end + 1] == quote:
            return Span("string", start, end + 1)
        self._open_until[quote] = end
        return None

    def _with_prefix(self, start: int) -> int:
        first = start
        while start - first < _LONGEST_PREFIX and self.code[first - 1 : first] in _PREFIXES:
            first -= 1
        return first

    def _stands_alone(self, start: int) -> bool:
        """Whether a string begins a statement: after a colon at a line's end, or at the top."""
        code, at = self.code, start - 1
        while at >= 0 and code[at].isspace() and code[at] != "\n":
            at -= 1
        if at >= 0 and code[at] != "\n":
            return False
        while at >= 0 and code[at].isspace():
            at -= 1
        return at < 0 or code[at] == ":"


def _blank(text: str) -> str:
    return "\n".join(" " * len(line) for line in text.split("\n"))
