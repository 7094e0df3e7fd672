"""Python files as syntax trees: limits, clear errors, integer arithmetic, what uses what."""

import ast
import hashlib
import io
import operator
import tokenize
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from kb.errors import KbError
from kb.parsing import PARSING

# The longest published kernel file is some 60 kB; a generated table may be larger.
MAX_FILE_BYTES = 1_000_000
# A constant beyond this is no size. It also bounds what evaluating `2 ** n` may cost.
_LARGEST_INTEGER = 1 << 62
ARITHMETIC: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
Definition = TypeVar("Definition", bound=ast.stmt)
_INTEGER_OPERATORS: Final = {**ARITHMETIC, ast.Pow: operator.pow, ast.LShift: operator.lshift}


class ProblemFileError(KbError):
    """A problem or kernel file cannot be used. The message names file and line."""

    status = 422


@dataclass(frozen=True, slots=True)
class Text:
    """A file's text and what identifies it."""

    name: str
    """How messages call the file."""
    text: str
    sha256: str
    """Of the bytes, in hexadecimal."""


def read_text(path: Path) -> Text:
    """Read a UTF-8 file of at most `MAX_FILE_BYTES`.

    Raises
    ------
    ProblemFileError
        If it is missing, unreadable, too large or not UTF-8.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ProblemFileError(f"cannot read {path}: {error.strerror or error}") from error
    if len(data) > MAX_FILE_BYTES:
        raise ProblemFileError(f"{path}: larger than {MAX_FILE_BYTES:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ProblemFileError(f"{path}:{line}: not UTF-8 text") from error
    return Text(str(path), text, hashlib.sha256(data).hexdigest())


def parse(text: str, name: str) -> ast.Module:
    """The syntax tree of `text`; nothing is executed.

    Raises
    ------
    ProblemFileError
        If it is not Python, declares an encoding other than UTF-8, or is too deeply nested to
        parse.
    """
    _require_utf8(text, name)
    try:
        with PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as an invalid escape in a string
            return ast.parse(text, filename=name)
    except SyntaxError as error:
        raise ProblemFileError(f"{name}:{error.lineno or 1}: not Python: {error.msg}") from error
    except ValueError as error:  # a null byte, on Python 3.11
        raise ProblemFileError(f"{name}:1: not Python: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise ProblemFileError(f"{name}:1: nested too deeply to parse") from error


def _require_utf8(text: str, name: str) -> None:
    """Refuse a coding comment by which Python would read another text than this one.

    `# -*- coding: utf-7 -*-` makes code of what a reader takes for a comment.
    """
    data = io.BytesIO(text.encode("utf-8", errors="replace"))
    try:
        encoding, _ = tokenize.detect_encoding(data.readline)
    except SyntaxError as error:  # an unknown encoding
        raise ProblemFileError(f"{name}:1: not Python: {error.msg}") from error
    if encoding not in ("utf-8", "utf-8-sig"):
        raise ProblemFileError(
            f"{name}:1: declares the encoding {encoding}: save the file as UTF-8 and remove the "
            "coding comment"
        )


def top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those under `if`, `try` and `with` included."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If):
            yield from top_level(statement.body + statement.orelse)
        elif isinstance(statement, ast.Try):
            handled = [child for handler in statement.handlers for child in handler.body]
            yield from top_level(statement.body + handled + statement.orelse + statement.finalbody)
        elif isinstance(statement, ast.With):
            yield from top_level(statement.body)


def definitions(module: ast.Module) -> dict[str, ast.stmt]:
    """The statement that defines each module-level name last; imports count."""
    statements: dict[str, ast.stmt] = {}
    for statement in top_level(module.body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            statements[statement.name] = statement
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            for alias in statement.names:
                statements[(alias.asname or alias.name).partition(".")[0]] = statement
        else:
            statements |= dict.fromkeys(names_assigned(statement), statement)
    return statements


def definition_of(
    defined: Mapping[str, ast.stmt], name: str, kind: type[Definition]
) -> Definition | None:
    """The class or function that a name of `definitions` stands for: its own, or that of another
    name that it is assigned, as in `Model = Block`."""
    statement = defined.get(name)
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name):
        statement = defined.get(statement.value.id)
    return statement if isinstance(statement, kind) else None


def names_assigned(statement: ast.stmt) -> list[str]:
    """The names in the targets of an assignment, each as often as it stands there."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets = [statement.target]
    return [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]


def assignment(statement: ast.AST) -> tuple[list[ast.expr], ast.expr] | None:
    """Targets and value of `a = 1` and `a: int = 1`; None for what assigns no value."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            return targets, value
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return [target], value
    return None


def named_values(target: ast.expr, value: ast.expr) -> list[tuple[str, ast.expr]]:
    """What each name of a target is given: two pairs of `a, b = 1, 2`."""
    match target, value:
        case [ast.Name(id=name), _]:
            return [(name, value)]
        case [ast.Tuple(elts=names), ast.Tuple(elts=values)] if len(names) == len(values):
            pairs = zip(names, values, strict=True)
            return [(element.id, node) for element, node in pairs if isinstance(element, ast.Name)]
    return []


def reachable_names(module: ast.Module, roots: list[str]) -> set[str]:
    """Module-level names that `roots` use, directly or through other module-level names.

    A local variable that shadows a module-level name counts as a use: this may name too much, never
    too little.
    """
    defined = definitions(module)
    waiting, reached = [name for name in roots if name in defined], set[str]()
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        used = {
            node.id
            for node in ast.walk(_defining(defined[name], name))
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        waiting.extend(used & defined.keys() - reached)
    return reached


def _defining(statement: ast.stmt, name: str) -> ast.AST:
    """The part of a statement that gives `name` its value: one element of `a, b = 1, 2`."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return dict(named_values(statement.targets[0], statement.value)).get(name, statement)
    return statement


def integer(  # noqa: PLR0911 (one return a kind of node)
    node: ast.expr, constants: Mapping[str, int]
) -> int | None:
    """The value of an integer expression over literals and `constants`; None if it is not one."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name):
            return constants.get(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value_or_none = integer(operand, constants)
            return None if value_or_none is None else -value_or_none
        case ast.Call(func=ast.Name(id="int"), args=[argument], keywords=[]):
            return integer(argument, constants)
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, integer(left, constants), integer(right, constants))
    return None


def _binary(op: ast.operator, left: int | None, right: int | None) -> int | None:
    if left is None or right is None or type(op) not in _INTEGER_OPERATORS:
        return None
    grows = isinstance(op, ast.Pow | ast.LShift)
    if grows and not (0 <= right <= 62 and abs(left) <= _LARGEST_INTEGER):
        return None
    if isinstance(op, ast.FloorDiv | ast.Mod) and right == 0:
        return None
    result: int = _INTEGER_OPERATORS[type(op)](left, right)
    return result if abs(result) <= _LARGEST_INTEGER else None


def within(name: str | None, *spaces: str) -> bool:
    """Whether a dotted name is one of `spaces` or stands below one."""
    return name is not None and any(
        name == space or name.startswith(space + ".") for space in spaces
    )
