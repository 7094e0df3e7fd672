"""Edits at positions in a file's text; everything else stays byte for byte."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from judge.problem.source import LINE_END, line_starts, span

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
        literal = repr(value + self.plus) if isinstance(value, int) and self.plus else repr(value)
        return self.template.replace("{}", literal)


class Offsets:
    """Where the nodes of a syntax tree stand in the bytes of its text."""

    def __init__(self, text: str) -> None:
        self.data = text.encode()
        self._starts = line_starts(text)

    def span(self, node: ast.expr | ast.keyword) -> tuple[int, int]:
        """The first byte of a node, and the one after it."""
        return span(self._starts, node)

    def site(self, node: ast.expr, *, plus: int = 0) -> Site:
        """The place of a literal."""
        return Site(*self.span(node), plus=plus)

    def keyword(self, call: ast.Call, name: str) -> Site:
        """Where a keyword argument can be added to a call."""
        if call.keywords:
            start, _ = self.span(call.keywords[0])
            return Site(start, start, f"{name}={{}}, ")
        close = self.span(call)[1] - 1
        if not call.args:
            return Site(close, close, f"{name}={{}}")
        # Parentheses around the last argument are no part of it, nor is a trailing comma.
        at = last = self.span(call.args[-1])[1]
        comma = False
        while at < close:
            byte = self.data[at : at + 1]
            if byte == b"#":
                newline = LINE_END.search(self.data, at)
                at = newline.start() if newline else close
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
    replacements = sorted({(site, site.text(value)) for site, value in edits})
    parts, at = [], 0
    for site, replacement in replacements:
        if site.start < at or site.end < site.start or site.end > len(data):
            raise RewriteError(f"an edit at byte {site.start} overlaps another one, or the end")
        parts += [data[at : site.start], replacement.encode()]
        at = site.end
    result = b"".join([*parts, data[at:]]).decode()
    try:
        ast.parse(result)
    except (SyntaxError, ValueError) as error:
        raise RewriteError(f"the changed file is not Python: {error}") from error
    return result
