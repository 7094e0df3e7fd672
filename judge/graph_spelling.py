"""One spelling for operators that a model may spell in several ways, each exactly the same."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from judge.worker import messages as m

# Other names of operators, by PyTorch's documentation ("Alias for ..."), with the same overloads.
_ALIASES: Final = {
    "absolute": "abs", "arctan": "atan", "arctan2": "atan2", "clip": "clamp", "concat": "cat",
    "concatenate": "cat", "divide": "div", "fix": "trunc", "greater": "gt", "greater_equal": "ge",
    "less": "lt", "less_equal": "le", "multiply": "mul", "negative": "neg", "not_equal": "ne",
    "special_erf": "erf", "special_exp2": "exp2", "special_expit": "sigmoid",
    "special_expm1": "expm1", "special_log1p": "log1p", "special_logsumexp": "logsumexp",
    "subtract": "sub", "true_divide": "div",
}  # fmt: skip
_OTHER_OVERLOADS: Final = {
    "aten.special_softmax.default": "aten.softmax.int",
    "aten.special_log_softmax.default": "aten.log_softmax.int",
}
# A product with a matrix: all but the last dimension of the left are kept.
_MATMUL_EINSUM: Final = re.compile(r"(\w+)(\w),\2(\w)->\1\3")
# What returns its operand, or a copy of it.
_COPIES: Final = frozenset({
    "aten.alias.default", "aten.clone.default", "aten.detach.default", "aten.lift_fresh.default",
    "aten.lift_fresh_copy.default",
})  # fmt: skip
# Results have memory of their own.
_ARITHMETIC: Final = frozenset(
    f"aten.{name}"
    for name in ("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "matmul.default",
                 "linear.default", "bmm.default", "mean.dim", "sum.dim_IntList")
)  # fmt: skip
_MATRIX_PRODUCTS: Final = ("aten.matmul.default", "aten.mm.default")
_ADAPTIVE: Final = {f"aten.adaptive_avg_pool{rank}d.default": rank for rank in (1, 2, 3)}
_AVERAGES: Final = frozenset(f"aten.avg_pool{rank}d.default" for rank in (1, 2, 3))
# What an average pooling has beyond window and stride: padding, ceil_mode, count_include_pad,
# divisor_override.
_POOLING: Final = ([0], False, True, None)
_CONVOLUTIONS: Final = frozenset(f"aten.conv{rank}d.default" for rank in (1, 2, 3))
_CLAMP: Final = "aten.clamp.default"
_TRAINING_BATCH_NORM: Final = "aten._native_batch_norm_legit_functional.default"
# Of two operands, of an operand and a number.
_EXTREMES: Final = {
    "aten.min.other": ("aten.minimum.default", "aten.clamp_max.default"),
    "aten.max.other": ("aten.maximum.default", "aten.clamp_min.default"),
    "aten.minimum.default": ("aten.minimum.default", "aten.clamp_max.default"),
    "aten.maximum.default": ("aten.maximum.default", "aten.clamp_min.default"),
}


def normalize(nodes: Sequence[m.GraphNode], outputs: Any) -> tuple[list[m.GraphNode], Any]:
    """The nodes and what the model returns, with copies left out of computed values (dropout that
    is off is one) and of those that only arithmetic reads, constants of one element written as
    numbers, and:

    an einsum that is a product with a matrix as `matmul`; adaptive average pooling to one element
    as a mean; `min` and `max` of two operands as `minimum` and `maximum`, of one and a number, and
    `clamp` of one bound, as `clamp_max` and `clamp_min`; batch norm that updates running statistics
    as the one that has none (`Graph.updates` names them); a product with a diagonal matrix as a
    scaling; a sum over its number of terms as a mean; average pooling after a convolution of single
    elements as such a convolution after the pooling; an operator that has several names, such as
    `multiply`, by the usual one.
    """
    numbers: dict[str, Any] = {}
    normalized: list[m.GraphNode] = []
    computed: set[str] = set()
    read_only_copies = _read_only_copies(nodes, outputs)
    for original in nodes:
        node = with_values(_canonical_op(original), numbers)
        is_copy = node.op == "aten.clone.default" and _node_name(node.args, 0) in computed
        if not node.kwargs and (is_copy or node.name in read_only_copies):
            numbers[node.name] = node.args[0]
            continue
        if node.op not in ("input", "tensor"):
            computed.add(node.name)
        is_constant = node.op == "constant" or node.op in _COPIES
        if is_constant and node.args and _is_number(node.args[0]):
            numbers[node.name] = node.args[0]
        else:
            normalized.append(_normalize_node(node))
    outputs = substitute(outputs, numbers)
    return _pool_before_pointwise(_sums_as_means(_scale_by_diagonals(normalized)), outputs), outputs


def _canonical_op(node: m.GraphNode) -> m.GraphNode:
    package, _, rest = node.op.partition(".")
    name, _, overload = rest.partition(".")
    op = _OTHER_OVERLOADS.get(node.op)
    if package == "aten" and name in _ALIASES:
        op = f"aten.{_ALIASES[name]}.{overload}"
    return node if op is None else node.model_copy(update={"op": op})


def _read_only_copies(nodes: Sequence[m.GraphNode], outputs: Any) -> set[str]:
    """Copies of which nothing that may share their memory is returned."""
    users: dict[str, list[m.GraphNode]] = {}
    for node in nodes:
        for name in references([*node.args, *node.kwargs.values()]):
            users.setdefault(name, []).append(node)
    returned, read_only = {*references(outputs)}, set[str]()
    for node in reversed(nodes):
        if node.op in _COPIES and node.name not in returned:
            readers = users.get(node.name, [])
            if all(reader.name in read_only or reader.op in _ARITHMETIC for reader in readers):
                read_only.add(node.name)
    return read_only


def _scale_by_diagonals(nodes: Sequence[m.GraphNode]) -> list[m.GraphNode]:
    """Products with a diagonal matrix as scalings of rows or columns."""
    diagonals = (n for n in nodes if n.op == "aten.diag.default" and len(n.args) == 1)
    vectors = {
        diagonal.name: diagonal for diagonal in diagonals if len(diagonal.tensors[0].shape) == 2
    }
    ranks = {node.name: len(node.tensors[0].shape) for node in nodes if node.tensors}
    rewritten: list[m.GraphNode] = []
    for node in nodes:
        args: list[Any] = node.args
        left = vectors.get(_node_name(args, 0)) if node.op in _MATRIX_PRODUCTS else None
        right = vectors.get(_node_name(args, 1)) if node.op in _MATRIX_PRODUCTS else None
        if left is not None and ranks.get(_node_name(args, 1)) == 2:
            size = left.tensors[0].shape[0]
            column = m.GraphNode(
                name=f"{left.name}_rows_of_{node.name}"[:64],
                op="aten.unsqueeze.default",
                args=[left.args[0], 1],
                tensors=[left.tensors[0].model_copy(update={"shape": [size, 1]})],
            )
            rewritten += [column, _as_multiply(node, [{"node": column.name}, args[1]])]
        elif right is not None and ranks.get(_node_name(args, 0)) == 2:
            rewritten.append(_as_multiply(node, [args[0], right.args[0]]))
        else:
            rewritten.append(node)
    return rewritten


def _sums_as_means(nodes: Sequence[m.GraphNode]) -> list[m.GraphNode]:
    """Sums over dimensions that are divided by their number of elements, as means."""
    by_name = {node.name: node for node in nodes}
    rewritten: list[m.GraphNode] = []
    for node in nodes:
        total = by_name.get(_node_name(node.args, 0))
        is_quotient = node.op == "aten.div.Tensor" and len(node.args) == 2 and not node.kwargs
        if is_quotient and total is not None and _counts_terms(total, node.args[1], by_name):
            rewritten.append(
                node.model_copy(update={"op": "aten.mean.dim", "args": list(total.args)})
            )
        else:
            rewritten.append(node)
    return rewritten


def _counts_terms(total: m.GraphNode, number: Any, by_name: Mapping[str, m.GraphNode]) -> bool:
    """Whether a value is a sum over dimensions of as many elements."""
    if total.op != "aten.sum.dim_IntList" or total.kwargs or not _is_number(number):
        return False
    source = by_name.get(_node_name(total.args, 0))
    dims = total.args[1]
    if source is None or len(source.tensors) != 1 or not isinstance(dims, list) or not dims:
        return False
    shape = source.tensors[0].shape
    is_float = "float" in source.tensors[0].dtype
    return is_float and math.prod(shape[int(str(dim))] for dim in dims) == number


def _pool_before_pointwise(nodes: Sequence[m.GraphNode], outputs: Any) -> list[m.GraphNode]:
    """The average of what is linear in each element is that of the averages, of which there are
    fewer: a convolution with a window of one element goes behind the pooling after it."""
    users = Counter(references([[*node.args, *node.kwargs.values()] for node in nodes]))
    users.update(references(outputs))
    shapes = {node.name: node.tensors[0].shape for node in nodes if node.tensors}
    rewritten: dict[str, m.GraphNode] = {}
    for node in nodes:
        source = rewritten.get(_node_name(node.args, 0))
        sole = source is not None and users[source.name] == 1
        if source is None or not (sole and _is_avg_pool(node) and _is_pointwise(source, shapes)):
            rewritten[node.name] = node
            continue
        shape = [*shapes[_node_name(source.args, 0)][:2], *node.tensors[0].shape[2:]]
        pooled = m.GraphNode(
            name=f"{node.name}_before_{source.name}"[:64],
            op=node.op,
            args=[source.args[0], *node.args[1:]],
            tensors=[node.tensors[0].model_copy(update={"shape": shape})],
        )
        del rewritten[source.name]
        rewritten[pooled.name] = pooled
        args = [{"node": pooled.name}, *source.args[1:]]
        update = {"name": node.name, "args": args, "tensors": node.tensors}
        rewritten[node.name] = source.model_copy(update=update)
    return list(rewritten.values())


def _is_avg_pool(node: m.GraphNode) -> bool:
    """Whether it is average pooling in which no window reaches past the edge."""
    if node.op not in _AVERAGES or node.kwargs:
        return False
    args: list[Any] = [*node.args[3:], *_POOLING[max(0, len(node.args) - 3) :]]
    padding, ceil, _, divisor = args
    unpadded = not any(_as_list(padding)) and not ceil and divisor is None
    return unpadded and math.prod(_as_list(node.args[1])) > 1


def _is_pointwise(node: m.GraphNode, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Whether it is a convolution with a window of one element, at each element."""
    if node.op not in _CONVOLUTIONS or node.kwargs:
        return False
    args: list[Any] = [*node.args[3:5], *([1], [0])[max(0, len(node.args) - 3) :]]
    stride, padding = ({*_as_list(arg)} for arg in args)
    window = shapes.get(_node_name(node.args, 1), ())[2:]
    return stride == {1} and padding == {0} and {*window} == {1}


def _as_list(value: Any) -> list[int]:
    return value if isinstance(value, list) else [value]


def references(argument: Any) -> Iterator[str]:
    """Names of the nodes that an argument, or a list of them, refers to."""
    if isinstance(argument, list):
        for element in argument:
            yield from references(element)
    elif isinstance(argument, dict) and isinstance(argument.get("node"), str):
        yield argument["node"]


def _as_multiply(node: m.GraphNode, args: list[Any]) -> m.GraphNode:
    return node.model_copy(update={"op": "aten.mul.Tensor", "args": args})


def _node_name(args: Sequence[Any], index: int) -> str:
    value = args[index] if index < len(args) else None
    return str(value.get("node", "")) if isinstance(value, dict) else ""


def _normalize_node(node: m.GraphNode) -> m.GraphNode:
    args: list[Any] = node.args
    if node.op == "aten.einsum.default" and len(args) > 1 and isinstance(args[1], list):
        product = _MATMUL_EINSUM.fullmatch(str(args[0]).replace(" ", ""))
        if product and len({*product[1], product[2], product[3]}) == len(product[1]) + 2:
            return node.model_copy(update={"op": "aten.matmul.default", "args": args[1]})
    elif node.op in _ADAPTIVE:
        rank = _ADAPTIVE[node.op]
        if args[1] in ([1] * rank, 1):
            dims = [-axis for axis in range(rank, 0, -1)]
            return node.model_copy(update={"op": "aten.mean.dim", "args": [args[0], dims, True]})
    elif node.op == _CLAMP and not node.kwargs and None in (bounds := [*args[1:], None][:2]):
        # Of one bound.
        side, bound = ("max", bounds[1]) if bounds[0] is None else ("min", bounds[0])
        return node.model_copy(
            update={"op": f"aten.clamp_{side}.default", "args": [args[0], bound]}
        )
    elif node.op in _EXTREMES and len(args) > 1:
        return node.model_copy(update={"op": _EXTREMES[node.op][_is_number(args[1])]})
    elif node.op == _TRAINING_BATCH_NORM and args[5] is True:
        arguments = [*args[:3], True, *args[6:]]
        return node.model_copy(
            update={"op": "aten._native_batch_norm_legit.no_stats", "args": arguments}
        )
    return node


def with_values(node: m.GraphNode, values: Mapping[str, Any]) -> m.GraphNode:
    """The node with other arguments for some of the values that it is computed from, by name."""
    kwargs = {key: substitute(value, values) for key, value in node.kwargs.items()}
    return node.model_copy(update={"args": substitute(node.args, values), "kwargs": kwargs})


def substitute(argument: Any, values: Mapping[str, Any]) -> Any:
    """An argument with what `values` has, by name, in place of references to nodes."""
    if isinstance(argument, list):
        return [substitute(element, values) for element in argument]
    if isinstance(argument, dict) and isinstance(argument.get("node"), str):
        return values.get(argument["node"], argument)
    return argument


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
