"""Ground truth for kernel extents: a small scanner that shares nothing with the chunkers.

It neutralises comments, literals and directives, finds each `__global__`, walks back to where the
declaration starts and forward to the brace that closes its body.
"""

import re
from bisect import bisect_left
from dataclasses import dataclass

_NOISE = re.compile(
    rb"//(?:\\\n|[^\n])*"
    rb"|/\*.*?\*/"
    rb'|R"(\w*)\(.*?\)\1"'
    rb'|"(?:[^"\\\n]|\\.)*"'
    rb"|(?<![0-9A-Za-z_])'(?:[^'\\\n]|\\.)+'",
    re.DOTALL,
)
_DIRECTIVE = re.compile(rb"^[ \t]*#(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)
_BRANCH = re.compile(rb"[ \t]*#[ \t]*(if|el|endif)")
_KERNEL = re.compile(rb"\b__global__\b")
_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_NAME = re.compile(rb"([A-Za-z_]\w*)\s*(?:<[^;{}]*>\s*)?$")


@dataclass(frozen=True, slots=True)
class Extent:
    """A kernel with a body: byte offsets of its declaration's start and of its `}`, exclusive."""

    start: int
    end: int
    name: str


def kernel_extents(source: bytes) -> list[Extent]:
    """Return the `__global__` functions with a body in `source`, in file order.

    Declarations and explicit instantiations have no body and are left out; so is what stands in
    comments, literals and macro definitions. Two headers in two branches of an `#if` that share a
    body count once.
    """
    if b"__global__" not in source:
        return []
    code = _NOISE.sub(lambda match: re.sub(rb"[^\n]", b" ", match[0]), source)
    branches: dict[int, bytes] = {}

    def directive(match: re.Match[bytes]) -> bytes:
        if kind := _BRANCH.match(match[0]):
            branches[match.start()] = kind[1]
        return re.sub(rb"[^\n]", b" ", match[0])

    code = _DIRECTIVE.sub(directive, code)
    marks = [(m.start(), m[0]) for m in re.finditer(rb"[(){};]", code)]
    marks = sorted([*marks, *branches.items()])
    starts = [position for position, _ in marks]
    extents: dict[int, Extent] = {}
    for match in _KERNEL.finditer(code):
        body = _body(marks, bisect_left(starts, match.end()))
        if body is None:
            continue
        opening, closing, parameters = body
        before = max(code.rfind(mark, 0, match.start()) for mark in (b";", b"{", b"}")) + 1
        # A macro call without a semicolon may come before; a blank line then separates the two.
        for blank in _BLANK_LINE.finditer(source, before, match.start()):
            before = blank.end()
        start = before + len(code[before:]) - len(code[before:].lstrip())
        name = _NAME.search(code[match.end() : parameters])
        text = name[1].decode() if name else "?"
        extents.setdefault(opening, Extent(start, closing + 1, text))
    return sorted(extents.values(), key=lambda extent: extent.start)


def _body(marks: list[tuple[int, bytes]], index: int) -> tuple[int, int, int] | None:
    """Return offsets of the body's braces and of the parameter list, or None without a body.

    At each `#else` the nesting returns to what it was at the `#if`, since only one branch is ever
    compiled.
    """
    parens = braces = 0
    opening = parameters = -1
    saved: list[tuple[int, int]] = []
    for position, mark in marks[index:]:
        if mark == b"if":
            saved.append((parens, braces))
        elif mark == b"el":
            if saved:
                parens, braces = saved[-1]
        elif mark == b"endif":
            if saved:
                saved.pop()
        elif mark == b"(":
            if not parens and opening < 0:
                parameters = position
            parens += 1
        elif mark == b")":
            parens -= 1
        elif opening < 0:
            if parens:
                continue
            if mark != b"{":
                return None
            opening, braces = position, 1
        elif mark == b"{":
            braces += 1
        elif mark == b"}":
            braces -= 1
            if not braces:
                return opening, position, parameters
    return None
