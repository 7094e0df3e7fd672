"""Recognises losses in a graph: pointwise ones, and the divergence of two softmaxes."""

from typing import Final

from agent.proposers.recipe.core import Core, Finder, out_dtype, single, values
from agent.proposers.recipe.operands import argument, operand
from agent.proposers.recipe.patterns import require, unwrap
from agent.proposers.recipe.softmax import softmax_of
from judge.graph import Graph

# Operator → what the kernels call it, and what it has beyond x, target and reduction.
_KINDS: Final[dict[str, tuple[str, str | None]]] = {
    "aten.mse_loss.default": ("mse", None),
    "aten.l1_loss.default": ("l1", None),
    "aten.smooth_l1_loss.default": ("smooth-l1", "delta"),
    "aten.huber_loss.default": ("huber", "delta"),
}
_REDUCTIONS: Final = ("none", "mean", "sum")


def _pointwise(graph: Graph, root: str) -> Core:
    node = graph[root]
    kind, delta = unwrap(_KINDS.get(node.op))
    reduction = _REDUCTIONS[int(argument(node, 2, 1))]
    # Without a reduction it is elementwise: what follows can take it along.
    require(not node.kwargs and reduction != "none")
    x, target = unwrap(operand(node)), unwrap(operand(node, 1))
    require(graph.shape(x) == graph.shape(target))
    require(graph.dtype(x) == graph.dtype(root) == graph.dtype(target))
    arguments = values(x=x, target=target) | {"kind": repr(kind), "reduction": repr(reduction)}
    if delta is not None:
        arguments[delta] = repr(float(argument(node, 3, 1.0)))
    return single("loss", root, arguments)


def _distillation(graph: Graph, root: str) -> Core:
    """Kullback-Leibler divergence of two softmaxes over the last of two dimensions; divided by the
    rows where that is a step of its own."""
    node, nodes, rows = graph[root], {root}, False
    divisor = argument(node, 1)
    if node.op == "aten.div.Tensor" and isinstance(divisor, int):
        source = unwrap(operand(node))
        node, rows = graph[source], True
        nodes.add(source)
    require(node.op == "aten.kl_div.default")
    reduction = int(argument(node, 2, 1))
    logarithm = node.kwargs.get("log_target", False) is True
    first, second = unwrap(operand(node)), unwrap(operand(node, 1))
    mine = unwrap(softmax_of(graph, first, logarithm=True))
    theirs = unwrap(softmax_of(graph, second, logarithm=logarithm))
    shape = graph.shape(mine)
    require(len(shape) == 2 and shape == graph.shape(theirs))
    require(graph.dtype(mine) == graph.dtype(theirs))
    require(not rows or (reduction == 2 and divisor == shape[0]))
    name = "batchmean" if rows else _REDUCTIONS[reduction]
    require(name != "none")  # a number for each element, which no kernel of the family gives
    arguments = values(student=mine, teacher=theirs) | {"reduction": repr(name)}
    arguments |= out_dtype(graph, root, mine)
    return single("distillation-loss", root, arguments, nodes=nodes | {first, second})


def _triplet(graph: Graph, root: str) -> Core:
    """Euclidean triplet margin loss of rows."""
    node = graph[root]
    require(node.op == "aten.triplet_margin_loss.default" and not node.kwargs)
    require(argument(node, 4, 2.0) == 2)
    inputs = [unwrap(operand(node, place)) for place in range(3)]
    require(len({(graph.shape(name), graph.dtype(name)) for name in inputs}) == 1)
    arguments = values(anchor=inputs[0], positive=inputs[1], negative=inputs[2]) | {
        "margin": repr(float(argument(node, 3, 1.0))),
        "eps": repr(float(argument(node, 5, 1e-6))),
        "swap": repr(argument(node, 6, False) is True),
        "reduction": repr(_REDUCTIONS[int(argument(node, 7, 1))]),
    }
    return single("triplet-loss", root, arguments)


LOSSES: Final[tuple[Finder, ...]] = (_distillation, _pointwise, _triplet)
