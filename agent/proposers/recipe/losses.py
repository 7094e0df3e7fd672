"""Recognises losses in a graph: pointwise ones, and the divergence of two softmaxes."""

from typing import Any, Final

from agent.proposers.recipe.core import Core
from agent.proposers.recipe.hooks import Finder
from agent.proposers.recipe.softmax import softmax_of
from judge.graph import Graph, reference

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
    args: list[Any] = [*node.args, *(1, 1.0)[max(0, len(node.args) - 2) :]]
    if _REDUCTIONS[int(args[2])] == "none":
        return None  # elementwise: what follows can take it along
    x, target = reference(args[0]), reference(args[1])
    if x is None or target is None or graph.shape(x) != graph.shape(target):
        return None
    if graph.dtype(x) != graph.dtype(root) or graph.dtype(target) != graph.dtype(x):
        return None
    arguments = {
        "x": f"{{{x}}}", "target": f"{{{target}}}", "kind": repr(kind),
        "reduction": repr(_REDUCTIONS[int(args[2])]),
    }  # fmt: skip
    if delta is not None:
        arguments[delta] = repr(float(args[3]))
    return Core("loss", frozenset({root}), arguments, {root: "{r}"}, reads=frozenset({x, target}))


def _distillation(  # noqa: PLR0911 (two steps, each with its conditions)
    graph: Graph, root: str
) -> Core | None:
    """Kullback-Leibler divergence of two softmaxes over the last of two dimensions; divided by the
    rows where that is a step of its own."""
    node, nodes, rows = graph[root], {root}, False
    divisor = node.args[1] if len(node.args) > 1 else None
    if node.op == "aten.div.Tensor" and isinstance(divisor, int):
        source = reference(node.args[0])
        if source is None or graph[source].op != "aten.kl_div.default":
            return None
        node, rows = graph[source], True
        nodes.add(source)
    if node.op != "aten.kl_div.default":
        return None
    reduction = int(str(node.args[2])) if len(node.args) > 2 else 1
    logarithm = node.kwargs.get("log_target", False) is True
    mine = _logits(graph, reference(node.args[0]), nodes, logarithm=True)
    theirs = _logits(graph, reference(node.args[1]), nodes, logarithm=logarithm)
    if mine is None or theirs is None or len(graph.shape(mine)) != 2:
        return None
    if graph.shape(mine) != graph.shape(theirs) or graph.dtype(mine) != graph.dtype(theirs):
        return None
    if rows and (reduction != 2 or divisor != graph.shape(mine)[0]):
        return None
    named = "batchmean" if rows else _REDUCTIONS[reduction]
    if named == "none":
        return None  # a number for each element, which no kernel of the family gives
    arguments = {
        "student": f"{{{mine}}}", "teacher": f"{{{theirs}}}", "reduction": repr(named),
    }  # fmt: skip
    if graph.dtype(root) != graph.dtype(mine):
        arguments["out_dtype"] = f"torch.{graph.dtype(root)}"
    reads = frozenset({mine, theirs})
    return Core("distillation-loss", frozenset(nodes), arguments, {root: "{r}"}, reads=reads)


def _logits(graph: Graph, name: str | None, nodes: set[str], *, logarithm: bool) -> str | None:
    """Of what a value is the softmax (or its logarithm), which becomes one of `nodes`."""
    source = None if name is None else softmax_of(graph, name, logarithm=logarithm)
    if source is not None and name is not None:
        nodes.add(name)
    return source


LOSSES: Final[tuple[Finder, ...]] = (_distillation, _pointwise)
