"""Names for the sizes that a problem file writes as plain numbers.

Shape variants change module-level integers. A file that says `torch.rand(8192, 4096)` has none, so
its numbers are named: a number in `get_inputs` stands for one size wherever it is written.
"""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from judge.problem.syntax import definitions

_SIZED = ("get_inputs", "get_init_inputs")
# Below this a number in `Model` is a power, a dimension or a window as likely as a size.
_SIZE_IN_MODEL = 9


class _Integer(NamedTuple):
    """A number in the text: its value, its line from 1, and its bytes in that line."""

    value: int
    line: int
    start: int
    end: int


def named_sizes(module: ast.Module, text: str) -> str:
    """Return a problem's text with names for the integers that `get_inputs` writes out.

    The names are assigned after the last line, so that line numbers stay as they are. The text is
    returned as it is where there is nothing to name.
    """
    defined = definitions(module)
    bodies = [node for name in _SIZED if isinstance(node := defined.get(name), ast.FunctionDef)]
    model = defined.get("Model")
    methods = [node for node in getattr(model, "body", []) if isinstance(node, ast.FunctionDef)]
    if not bodies or "\r" in text.replace("\r\n", "\n"):  # lines are counted by line feeds
        return text
    sizes = {node.value for node in _integers(bodies[0])}
    places = [node for body in bodies for node in _integers(body) if node.value in sizes]
    places += [
        node
        for method in methods
        for node in _integers(method)
        if node.value in sizes and node.value >= _SIZE_IN_MODEL
    ]
    taken = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}
    if not places or any(_name(size) in taken for size in sizes):
        return text
    lines = text.encode().split(b"\n")
    for place in sorted(places, key=lambda p: (p.line, p.start), reverse=True):
        line, name = lines[place.line - 1], _name(place.value).encode()
        lines[place.line - 1] = line[: place.start] + name + line[place.end :]
    added = [f"{_name(size)} = {size}".encode() for size in sorted(sizes)]
    return b"\n".join([*lines, *added, b""]).decode()


def _name(size: int) -> str:
    return f"SIZE_{size}"


def _integers(function: ast.FunctionDef) -> Iterator[_Integer]:
    """Yield the integers above 1 in a function's body, its defaults left out."""
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 1:
                assert node.end_col_offset is not None
                yield _Integer(node.value, node.lineno, node.col_offset, node.end_col_offset)
