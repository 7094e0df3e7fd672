"""One spelling for operators that a model may spell in several ways, each exactly the same."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from judge.worker import messages as m

# A product with a matrix: all but the last dimension of the left are kept.
_PRODUCT: Final = re.compile(r"(\w+)(\w),\2(\w)->\1\3")
# What returns its operand, or a copy of it.
_COPIES: Final = frozenset({
    "aten.alias.default", "aten.clone.default", "aten.detach.default", "aten.lift_fresh.default",
    "aten.lift_fresh_copy.default",
})  # fmt: skip
_MATRIX_PRODUCTS: Final = ("aten.matmul.default", "aten.mm.default")
_ADAPTIVE: Final = {f"aten.adaptive_avg_pool{rank}d.default": rank for rank in (1, 2, 3)}
_TRAINING: Final = "aten._native_batch_norm_legit_functional.default"
# Of two operands, of an operand and a number.
_EXTREMES: Final = {
    "aten.min.other": ("aten.minimum.default", "aten.clamp_max.default"),
    "aten.max.other": ("aten.maximum.default", "aten.clamp_min.default"),
    "aten.minimum.default": ("aten.minimum.default", "aten.clamp_max.default"),
    "aten.maximum.default": ("aten.maximum.default", "aten.clamp_min.default"),
}


def spelled(nodes: Sequence[m.GraphNode]) -> list[m.GraphNode]:
    """The nodes with constants of one element written as numbers, and:

    an einsum that is a product with a matrix as `matmul`; adaptive average pooling to one element
    as a mean; `min` and `max` of two operands as `minimum` and `maximum`, of one and a number as
    `clamp_max` and `clamp_min`; batch norm that updates running statistics as the one that has
    none (`Graph.updates` names them); a product with a diagonal matrix as a scaling.
    """
    numbers: dict[str, Any] = {}
    found: list[m.GraphNode] = []
    for each in nodes:
        node = with_values(each, numbers)
        constant = node.op == "constant" or node.op in _COPIES
        if constant and node.args and _is_number(node.args[0]):
            numbers[node.name] = node.args[0]
        else:
            found.append(_spelled(node))
    return _without_diagonals(found)


def _without_diagonals(nodes: Sequence[m.GraphNode]) -> list[m.GraphNode]:
    """Products with a diagonal matrix as scalings of rows or columns."""
    diagonals = (n for n in nodes if n.op == "aten.diag.default" and len(n.args) == 1)
    vectors = {each.name: each for each in diagonals if len(each.tensors[0].shape) == 2}
    found: list[m.GraphNode] = []
    for node in nodes:
        args: list[Any] = node.args
        left = vectors.get(_node(args, 0)) if node.op in _MATRIX_PRODUCTS else None
        right = vectors.get(_node(args, 1)) if node.op in _MATRIX_PRODUCTS else None
        if left is not None and _rank(nodes, args, 1) == 2:
            size = left.tensors[0].shape[0]
            column = m.GraphNode(
                name=f"{left.name}_rows_of_{node.name}"[:64],
                op="aten.unsqueeze.default",
                args=[left.args[0], 1],
                tensors=[left.tensors[0].model_copy(update={"shape": [size, 1]})],
            )
            found += [column, _times(node, [{"node": column.name}, args[1]])]
        elif right is not None and _rank(nodes, args, 0) == 2:
            found.append(_times(node, [args[0], right.args[0]]))
        else:
            found.append(node)
    return found


def _times(node: m.GraphNode, args: list[Any]) -> m.GraphNode:
    return node.model_copy(update={"op": "aten.mul.Tensor", "args": args})


def _node(args: Sequence[Any], place: int) -> str:
    value = args[place] if place < len(args) else None
    return str(value.get("node", "")) if isinstance(value, dict) else ""


def _rank(nodes: Sequence[m.GraphNode], args: Sequence[Any], place: int) -> int:
    name = _node(args, place)
    shapes = (each.tensors[0].shape for each in nodes if each.name == name and each.tensors)
    return len(next(shapes, ()))


def _spelled(node: m.GraphNode) -> m.GraphNode:
    args: list[Any] = node.args
    if node.op == "aten.einsum.default" and len(args) > 1 and isinstance(args[1], list):
        product = _PRODUCT.fullmatch(str(args[0]).replace(" ", ""))
        if product and len({*product[1], product[2], product[3]}) == len(product[1]) + 2:
            return node.model_copy(update={"op": "aten.matmul.default", "args": args[1]})
    elif node.op in _ADAPTIVE:
        rank = _ADAPTIVE[node.op]
        if args[1] in ([1] * rank, 1):
            dims = [-each for each in range(rank, 0, -1)]
            return node.model_copy(update={"op": "aten.mean.dim", "args": [args[0], dims, True]})
    elif node.op in _EXTREMES and len(args) > 1:
        return node.model_copy(update={"op": _EXTREMES[node.op][_is_number(args[1])]})
    elif node.op == _TRAINING and args[5] is True:
        plain = [*args[:3], True, *args[6:]]
        return node.model_copy(
            update={"op": "aten._native_batch_norm_legit.no_stats", "args": plain}
        )
    return node


def with_values(node: m.GraphNode, values: Mapping[str, Any]) -> m.GraphNode:
    """The node with other arguments for some of the values that it is computed from, by name."""
    kwargs = {key: replaced(value, values) for key, value in node.kwargs.items()}
    return node.model_copy(update={"args": replaced(node.args, values), "kwargs": kwargs})


def replaced(argument: Any, values: Mapping[str, Any]) -> Any:
    """An argument with what `values` has, by name, in place of references to nodes."""
    if isinstance(argument, list):
        return [replaced(each, values) for each in argument]
    if isinstance(argument, dict) and isinstance(argument.get("node"), str):
        return values.get(argument["node"], argument)
    return argument


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
