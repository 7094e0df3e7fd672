"""Edits at positions in a file's text; everything else stays byte for byte."""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# What the parser takes as the end of a line; a form feed is none.
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")

Value = int | float | str | bool


class RewriteError(ValueError):
    """Edits overlap, or what comes out is not Python."""


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """One place whose text depends on a value."""

    start: int
    """In the text's UTF-8 bytes."""
    end: int
    """Equal to `start` where something is inserted."""
    template: str = "{}"
    """What is written there; `{}` is the value."""
    plus: int = 0
    """Added to the value: -1 for the 255 of `(n + 255) // 256`."""
    fixed: bool = False
    """The template is written as it is, whatever the value."""

    def text(self, value: Value) -> str:
        """What is written for `value`."""
        if self.fixed:
            return self.template
        written = repr(value + self.plus) if isinstance(value, int) and self.plus else repr(value)
        return self.template.replace("{}", written)


class Offsets:
    """Where the nodes of a syntax tree stand in the bytes of its text."""

    def __init__(self, text: str) -> None:
        self.data = text.encode()
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(self.data))]

    def start(self, node: ast.expr | ast.keyword | ast.stmt) -> int:
        """First byte of a node."""
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.keyword | ast.stmt) -> int:
        """The byte after a node."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def site(self, node: ast.expr, *, plus: int = 0) -> Site:
        """The place of a literal."""
        return Site(self.start(node), self.end(node), plus=plus)

    def keyword(self, call: ast.Call, name: str) -> Site:
        """Where a keyword argument can be added to a call."""
        if call.keywords:
            start = self.start(call.keywords[0])
            return Site(start, start, f"{name}={{}}, ")
        close = self.end(call) - 1
        if not call.args:
            return Site(close, close, f"{name}={{}}")
        # Parentheses around the last argument are no part of it, nor is a trailing comma.
        at = last = self.end(call.args[-1])
        comma = False
        while at < close:
            byte = self.data[at : at + 1]
            if byte == b"#":
                found = _LINE_END.search(self.data, at)
                at = found.start() if found else close
                continue
            if byte in (b",", b")"):
                last, comma = at + 1, byte == b","
            at += 1
        return Site(last, last, f" {name}={{}}" if comma else f", {name}={{}}")


def rewrite(text: str, edits: Iterable[tuple[Site, Value]]) -> str:
    """`text` with each site's value written.

    Raises
    ------
    RewriteError
        Two sites overlap (an equal edit given twice is one), a site is outside of the text, or the
        result does not parse.
    """
    data = text.encode()
    chosen = sorted({(site, site.text(value)) for site, value in edits})
    parts, at = [], 0
    for site, written in chosen:
        if site.start < at or site.end < site.start or site.end > len(data):
            raise RewriteError(f"an edit at byte {site.start} meets another, or the end")
        parts += [data[at : site.start], written.encode()]
        at = site.end
    changed = b"".join([*parts, data[at:]]).decode()
    try:
        ast.parse(changed)
    except (SyntaxError, ValueError) as error:
        raise RewriteError(f"the change is not Python: {error}") from error
    return changed
