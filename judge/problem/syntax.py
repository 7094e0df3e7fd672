"""Python files as syntax trees: limits, clear errors, integer arithmetic, what uses what."""

import ast
import hashlib
import io
import tokenize
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kb.errors import KbError
from kb.parsing import PARSING

# The longest published kernel file is some 60 kB; a generated table may be larger.
MAX_FILE_BYTES = 1_000_000
# A constant beyond this is no size. It also bounds what evaluating `2 ** n` may cost.
_LARGEST_INTEGER = 1 << 62


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
            handled = [each for handler in statement.handlers for each in handler.body]
            yield from top_level(statement.body + handled + statement.orelse + statement.finalbody)
        elif isinstance(statement, ast.With):
            yield from top_level(statement.body)


def definitions(module: ast.Module) -> dict[str, ast.stmt]:
    """The statement that defines each module-level name last; imports count."""
    found: dict[str, ast.stmt] = {}
    for statement in top_level(module.body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[statement.name] = statement
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            for alias in statement.names:
                found[(alias.asname or alias.name).partition(".")[0]] = statement
        else:
            for target in _targets(statement):
                for node in ast.walk(target):
                    if isinstance(node, ast.Name):
                        found[node.id] = statement
    return found


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    if isinstance(statement, ast.AnnAssign | ast.AugAssign):
        return [statement.target]
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
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(
            names
        ) == len(values):
            for target, value in zip(names, values, strict=True):
                if isinstance(target, ast.Name) and target.id == name:
                    return value
    return statement


def integer(  # noqa: PLR0911 (one return a kind of node)
    node: ast.expr, known: Mapping[str, int]
) -> int | None:
    """The value of an integer expression over literals and `known` names; None if it is not one."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name):
            return known.get(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value_or_none = integer(operand, known)
            return None if value_or_none is None else -value_or_none
        case ast.Call(func=ast.Name(id="int"), args=[argument], keywords=[]):
            return integer(argument, known)
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, integer(left, known), integer(right, known))
    return None


def _binary(op: ast.operator, left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return None
    result: int | None = None
    match op:
        case ast.Add():
            result = left + right
        case ast.Sub():
            result = left - right
        case ast.Mult():
            result = left * right
        case ast.FloorDiv() if right:
            result = left // right
        case ast.Mod() if right:
            result = left % right
        case ast.Pow() if 0 <= right <= 62 and abs(left) <= _LARGEST_INTEGER:
            result = left**right
        case ast.LShift() if 0 <= right <= 62:
            result = left << right
    return result if result is not None and abs(result) <= _LARGEST_INTEGER else None
