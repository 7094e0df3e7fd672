"""Finds the documentation of functions, and blanks it in place, so that line numbers stay true.

Taken out of Python: docstrings of modules, classes and functions, and comments directly above a
definition. Out of C++ and CUDA: comments directly above a function with a body, and every comment
in Doxygen's style. Other comments are code and stay.
"""

import re
import textwrap
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath

import tree_sitter_python
from tree_sitter import Language, Node, Parser

from ingest.chunkers import CPP_SUFFIXES, PYTHON_SUFFIXES
from ingest.chunkers.cpp import definitions
from ingest.chunkers.cpp_mask import mask

_DEFINITIONS = {"function_definition", "class_definition"}
_DOXYGEN = re.compile(rb"/\*[*!](?![*/])|//[/!](?!/)")
_MARKS = re.compile(
    r"^[ \t]*(?:/\*+!?<?|\*+/|\*(?!\*)|//+[!<]*)?[ \t]?|[ \t]*\*+/[ \t]*$", re.MULTILINE
)
_STRING = re.compile(r"^[rRbBuU]*(\"\"\"|'''|\"|')(.*)\1$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Documented:
    """A function that a docstring or a comment above it describes."""

    symbol: str
    """Qualified by classes and namespaces, not by functions around it."""
    line: int
    """1-based, of its `def`, or of its template header or first attribute."""
    end_line: int
    """Inclusive."""
    doc: str
    """Its documentation, dedented, without the marks of a string or comment."""
    is_kernel: bool
    """A Triton or other jitted function, or one that is `__global__`."""


def without_documentation(path: PurePosixPath, text: str) -> tuple[str, list[Documented]]:
    """Blank the documentation of a file's functions, and return it.

    Returns
    -------
    str
        As many lines as `text`. A function that had nothing but a docstring has `...` instead.
    list of Documented
        In file order; empty for files other than Python, C++ and CUDA.
    """
    suffix = path.suffix.lower()
    source = text.encode("utf-8", "surrogatepass")
    if suffix in PYTHON_SUFFIXES:
        functions, blanked = _python(source)
    elif suffix in CPP_SUFFIXES:
        functions, blanked = _cpp(source)
    else:
        return text, []
    return blanked.decode("utf-8", "surrogatepass"), functions


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_python.language()))


def _python(source: bytes) -> tuple[list[Documented], bytes]:
    root = _parser().parse(source).root_node
    blanked = bytearray(source)
    functions = list(_definitions(root, "", source, blanked))
    return sorted(functions, key=lambda function: function.line), bytes(blanked)


def _definitions(
    node: Node, scope: str, source: bytes, blanked: bytearray, *, nested: bool = False
) -> Iterator[Documented]:
    """Yield the documented functions below `node`; one inside another function is only blanked."""
    if node.type == "module":
        _blank_docstring(node, blanked)
    for child in node.named_children:
        if child.type not in _DEFINITIONS:
            yield from _definitions(child, scope, source, blanked, nested=nested)
            continue
        name, body = child.child_by_field_name("name"), child.child_by_field_name("body")
        symbol = scope + _text(name)
        outer = child.parent if _is_decorated(child) else child
        assert outer is not None  # a decorated definition is inside one
        _blank_lines_above(outer.start_byte, source, blanked)
        doc = _blank_docstring(body, blanked) if body is not None else None
        is_class = child.type == "class_definition"
        if doc and not is_class and not nested:
            decorators = source[outer.start_byte : child.start_byte]
            yield Documented(
                symbol,
                child.start_point.row + 1,
                child.end_point.row + 1,
                doc,
                is_kernel=b"jit" in decorators or b"cute.kernel" in decorators,
            )
        if body is not None:
            inner = symbol + "." if is_class else scope
            yield from _definitions(body, inner, source, blanked, nested=nested or not is_class)


def _is_decorated(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "decorated_definition"


def _text(node: Node | None) -> str:
    return (node.text or b"").decode("utf-8", "replace") if node is not None else ""


def _blank_docstring(body: Node, blanked: bytearray) -> str | None:
    """Blank the docstring of a module or body, and return its content."""
    statements = [child for child in body.named_children if child.type != "comment"]
    if not statements or statements[0].type != "expression_statement":
        return None
    string = statements[0].named_child(0)
    if string is None or string.type != "string" or statements[0].named_child_count != 1:
        return None
    literal = _STRING.match(_text(string))
    is_only_statement = len(statements) == 1 and body.type != "module"
    _blank(blanked, string.start_byte, string.end_byte)
    if is_only_statement:
        blanked[string.start_byte : string.start_byte + 3] = b"..."
    if literal is None:
        return None
    first, _, rest = literal[2].partition("\n")
    return f"{first.strip()}\n{textwrap.dedent(rest)}".strip() or None


def _blank_lines_above(offset: int, source: bytes, blanked: bytearray) -> None:
    """Blank the comment lines that end right above the line of `offset`."""
    end = source.rfind(b"\n", 0, offset) + 1
    while end:
        start = source.rfind(b"\n", 0, end - 1) + 1
        if not source[start:end].lstrip().startswith(b"#"):
            return
        _blank(blanked, start, end)
        end = start


def _blank(blanked: bytearray, start: int, end: int) -> None:
    blanked[start:end] = re.sub(rb"[^\n]", b" ", bytes(blanked[start:end]))


def _cpp(source: bytes) -> tuple[list[Documented], bytes]:
    starts = [0, *(match.end() for match in re.finditer(b"\n", source))]
    masked = mask(source)
    blanked = bytearray(source)

    def row(offset: int) -> int:
        return bisect_right(starts, offset) - 1

    ending = {row(end): (start, end) for start, end in masked.comments}
    functions: list[Documented] = []
    for definition in definitions(source, masked=masked):
        first = last = row(definition.start)
        while (comment := ending.get(first - 1)) is not None:
            top = row(comment[0])
            if source[starts[top] : comment[0]].strip():
                break  # the comment follows code on its line
            first = top
        if first == last:
            continue
        text = source[starts[first] : starts[last]]
        _blank(blanked, starts[first], starts[last])
        head = source[definition.start : definition.body]
        functions.append(
            Documented(
                definition.symbol,
                last + 1,
                row(definition.end - 1) + 1,
                _MARKS.sub("", text.decode("utf-8", "replace")).strip(),
                is_kernel=definition.is_kernel or b"__global__" in head,
            )
        )
    for start, end in masked.comments:
        if _DOXYGEN.match(source, start):
            _blank(blanked, start, end)
    return [documented for documented in functions if documented.doc], bytes(blanked)
