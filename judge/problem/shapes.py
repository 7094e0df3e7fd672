"""The shapes that `get_inputs` makes, worked out from its syntax tree without running it."""

import ast
import functools
from collections.abc import Iterator, Mapping

from judge.problem.syntax import (
    assignment,
    definitions,
    integer,
    named_values,
    parse,
    reachable_names,
)

Shape = tuple[int, ...]

# torch's factories, and which of their arguments give the shape.
_SIZES = dict.fromkeys(("rand", "randn", "zeros", "ones", "empty"), slice(None)) | {
    "full": slice(1), "randint": slice(-1, None), "normal": slice(-1, None),
}  # fmt: skip
_COUNTS = frozenset({"randperm", "arange"})


def input_shapes(text: str, name: str) -> list[Shape] | None:
    """Shapes of the tensors made by torch's factories in `get_inputs` and what it calls.

    None where one of them cannot be told from literals and module-level constants.

    Raises
    ------
    ProblemFileError
        If `text` is not Python.
    """
    shapes = _input_shapes(text, name)
    return None if shapes is None else list(shapes)


# Variants of a problem are tried at tens of sizes, several times over.
@functools.lru_cache(maxsize=512)
def _input_shapes(text: str, name: str) -> tuple[Shape, ...] | None:
    module = parse(text, name)
    defined = definitions(module)
    integers: dict[str, int] = {}
    tuples: dict[str, Shape] = {}
    for statement in module.body:
        _assign(statement, integers, tuples)
    shapes: list[Shape] = []
    for function_name in sorted(reachable_names(module, ["get_inputs"])):
        function = defined[function_name]
        if not isinstance(function, ast.FunctionDef):
            continue
        local_integers, local_tuples = dict(integers), dict(tuples)
        for node in _in_order(function):
            if isinstance(node, ast.Assign):
                _assign(node, local_integers, local_tuples)
            elif isinstance(node, ast.Call):
                arguments = _shape_arguments(node)
                if arguments is None:
                    continue
                shape = _shape(arguments, local_integers, local_tuples)
                if shape is None:
                    return None
                shapes.append(shape)
    return tuple(shapes) or None


def _in_order(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Assignments and calls in the order of the text: near enough to how they execute."""
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Assign | ast.Call)]
    # An assignment follows the call whose result it stores.
    return iter(sorted(nodes, key=lambda node: (node.lineno, isinstance(node, ast.Assign))))


def _assign(statement: ast.AST, integers: dict[str, int], tuples: dict[str, Shape]) -> None:
    if (pair := assignment(statement)) is None:
        return
    targets, value = pair
    for target in targets:
        for name, node in named_values(target, value):
            number = integer(node, integers)
            if isinstance(target, ast.Name):
                shape = _elements(node, integers, tuples)
                integers.pop(name, None)
                tuples.pop(name, None)
                if number is None and shape is not None:
                    tuples[name] = shape
            if number is not None:
                integers[name] = number


def _elements(
    node: ast.expr, integers: Mapping[str, int], tuples: Mapping[str, Shape]
) -> Shape | None:
    if isinstance(node, ast.Name):
        return tuples.get(node.id)
    if isinstance(node, ast.Tuple | ast.List):
        return _shape(node.elts, integers, tuples)
    return None


def _shape_arguments(call: ast.Call) -> list[ast.expr] | None:
    """The arguments that give the shape, if a factory is called."""
    name = getattr(call.func, "attr", getattr(call.func, "id", None))
    if name in _SIZES:
        sizes = [keyword.value for keyword in call.keywords if keyword.arg == "size"]
        return sizes[:1] or call.args[_SIZES[name]]
    if name in _COUNTS and call.args:
        return call.args[1:2] or call.args[:1]
    return None


def _shape(
    arguments: list[ast.expr], integers: Mapping[str, int], tuples: Mapping[str, Shape]
) -> Shape | None:
    shape: list[int] = []
    for argument in arguments:
        node = argument.value if isinstance(argument, ast.Starred) else argument
        elements = _elements(node, integers, tuples)
        if (number := _number(node, integers, tuples)) is not None:
            shape.append(number)
        elif elements is not None:
            shape.extend(elements)
        else:
            return None
    return tuple(shape)


def _number(node: ast.expr, integers: Mapping[str, int], tuples: Mapping[str, Shape]) -> int | None:
    """The value of `shape[0]` or of an integer expression."""
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int() as index)):
            shape = tuples.get(name, ())
            return shape[index] if -len(shape) <= index < len(shape) else None
    return integer(node, integers)
