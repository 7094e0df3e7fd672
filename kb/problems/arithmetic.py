"""Arithmetic of plain values with bounded results: numbers, strings, sequences."""

import ast
import operator
from collections.abc import Callable
from typing import Any, Final

from kb.problems.values import UNKNOWN, Class, Container, Function, Instance, Library, Method

# No size is larger, and no power of such numbers takes long.
LARGEST = 1 << 62
MAX_ITEMS = 4096

_BINARY: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
COMPARE: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b, ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b,
}  # fmt: skip
PLAIN = (int, float, str, bool, type(None), list, tuple, dict)


def truth_of(value: Any) -> bool | None:
    """Return whether a value counts as true; None where that is not known."""
    if isinstance(value, PLAIN):
        return bool(value)
    if isinstance(value, Container):
        return bool(value.items)
    return True if isinstance(value, Instance | Class | Function | Library | Method) else None


def bounded(op: ast.operator, left: Any, right: Any) -> Any:
    """Return a result of plain values, or `UNKNOWN` where it would be large."""
    if isinstance(left, str | list | tuple | dict) or isinstance(right, str | list | tuple | dict):
        return _bounded_sequences(op, left, right)
    if left is None or right is None:
        return UNKNOWN
    exponent = isinstance(op, ast.Pow | ast.LShift | ast.RShift)
    if exponent and not (abs(right) <= 64 and abs(left) <= LARGEST):
        return UNKNOWN
    result = _BINARY[type(op)](left, right) if type(op) in _BINARY else UNKNOWN
    if isinstance(result, int) and abs(result) > LARGEST:
        return UNKNOWN
    return result if isinstance(result, int | float) else UNKNOWN


def _bounded_sequences(op: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(op, ast.Add) and type(left) is type(right) and not isinstance(left, dict):
        return left + right if len(left) + len(right) <= MAX_ITEMS else UNKNOWN
    if isinstance(op, ast.Mult):
        sequence, times = (left, right) if isinstance(right, int) else (right, left)
        fits = isinstance(times, int) and isinstance(sequence, list | tuple | str)
        if fits and len(sequence) * max(times, 0) <= MAX_ITEMS:
            return sequence * times
    return UNKNOWN
