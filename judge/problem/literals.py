"""Names for the sizes that a problem file writes as plain numbers.

Shape variants change module-level integers. A file that says `torch.rand(8192, 4096)` has none, so
its numbers are named: a number in `get_inputs` stands for one size wherever it is written.
"""

import ast
from collections.abc import Iterator

from judge.problem.syntax import definition_of, definitions

_SIZED = ("get_inputs", "get_init_inputs")
# Below this a number in `Model` is a power, a dimension or a window as likely as a size.
_SIZE_IN_MODEL = 9


def named_sizes(module: ast.Module, text: str) -> str:
    """Return a problem's text with names for the integers that `get_inputs` writes out.

    The names are assigned after the last line, so that line numbers stay as they are. The text is
    returned as it is where there is nothing to name.
    """
    defined = definitions(module)
    named = (definition_of(defined, name, ast.FunctionDef) for name in _SIZED)
    bodies = [node for node in named if node is not None]
    model = definition_of(defined, "Model", ast.ClassDef)
    body = model.body if model is not None else []
    methods = [node for node in body if isinstance(node, ast.FunctionDef)]
    if not bodies or "\r" in text.replace("\r\n", "\n"):  # lines are counted by line feeds
        return text
    sizes = {size for size, _ in _integers(bodies[0])}
    places = [place for body in bodies for place in _integers(body) if place[0] in sizes]
    in_methods = (place for method in methods for place in _integers(method))
    places += [place for place in in_methods if place[0] in sizes and place[0] >= _SIZE_IN_MODEL]
    used_names = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}
    if not places or any(_name(size) in used_names for size in sizes):
        return text
    lines = text.encode().split(b"\n")
    for size, use in sorted(places, key=lambda p: (p[1].lineno, p[1].col_offset), reverse=True):
        line, name = lines[use.lineno - 1], _name(size).encode()
        lines[use.lineno - 1] = line[: use.col_offset] + name + line[use.end_col_offset :]
    assignments = [f"{_name(size)} = {size}".encode() for size in sorted(sizes)]
    return b"\n".join([*lines, *assignments, b""]).decode()


def _name(size: int) -> str:
    return f"SIZE_{size}"


def _integers(function: ast.FunctionDef) -> Iterator[tuple[int, ast.Constant]]:
    """Yield the integers above 1 in a function's body and their nodes, its defaults left out."""
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 1:
                yield node.value, node
