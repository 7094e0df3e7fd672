"""Attributes and parts of tensors, and functions of plain values."""

import ast
from collections.abc import Callable
from typing import Any

from kb.problems.arithmetic import bounded
from kb.problems.moves import view
from kb.problems.values import UNKNOWN, Library, Method, Shape, Tensor, product

# Dimensions of a table of matrices.
MATRICES = 3


def index_shape(shape: Shape, parts: list[Any]) -> Shape | None:
    """Return the shape of a part of a tensor; None where an index is not known."""
    lengths: list[int | None] = []
    place = 0
    for part in parts:
        if part is None:
            lengths.append(1)
            continue
        if place >= len(shape):
            return None
        old = shape[place]
        place += 1
        if isinstance(part, slice):
            bounds = (part.start, part.stop, part.step)
            is_known = old is not None and all(b is None or isinstance(b, int) for b in bounds)
            lengths.append(len(range(*part.indices(old))) if is_known else None)  # type: ignore[arg-type]
        elif not isinstance(part, int) and not (part is UNKNOWN and len(shape) == MATRICES):
            return None  # a matrix of a table is picked by a number, as a rule
    return (*lengths, *shape[place:])


def lengths(tensor: Tensor) -> Any:
    """Return a tensor's shape as values; `UNKNOWN` stands for what is not stated."""
    if tensor.shape is None:
        return UNKNOWN
    return tuple(UNKNOWN if size is None else size for size in tensor.shape)


def length_at(shape: Any, index: Any) -> Any:
    """Return one length of a shape."""
    fits = isinstance(shape, tuple) and isinstance(index, int) and -len(shape) <= index < len(shape)
    return shape[index] if fits else UNKNOWN


def tensor_attribute(tensor: Tensor, name: str) -> Any:  # noqa: PLR0911
    """Return an attribute of a tensor, such as its shape."""
    match name:
        case "shape":
            return lengths(tensor)
        case "ndim":
            return UNKNOWN if tensor.shape is None else len(tensor.shape)
        case "dtype":
            return Library(f"torch.{tensor.dtype}")
        case "T" | "mT" | "H" | "mH":
            return view(tensor, "t", [], {})
        case "device" | "requires_grad" | "grad" | "is_cuda" | "layout":
            return UNKNOWN
        case "data" | "real":
            return tensor
    return Method(tensor, name)


def arithmetic(function: Callable[..., Any], values: list[Any], name: str) -> Any:
    """Return what a function of `math` gives; `UNKNOWN` unless all its arguments are numbers."""
    if not all(isinstance(value, int | float | list | tuple) for value in values):
        return UNKNOWN
    if name == "prod":
        return product(values[0]) or UNKNOWN
    if name == "pow":
        return bounded(ast.Pow(), *values[:2])
    return function(*values)


def ordered_dict(args: list[Any]) -> Any:
    """Return an ordered dictionary as a plain one."""
    pairs = args[0] if args else []
    if isinstance(pairs, dict):
        return pairs
    if not isinstance(pairs, list | tuple):
        return {}
    return {e[0]: e[1] for e in pairs if isinstance(e, tuple) and len(e) == 2}


def values(name: str, result: Any) -> Any:
    """Return what a call returns: `amax` gives no indices, where `max` does."""
    return result[0] if name in {"amax", "amin"} and isinstance(result, tuple) else result
