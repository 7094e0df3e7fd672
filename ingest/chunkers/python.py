"""Chunk Python and Triton by function, with tree-sitter.

A Triton kernel followed directly by the function that launches it is one piece if both fit, because
neither is usable without the other. If they do not fit, or other code lies between them, they are
two pieces and the launcher's `calls` names the kernel.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import tree_sitter_python
from tree_sitter import Language, Node, Parser

from ingest.chunkers.limits import CLASS_CHARS, MAX_CHARS
from ingest.chunkers.piece import Piece
from ingest.chunkers.spans import Span, around_members, assemble_code, one_line, span_chars

_DEFINITIONS = {"function_definition", "class_definition", "decorated_definition"}
_BLOCKS = _DEFINITIONS | {
    "block", "module", "if_statement", "for_statement", "while_statement", "try_statement",
    "with_statement", "else_clause", "elif_clause", "except_clause", "finally_clause",
    "match_statement", "case_clause",
}  # fmt: skip
_JIT = {"jit", "triton.jit", "gluon.jit", "tl.jit", "triton.experimental.gluon.jit"}
_TRITON_NAMES = ("tl.", "triton.", "gl.", "ttgl.")
# The grammar takes time quadratic in a run of continued lines. In one that is longer than people
# write, the backslashes are blanked, so that its lines stand alone.
_MOST_CONTINUED = 100


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_python.language()))


def chunk_python(text: str) -> list[Piece]:
    """Chunk Python source by function; see the module's docstring for Triton.

    Decorators and the comment lines directly above stay with a function. Classes up to
    `CLASS_CHARS` stay whole, larger ones become their methods. All other lines (imports, constants,
    what does not parse) become windows.
    """
    lines = text.split("\n")
    source = text.encode("utf-8", "surrogatepass")
    root = _parser().parse(_without_long_continuations(source)).root_node
    module = _Module(lines, root)
    spans = _keep_launchers([*module.spans(root, "")], lines)
    return assemble_code(lines, spans, "python")


def _without_long_continuations(source: bytes) -> bytes:
    """The source, as long as it was, without runs of continued lines that nobody wrote by hand."""
    lines = source.split(b"\n")
    continued = 0
    for row, line in enumerate([*lines, b""]):
        if line.endswith(b"\\"):
            continued += 1
            continue
        if continued > _MOST_CONTINUED:
            for at in range(row - continued, row):
                lines[at] = lines[at][:-1] + b" "
        continued = 0
    return b"\n".join(lines)


class _Module:
    """One parsed file: its lines, and which of its functions are Triton kernels."""

    def __init__(self, lines: list[str], root: Node) -> None:
        self.lines = lines
        head = "\n".join(line for line in lines if "import" in line)
        self.triton = "triton" in head
        self.kernels = frozenset(self._kernel_names(root)) if self.triton else frozenset()

    def _kernel_names(self, node: Node) -> Iterator[str]:
        for child in node.named_children:
            if child.type == "decorated_definition" and _is_jit(child):
                definition = child.child_by_field_name("definition")
                yield _name(definition)
            elif child.type in _BLOCKS:
                yield from self._kernel_names(child)

    def spans(self, node: Node, scope: str) -> Iterator[Span]:
        """Yield the functions and classes below `node`, outermost first."""
        for child in node.named_children:
            if child.type in _DEFINITIONS:
                yield from self._definition(child, scope)
            elif child.type in _BLOCKS or child.type == "ERROR":
                yield from self.spans(child, scope)

    def _definition(self, outer: Node, scope: str) -> Iterator[Span]:
        node = (
            outer.child_by_field_name("definition")
            if outer.type == "decorated_definition"
            else outer
        )
        if node is None or not _name(node):
            return
        symbol = scope + _name(node)
        span = self._span(outer, node, symbol)
        size = span_chars(self.lines, span)
        body = node.child_by_field_name("body")
        if node.type == "class_definition" and size > CLASS_CHARS and body is not None:
            members = self.spans(body, symbol + ".")
            yield from around_members(self.lines, span, members)
        else:
            if size > MAX_CHARS:
                span.breaks = _statement_rows(node)
            yield span

    def _span(self, outer: Node, node: Node, symbol: str) -> Span:
        start, (row, column) = outer.start_point.row, outer.end_point
        end = row + 1 if column else max(row, start + 1)
        while start and self.lines[start - 1].lstrip().startswith("#"):
            start -= 1
        kernel = outer.type == "decorated_definition" and self.triton and _is_jit(outer)
        calls = tuple(dict.fromkeys(_launched_kernels(node, self.kernels))) if self.triton else ()
        text = _text(node) if self.triton else ""
        triton = kernel or calls or any(name in text for name in _TRITON_NAMES)
        body = node.child_by_field_name("body")
        return Span(
            start,
            end,
            "triton" if triton else "python",
            symbol=symbol,
            signature=_signature(node, body),
            is_kernel=kernel,
            calls=calls,
        )


def _keep_launchers(spans: list[Span], lines: list[str]) -> list[Span]:
    """Join each kernel with the launcher that directly follows it, if both fit in one piece."""
    out: list[Span] = []
    for span in spans:
        last = out[-1] if out else None
        if (
            last is not None
            and last.is_kernel
            and not span.is_kernel
            and last.symbol in span.calls
            and not any(line.strip() for line in lines[last.end : span.start])
            and sum(len(line) + 1 for line in lines[last.start : span.end]) <= MAX_CHARS
        ):
            out[-1] = replace(last, end=span.end, calls=span.calls)
        else:
            out.append(span)
    return out


def _text(node: Node | None) -> str:
    return (node.text or b"").decode("utf-8", "replace") if node is not None else ""


def _name(node: Node | None) -> str:
    return _text(node.child_by_field_name("name")) if node is not None else ""


def _is_jit(decorated: Node) -> bool:
    for child in decorated.named_children:
        if child.type == "decorator":
            expression = child.named_child(0) if child.named_child_count else None
            if expression is not None and expression.type == "call":
                expression = expression.child_by_field_name("function")
            if _text(expression) in _JIT:
                return True
    return False


def _launched_kernels(node: Node, kernels: frozenset[str]) -> Iterator[str]:
    """Yield the kernels that `node` launches: `kernel[grid](...)`."""
    stack = [node]
    while stack:
        current = stack.pop()
        if current.type == "call":
            target = current.child_by_field_name("function")
            if target is not None and target.type == "subscript":
                name = _text(target.child_by_field_name("value"))
                # An imported kernel is known only by its name.
                if name in kernels or "kernel" in name.rsplit(".", 1)[-1]:
                    yield name
        stack.extend(reversed(current.named_children))


def _signature(node: Node, body: Node | None) -> str | None:
    text = node.text or b""
    head = text[: body.start_byte - node.start_byte] if body is not None else text
    code = "\n".join(line.split("  #")[0] for line in head.decode("utf-8", "replace").split("\n"))
    return one_line(code.rstrip().removesuffix(":"))


def _statement_rows(node: Node) -> dict[int, int]:
    """Return row -> nesting depth of the statements in `node`, for cutting an over-long one."""
    rows: dict[int, int] = {}
    stack = [(node, 0)]
    while stack:
        current, depth = stack.pop()
        for child in current.named_children:
            if current.type == "block":
                rows.setdefault(child.start_point.row, depth)
            if child.type in _BLOCKS:
                stack.append((child, depth + (child.type == "block")))
    return rows
