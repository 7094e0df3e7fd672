"""Reads the arguments of a graph's operators, and of which operator a value is a result."""

import string
from collections.abc import Collection, Iterable
from typing import Any, Final

from judge.graph import Graph, reference
from judge.worker import messages as m

COPIES: Final = frozenset({"alias", "clone", "contiguous", "detach", "lift_fresh_copy"})
"""Operators whose result is their operand, by `base_of`."""


def base_of(operator: str) -> str:
    """`aten.add.Tensor` as add."""
    return operator.removeprefix("aten.").partition(".")[0]


def matmul_letters(left: int, right: int) -> tuple[list[str], str]:
    """Letters for the dimensions of a matrix product's operands, of these ranks, and its result:
    y is summed over."""
    batch = string.ascii_lowercase[: max(left, right, 2) - 2]
    labels = [
        "y" if rank == 1 else batch[len(batch) - (rank - 2) :] + own
        for rank, own in ((left, "xy"), (right, "yz"))
    ]
    return labels, batch + "x" * (left > 1) + "z" * (right > 1)


def einsum_letters(text: str) -> tuple[list[str], str] | None:
    """Letters of an einsum's operands and of its result; None where a dimension has none of its
    own, or the result's are not given."""
    left, arrow, out = text.replace(" ", "").partition("->")
    labels = left.split(",")
    if not arrow or "." in text or any(len({*each}) < len(each) for each in [*labels, out]):
        return None
    return labels, out


def argument(node: m.GraphNode, place: int, default: Any = None) -> Any:
    """An operator's positional argument; `default` where it is not given."""
    return node.args[place] if place < len(node.args) else default


def bind_arguments(node: m.GraphNode, defaults: Iterable[tuple[str, Any]]) -> dict[str, Any] | None:
    """An operator's arguments by name, from names and defaults in order; None if it has others."""
    arguments = dict(defaults)
    if len(node.args) > len(arguments):
        return None
    actual = {"x" if key == "input" else key: value for key, value in node.kwargs.items()}
    actual |= dict(zip(arguments, node.args, strict=False))
    return arguments | actual if actual.keys() <= arguments.keys() else None


def operand(node: m.GraphNode, place: int = 0) -> str | None:
    """The value that is an operator's positional argument; None where it is none."""
    return reference(argument(node, place))


def result_of(
    graph: Graph, root: str, operators: Collection[str], place: int | None = None
) -> str | None:
    """The operator, one of several results of which (that at `place`) a value is."""
    node = graph[root]
    source = operand(node) if node.op == "getitem" and place in (None, node.args[1]) else None
    return source if source is not None and graph[source].op in operators else None


def only_axis(dims: Any, rank: int) -> int | None:
    """The one dimension of a list, counted from the front; None where there is no such."""
    if isinstance(dims, list) and len(dims) == 1 and isinstance(dims[0], int) and rank:
        return int(dims[0]) % rank
    return None
