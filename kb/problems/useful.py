"""How much of a dense product is needed: triangles and causal masks leave a part of it out."""

from itertools import permutations
from typing import Final

from kb.problems.values import Operator, Tensor

LOWER, FULL, UPPER = -1, 0, 1
_PARTS: Final = {"tril": LOWER, "triu": UPPER}
# Operators looked at behind a mask; a module spells one out in a handful.
_MASK_OPERATORS = 24


def triangle_of(tensor: Tensor) -> int:
    """Return the part of a matrix that is not zero: -1 the lower triangle, 1 the upper, 0 all."""
    producer = tensor.made_by
    # A view of it may be transposed.
    if producer is None or producer.outputs[0] is not tensor or producer.facts.get("diagonal") != 0:
        return FULL
    return _PARTS.get(producer.name, FULL)


def triangles_of(product: Operator, result: Operator | None = None) -> tuple[int, int, int]:
    """Return the parts of a product's factors and of its result, as `triangle_of` names them."""
    left, right = (triangle_of(input_) for input_ in product.inputs[:2])
    out = FULL if result is None else triangle_of(result.outputs[0])
    if out == FULL and left == right:
        out = left  # the product of two lower triangles is one
    return left, right, out


def triangular_share(product: Operator, parts: tuple[int, int, int]) -> float:
    """Return the share of a square product's multiplications that can be other than zero.

    Of `c[i, j] += a[i, k] * b[k, j]` each triangle orders two of the three indices; all six orders
    are equally frequent.
    """
    sides = {product.facts.get(axis) for axis in "mnk"}
    if len(sides) != 1 or None in sides:
        return 1.0
    fitting = 0
    for i, j, k in permutations(range(3)):
        pairs = zip(parts, ((i, k), (k, j), (i, j)), strict=True)
        fitting += all(part == FULL or (column - row) * part > 0 for part, (row, column) in pairs)
    return fitting / 6


def is_causal(mask: Operator) -> bool:
    """Whether a triangle is behind the operator that masks scores."""
    waiting = [t.made_by for t in mask.inputs if t.made_by is not None]
    visited: list[Operator] = []
    while waiting and len(visited) < _MASK_OPERATORS:
        op = waiting.pop(0)
        if any(op is operator for operator in visited) or op.kind in {"matmul", "softmax"}:
            continue
        if op.name in _PARTS:
            return True
        visited.append(op)
        waiting += [t.made_by for t in op.inputs if t.made_by is not None]
    return False


def causal_share(queries: int | None, keys: int | None) -> float:
    """Return the share of the scores that a causal mask keeps: query i sees keys 0 to i."""
    if not queries or not keys:
        return 1.0
    diagonal = min(queries, keys)
    return (diagonal * (diagonal + 1) / 2 + (queries - diagonal) * keys) / (queries * keys)
