"""Recognises softmax and what is made of it in a graph: log-softmax, cross entropy."""

from typing import Any, Final

from agent.proposers.recipe.core import Core, Finder, as_root, hookable, single, values
from agent.proposers.recipe.hooks import with_fusion
from agent.proposers.recipe.operands import argument, only_axis, operand
from agent.proposers.recipe.patterns import Const, match, op, require, unwrap
from agent.proposers.recipe.spellings import X
from judge.graph import Graph

_SOFTMAX_OPS: Final = ("softmax.int", "_softmax.default")
_LOG_OPS: Final = ("log_softmax.int", "_log_softmax.default")
_SOFTMAX: Final = tuple(op(name, X, Const("dim")) for name in _SOFTMAX_OPS)
_LOG: Final = tuple(op(name, X, Const("dim")) for name in _LOG_OPS)


def softmax_of(graph: Graph, name: str, *, logarithm: bool = False) -> str | None:
    """Of what a value is the softmax, or its logarithm, over the last dimension."""
    node = graph[name]
    if node.op.removeprefix("aten.") not in (_LOG_OPS if logarithm else _SOFTMAX_OPS):
        return None
    last = node.args[1] in (-1, len(graph.shape(name)) - 1)
    return operand(node) if last else None


def _rows(graph: Graph, root: str) -> Core:
    """Softmax over the last dimension, as the kernels of rows take it."""
    hit = match(graph, _SOFTMAX, root)
    x = hit.tensors["x"]
    rank = len(graph.shape(x))
    require(only_axis([hit.constants["dim"]], rank) == rank - 1)
    arguments = {"x": as_root(graph, root, x), "dim": "-1"}
    optional = frozenset({"dim"})
    return single("softmax", root, arguments, nodes=hit.nodes, optional=optional)


def _over(pattern: Any, family: str) -> Finder:
    """A finder over any dimension, where it lies."""

    def finder(graph: Graph, root: str) -> Core:
        hit = match(graph, pattern, root)
        x = hit.tensors["x"]
        rank = len(graph.shape(x))
        axis = unwrap(only_axis([hit.constants["dim"]], rank))
        arguments = values(x=x) | {"dim": str(axis)}
        lanes = max(1, rank - axis - 1)
        return hookable(graph, root, family, x, arguments, lanes, nodes=hit.nodes)

    return finder


def _cross_entropy(graph: Graph, root: str) -> Core:
    """Of logits [..., classes] against class indices, all weights equal."""
    node = graph[root]
    require(node.op == "aten.cross_entropy_loss.default" and argument(node, 2) is None)
    x, target = unwrap(operand(node)), unwrap(operand(node, 1))
    require(len(graph.shape(x)) <= 2 and "int" in graph.dtype(target))
    arguments = {
        **values(logits=x, target=target),
        "reduction": repr(("none", "mean", "sum")[int(argument(node, 3, 1))]),
        "ignore_index": repr(int(argument(node, 4, -100))),
        "label_smoothing": repr(float(argument(node, 5, 0.0))),
    }
    return single("cross-entropy", root, arguments)


_softmax, _log_softmax = _over(_SOFTMAX, "softmax"), _over(_LOG, "log-softmax")
SOFTMAX: Final[tuple[Finder, ...]] = (
    _cross_entropy, with_fusion(_log_softmax), _log_softmax, with_fusion(_softmax), _rows, _softmax,
)  # fmt: skip
