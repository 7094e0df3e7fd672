"""Recognises losses in a graph: pointwise ones, and the divergence of two softmaxes."""

from typing import Final

from agent.proposers.recipe.core import Core, Finder, argument, operand, out_dtype, single, values
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


def _pointwise(graph: Graph, root: str) -> Core | None:
    node = graph[root]
    if node.op not in _KINDS or node.kwargs:
        return None
    kind, delta = _KINDS[node.op]
    reduction = _REDUCTIONS[int(argument(node, 2, 1))]
    if reduction == "none":
        return None  # elementwise: what follows can take it along
    x, target = operand(node), operand(node, 1)
    if x is None or target is None or graph.shape(x) != graph.shape(target):
        return None
    if graph.dtype(x) != graph.dtype(root) or graph.dtype(target) != graph.dtype(x):
        return None
    arguments = values(x=x, target=target) | {"kind": repr(kind), "reduction": repr(reduction)}
    if delta is not None:
        arguments[delta] = repr(float(argument(node, 3, 1.0)))
    return single("loss", root, arguments)


def _distillation(  # noqa: PLR0911 (two steps, each with its conditions)
    graph: Graph, root: str
) -> Core | None:
    """Kullback-Leibler divergence of two softmaxes over the last of two dimensions; divided by the
    rows where that is a step of its own."""
    node, nodes, rows = graph[root], {root}, False
    divisor = argument(node, 1)
    if node.op == "aten.div.Tensor" and isinstance(divisor, int):
        source = operand(node)
        if source is None or graph[source].op != "aten.kl_div.default":
            return None
        node, rows = graph[source], True
        nodes.add(source)
    if node.op != "aten.kl_div.default":
        return None
    reduction = int(argument(node, 2, 1))
    logarithm = node.kwargs.get("log_target", False) is True
    first, second = operand(node), operand(node, 1)
    if first is None or second is None:
        return None
    mine = softmax_of(graph, first, logarithm=True)
    theirs = softmax_of(graph, second, logarithm=logarithm)
    if mine is None or theirs is None or len(graph.shape(mine)) != 2:
        return None
    if graph.shape(mine) != graph.shape(theirs) or graph.dtype(mine) != graph.dtype(theirs):
        return None
    if rows and (reduction != 2 or divisor != graph.shape(mine)[0]):
        return None
    named = "batchmean" if rows else _REDUCTIONS[reduction]
    if named == "none":
        return None  # a number for each element, which no kernel of the family gives
    arguments = values(student=mine, teacher=theirs) | {"reduction": repr(named)}
    arguments |= out_dtype(graph, root, mine)
    return single("distillation-loss", root, arguments, nodes=nodes | {first, second})


def _triplet(graph: Graph, root: str) -> Core | None:
    """Euclidean triplet margin loss of rows."""
    node = graph[root]
    if node.op != "aten.triplet_margin_loss.default" or node.kwargs or argument(node, 4, 2.0) != 2:
        return None
    names = [operand(node, place) for place in range(3)]
    given = [each for each in names if each is not None]
    if len(given) < 3 or len({(graph.shape(each), graph.dtype(each)) for each in given}) > 1:
        return None
    arguments = values(anchor=given[0], positive=given[1], negative=given[2]) | {
        "margin": repr(float(argument(node, 3, 1.0))),
        "eps": repr(float(argument(node, 5, 1e-6))),
        "swap": repr(argument(node, 6, False) is True),
        "reduction": repr(_REDUCTIONS[int(argument(node, 7, 1))]),
    }
    return single("triplet-loss", root, arguments)


LOSSES: Final[tuple[Finder, ...]] = (_distillation, _pointwise, _triplet)
