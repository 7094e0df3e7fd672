"""Blank what the C++ grammar cannot parse, at equal length, so that byte offsets stay valid.

One lexical pass finds comments, literals, preprocessor directives and the bodies of functions, and
blanks them; attribute macros in front of declarations go next. The grammar sees only the
declarations: `namespace`, `class`, `template`, and functions with empty bodies. This is what makes
extents robust: `asm volatile`, `<<<grid, block>>>`, lambdas, macros that stand for statements and
`#if` in the middle of an expression are all inside bodies and cannot derail the parse.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass, field

from ingest.chunkers.cpp_attributes import attributes

# What tokens are everywhere; in bodies a semicolon is none, for most of a file is bodies.
_COMMON = rb"""
      (?P<comment> //(?:\\\n|[^\n])*+ | /\*.*?(?:\*/|\Z) )
    | (?P<literal> R"(?P<tag>[^()\\\s"]{0,16})\(.*?(?:\)(?P=tag)"|\Z) | "(?:\\.|[^"\\\n])*+"?
                 | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*+'? )
    | (?P<hash> \# )
    """
_TOKEN = re.compile(_COMMON + rb"| (?P<brace> [{};] )", re.VERBOSE | re.DOTALL)
_TOKEN_IN_BODY = re.compile(_COMMON + rb"| (?P<brace> [{}] )", re.VERBOSE | re.DOTALL)
# A directive runs to the first line end without a backslash before it.
_DIRECTIVE = re.compile(rb"(?:/\*.*?(?:\*/|\Z)|\\\r?\n|[^\n])*+", re.DOTALL)
_MAX_INDENT = 200  # how far a directive may be indented; keeps one huge line from costing n squared
_DIRECTIVE_NAME = re.compile(rb"\#\s*(\w*)\s*(\S*)")
_BLANKS = bytes(ord("\n") if byte == ord("\n") else ord(" ") for byte in range(256))

# How far before its brace a namespace is looked for, and template headers that a class may have:
# both are far beyond what people write, and keep a hostile header from costing its square.
_LONGEST_NAMESPACE = 400
_MOST_TEMPLATES = 8

# What opens a scope whose content stays visible to the grammar.
_TEMPLATE = re.compile(rb"\s*template\s*<")
_SCOPE = re.compile(rb"\bnamespace\b[^;{}()=]*$|\bextern\s*\"\s*\"\s*$")
_CLASS = re.compile(
    rb"\s*(?:(?:typedef|static|inline|constexpr|const|extern|friend|volatile)\s+)*"
    rb"(?:class|struct|union)\b"
)
# A macro alone on its line opens or closes a scope, or decorates the line below.
_LONE_MACRO = re.compile(
    rb"^[ \t]*([A-Z_][A-Z0-9_]{4,})(?:[ \t]*\([^()\n]*\)(?!\s*\{))?[ \t]*;?$", re.MULTILINE
)
_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_SCOPE_MACRO = re.compile(rb"NAMESPACE|BEGIN|END|PUSH|POP|OPEN|CLOSE|DIAG|PROLOGUE|EPILOGUE|PRAGMA")


@dataclass(slots=True)
class Masked:
    """The blanked source, and the byte ranges of what was blanked."""

    code: bytes
    """As long as the source, line feeds in place."""
    comments: list[tuple[int, int]] = field(default_factory=list)
    attributes: list[tuple[int, int]] = field(default_factory=list)
    """Attribute macros that belong to the declaration they precede, ascending."""

    def declaration_start(self, source: bytes, start: int) -> int:
        """Return where in `source` the declaration begins that the grammar starts at `start`.

        Attributes above a blank line belong to something else.
        """
        at = bisect_right(self.attributes, (start, start)) - 1
        while at >= 0:
            first, end = self.attributes[at]
            if self.code[end:start].strip() or _BLANK_LINE.search(source, end, start):
                break
            start = first
            at -= 1
        return start


def mask(source: bytes) -> Masked:
    """Blank `source` for the grammar; see the module's docstring."""
    masked = _Pass(source).run()
    code = bytearray(masked.code)
    macros: list[tuple[int, int]] = []
    for match in _LONE_MACRO.finditer(masked.code):
        if not match[0].endswith(b";") and not _SCOPE_MACRO.search(match[1]):
            macros.append(match.span(1))
        _blank(code, *match.span())
    for start, end in attributes(bytes(code)):
        macros.append((start, end))
        _blank(code, start, end)
    masked.attributes = sorted(macros)
    masked.code = bytes(code)
    return masked


def _blank(code: bytearray, start: int, end: int) -> None:
    code[start:end] = code[start:end].translate(_BLANKS)


@dataclass(slots=True)
class _Branch:
    """An open `#if`: the scopes when it began, and what its first branch did to them."""

    scopes: list[int]
    depth: int
    start: int
    dead: bool = False
    first: bool = True


class _Pass:
    """The lexical pass: scopes (visible) and bodies (blanked), branch by branch."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.code = bytearray(source)
        self.masked = Masked(b"")
        self.scopes: list[int] = []
        self.depth = 0  # braces open inside the current body; 0 means outside any body
        self.body = 0  # where the current body's content starts
        self.header = 0  # where the current declaration starts
        self.branches: list[_Branch] = []
        self.dead_from: int | None = None

    def run(self) -> Masked:
        source = self.source
        at: int | None = 0
        while at is not None:
            token = (_TOKEN_IN_BODY if self.depth else _TOKEN).search(source, at)
            if token and self.depth and token.lastgroup in {"comment", "literal"}:
                at = token.end()  # blanked with its body
            else:
                at = self._token(token) if token else None
        if self.depth:
            _blank(self.code, self.body, len(source))
        if self.dead_from is not None:
            _blank(self.code, self.dead_from, len(source))
        self.masked.code = bytes(self.code)
        return self.masked

    def _token(self, token: re.Match[bytes]) -> int:
        """Take note of one token, blank it if need be, and return where to go on."""
        start, end = token.span()
        kind = token.lastgroup
        if kind == "brace":
            if self.dead_from is None:
                self._brace(self.source[start], start)
        elif kind == "hash":
            before = self.source[max(0, start - _MAX_INDENT) : start]
            if before.rpartition(b"\n")[2].strip():
                return end
            directive = _DIRECTIVE.match(self.source, start)
            assert directive is not None
            end = directive.end()
            self._directive(start, end)
            _blank(self.code, start, end)
        elif kind == "comment":
            self.masked.comments.append((start, end))
            _blank(self.code, start, end)
        else:  # keep the quotes: extern "C" and default arguments need a literal there
            _blank(self.code, start + 1, max(start + 1, end - 1))
            if self.source[start] == ord("R"):  # R"( ... )" becomes a plain literal
                self.code[start : start + 2] = b' "'
        return end

    def _brace(self, char: int, at: int) -> None:
        if char == ord("{"):
            if self.depth:
                self.depth += 1
            elif _opens_scope(bytes(self.code[self.header : at])):
                self.scopes.append(at)
                self.header = at + 1
            else:
                self.depth, self.body = 1, at + 1
        elif char == ord("}"):
            if self.depth > 1:
                self.depth -= 1
            elif self.depth:
                self.depth = 0
                _blank(self.code, self.body, at)
                self.header = at + 1
            else:
                if self.scopes:
                    self.scopes.pop()
                self.header = at + 1
        elif not self.depth:
            self.header = at + 1

    def _directive(self, start: int, end: int) -> None:
        match = _DIRECTIVE_NAME.match(self.source, start, end)
        name = match[1] if match else b""
        if name in {b"if", b"ifdef", b"ifndef"}:
            self.branches.append(_Branch([*self.scopes], self.depth, end))
        elif name in {b"else", b"elif", b"elifdef", b"elifndef"} and self.branches:
            branch = self.branches[-1]
            if branch.first:
                branch.first = False
                # A first branch that changes nesting, or that ends inside a declaration, is one of
                # several beginnings or ends of the same thing: only one may be seen.
                between = bytes(self.code[branch.start : start]).strip()
                inside = not self.depth and bool(between) and between[-1:] not in b";}{"
                if self.depth != branch.depth or self.scopes != branch.scopes or inside:
                    branch.dead = self.dead_from is None
            if branch.dead and self.dead_from is None:
                self.dead_from = end
        elif name == b"endif" and self.branches:
            branch = self.branches.pop()
            if branch.dead and self.dead_from is not None:
                if not self.depth:
                    _blank(self.code, self.dead_from, start)
                self.dead_from = None


def _opens_scope(header: bytes) -> bool:
    """Whether the brace after `header` opens a namespace or a class, not a body."""
    header = header.strip()
    if _SCOPE.search(header[-_LONGEST_NAMESPACE:]):
        return True
    header = _LONE_MACRO.sub(b"", header)
    for _ in range(_MOST_TEMPLATES):
        match = _TEMPLATE.match(header)
        if not match:
            break
        header = header[_close_angle(header, match.end()) :]
        if header.lstrip().startswith(b"requires") or not header.strip():
            break
    bare = bytearray(header)
    for start, end in attributes(header):
        _blank(bare, start, end)
    header = bytes(bare)
    match = _CLASS.match(header)
    if not match:
        return False
    # `struct S f(int) {` is a function; `struct S : Base<decltype(f())> {` is not.
    name = header[match.end() :].replace(b"::", b"  ").split(b":")[0]
    return b"(" not in name and b"=" not in name


def _close_angle(header: bytes, at: int) -> int:
    """Return the offset after the `>` that closes a template header whose `<` ends at `at`."""
    angle, paren = 1, 0
    for at_ in range(at, len(header)):
        char = header[at_]
        if char in b"([":
            paren += 1
        elif char in b")]":
            paren -= 1
        elif not paren and char == ord("<"):
            angle += 1
        elif not paren and char == ord(">") and header[at_ - 1] != ord("-"):
            angle -= 1
            if not angle:
                return at_ + 1
    return len(header)
