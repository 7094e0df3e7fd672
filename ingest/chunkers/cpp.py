"""Chunk CUDA and C++ by function, with tree-sitter on blanked source (see `cpp_mask`)."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

from ingest.chunkers.cpp_mask import Masked, mask
from ingest.chunkers.limits import CLASS_CHARS, MAX_CHARS, NAME_CHARS
from ingest.chunkers.piece import Piece
from ingest.chunkers.spans import Span, around_members, assemble_code, one_line

_CLASSES = {"class_specifier", "struct_specifier", "union_specifier"}
# What begins a declaration that stands within it.
_HEADERS = {
    "template_declaration", "linkage_specification", "declaration", "field_declaration",
    "type_definition",
}  # fmt: skip
_WRAPPERS = _HEADERS | {
    "translation_unit", "declaration_list", "ERROR", "field_declaration_list", "export_declaration",
}  # fmt: skip
_NAMES = {
    "identifier", "field_identifier", "qualified_identifier", "destructor_name", "operator_name",
    "template_function", "operator_cast", "type_identifier", "template_method",
}  # fmt: skip
_CUDA_FILE = re.compile(r"__global__|__device__|__shared__|<<<|\b\w*_(?:HOST_)?DEVICE\b")
_KERNEL = re.compile(rb"\b__global__\b|\b[A-Z_]*(?:_GLOBAL|KERNEL_ATTRIBUTES)\b")
_OPERATOR = re.compile(r"\boperator\b")
_DIRECTIVE_LINE = re.compile(rb"^[ \t]*#.*$", re.MULTILINE)

# What opens, closes and ends statements in a body, and what may hold such marks.
_STATEMENT_MARK = re.compile(
    rb"""
      //[^\n]* | /\*.*?(?:\*/|\Z) | R"(?P<tag>[^()\\\s"]{0,16})\(.*?(?:\)(?P=tag)"|\Z)
              | "(?:\\.|[^"\\\n])*"? | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'?
    | [{}();\[\]]
    """,
    re.VERBOSE | re.DOTALL,
)
_STATEMENT_END = re.compile(rb"[ \t]*(?://[^\n]*)?\n")


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cpp.language()))


@dataclass(frozen=True, slots=True)
class Definition:
    """A function with a body: exact byte range, from `template` or its attributes to its `}`."""

    start: int
    end: int
    body: int
    """Offset of the body's opening brace."""
    symbol: str
    is_kernel: bool


def chunk_cpp(text: str, *, cuda: bool = False) -> list[Piece]:
    """Chunk C++ by function; a file that uses CUDA's own words is CUDA even without `cuda`.

    A function's piece holds its template header, its attributes and the comment lines directly
    above. Classes up to `CLASS_CHARS` stay whole, larger ones become their methods. All other lines
    become windows under the enclosing class's name, if there is one.
    """
    language = "cuda" if cuda or _CUDA_FILE.search(text) else "cpp"
    lines = text.split("\n")
    file = _File(text.encode("utf-8", "surrogatepass"), lines, language)
    return assemble_code(lines, file.spans, language)


def definitions(source: bytes, *, masked: Masked | None = None) -> list[Definition]:
    """Return every function definition found in `source`, methods included, in file order.

    `masked` is the blanked source, if the caller has it already.
    """
    lines = source.decode("utf-8", "replace").split("\n")
    functions = _File(source, lines, "cuda", masked).definitions
    return sorted(functions, key=lambda definition: definition.start)


class _File:
    """One parsed file: its definitions, and the spans they make."""

    def __init__(
        self, source: bytes, lines: list[str], language: str, masked: Masked | None = None
    ) -> None:
        self.source = source
        self.lines = lines
        self.language = language
        self.masked = masked or mask(source)
        self.starts = [0, *(match.end() for match in re.finditer(b"\n", source))]
        self.comment_ends = [end for _, end in self.masked.comments]
        self.definitions: list[Definition] = []
        root = _parser().parse(self.masked.code).root_node
        self.spans = list(self._walk(root, ""))

    def _walk(self, node: Node, scope: str) -> Iterator[Span]:
        for child in node.named_children:
            yield from self._visit(child, child, scope)

    def _visit(self, node: Node, outer: Node, scope: str) -> Iterator[Span]:
        """Yield the spans of `node`, whose declaration starts with `outer` (a template header)."""
        kind = node.type
        if kind == "function_definition":
            body = node.child_by_field_name("body")
            if body is not None and body.type == "compound_statement":
                yield self._function(node, outer, body, scope)
            elif body is None:
                yield from self._walk(node, scope)
        elif kind in _CLASSES:
            yield from self._class(node, outer, scope)
        elif kind == "namespace_definition":
            name = self._name(node.child_by_field_name("name"))
            yield from self._walk(node, f"{scope}{name}::" if name else scope)
        elif kind in _WRAPPERS:
            for child in node.named_children:
                keep_outer = kind in _HEADERS and child.type != "declaration_list"
                yield from self._visit(child, outer if keep_outer else child, scope)

    def _function(self, node: Node, outer: Node, body: Node, scope: str) -> Span:
        start = self.masked.declaration_start(self.source, outer.start_byte)
        symbol = scope + self._declarator_name(node)
        kernel = bool(_KERNEL.search(self._code(start, body.start_byte)))
        self.definitions.append(Definition(start, outer.end_byte, body.start_byte, symbol, kernel))
        span = self._span(start, outer.end_byte, symbol)
        span.is_kernel = kernel
        span.signature = self._signature(start, body.start_byte)
        if outer.end_byte - start > MAX_CHARS:
            at = body.start_byte
            span.breaks = _statement_rows(self.source, at, body.end_byte, self._row(at))
        return span

    def _class(self, node: Node, outer: Node, scope: str) -> Iterator[Span]:
        body = node.child_by_field_name("body")
        name = self._name(node.child_by_field_name("name"))
        if body is None:
            return
        start = self.masked.declaration_start(self.source, outer.start_byte)
        whole = self._span(start, outer.end_byte, scope + name if name else None)
        whole.signature = self._signature(start, body.start_byte)
        inner = _without_arguments(name)
        members = list(self._walk(body, f"{scope}{inner}::" if inner else scope))
        if outer.end_byte - start <= CLASS_CHARS:
            yield whole
            return
        yield from around_members(self.lines, whole, members)

    def _span(self, start: int, end: int, symbol: str | None) -> Span:
        first = self._leading_comment(self._row(start))
        return Span(first, self._row(end - 1) + 1, self.language, symbol=symbol)

    def _leading_comment(self, row: int) -> int:
        """Return the first row of the comments directly above `row`."""
        first = row
        at = bisect_right(self.comment_ends, self.starts[row]) - 1
        while at >= 0:
            start, end = self.masked.comments[at]
            top = self._row(start)
            if self._row(end) != first - 1 or self.source[self.starts[top] : start].strip():
                break
            first = top
            at -= 1
        return first

    def _row(self, offset: int) -> int:
        return bisect_right(self.starts, offset) - 1

    def _declarator_name(self, node: Node) -> str:
        current = node.child_by_field_name("declarator")
        while current is not None and current.type not in _NAMES:
            current = current.child_by_field_name("declarator") or next(
                (
                    child
                    for child in current.named_children
                    if "declarator" in child.type or child.type in _NAMES
                ),
                None,
            )
        return self._name(current)

    def _name(self, node: Node | None) -> str:
        """Return a name on one line; template arguments stay only where they are short."""
        if node is None:
            return ""
        text = self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")
        name = " ".join(text.split())
        if _OPERATOR.search(name):
            return name
        name = name.replace(" ::", "::").replace(":: ", "::").replace(" <", "<")
        short = len(name) <= NAME_CHARS and node.type == "template_type"
        # What is left before a space is a macro that the grammar took for a type.
        return name if short else _without_arguments(name).rsplit(" ", 1)[-1]

    def _code(self, start: int, end: int) -> bytes:
        """Return the source from `start` to `end` without comments and directives."""
        out = bytearray(self.source[start:end])
        at = bisect_left(self.masked.comments, (start, start))
        for first, last in self.masked.comments[at:]:
            if first >= end:
                break
            out[first - start : last - start] = b" " * (min(last, end) - first)
        return bytes(out)

    def _signature(self, start: int, end: int) -> str | None:
        code = _DIRECTIVE_LINE.sub(b"", self._code(start, end))
        return one_line(code.decode("utf-8", "replace"))


def _statement_rows(source: bytes, start: int, end: int, row: int) -> dict[int, int]:
    """Return row -> brace depth of the statements in `source[start:end]`, which starts in `row`.

    A row counts when the line above ends a statement or opens a block, outside any parentheses of
    its own block; comments and blank lines go with the statement below.
    """
    rows: dict[int, int] = {}
    outer: list[int] = []  # for each open brace, the parentheses open around it
    parens = 0
    counted = start
    for token in _STATEMENT_MARK.finditer(source, start, end):
        mark = token[0]
        if mark == b"{":
            outer.append(parens)
            parens = 0
        elif mark == b"}":
            parens = outer.pop() if outer else 0
        elif mark in b"([":
            parens += 1
            continue
        elif mark in b")]":
            parens = max(0, parens - 1)
            continue
        elif mark != b";":
            continue
        if not parens and _STATEMENT_END.match(source, token.end(), end):
            row += source.count(b"\n", counted, token.end())
            counted = token.end()
            rows[row + 1] = len(outer)
    return rows


def _without_arguments(name: str) -> str:
    """A name without what stands between its first `<` and its last `>`."""
    first, last = name.find("<"), name.rfind(">")
    return name if first < 0 or last < first else name[:first] + name[last + 1 :]
