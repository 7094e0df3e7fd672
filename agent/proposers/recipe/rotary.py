"""Recognises rotary position embedding in a graph."""

from typing import Final

from agent.proposers.recipe.core import Core
from agent.proposers.recipe.halves import half
from agent.proposers.recipe.hooks import Finder
from judge.graph import Graph, reference

_PRODUCT: Final = "aten.mul.Tensor"


def _rope(  # noqa: PLR0911 (each step has its conditions)
    graph: Graph, root: str
) -> Core | None:
    """Feature i turned with feature D / 2 + i: the halves a, b become a c - b s and b c + a s."""
    node = graph[root]
    parts = node.args[0] if node.op == "aten.cat.default" else None
    rank = len(graph.shape(root))
    dim = node.args[1] if len(node.args) > 1 else 0
    if not isinstance(parts, list) or len(parts) != 2 or not isinstance(dim, int):
        return None
    if dim % rank != rank - 1:
        return None
    first, second = (reference(each) for each in parts)
    if first is None or second is None:
        return None
    minus, plus = graph[first], graph[second]
    if minus.op != "aten.sub.Tensor" or plus.op != "aten.add.Tensor":
        return None
    if minus.kwargs or plus.kwargs:
        return None
    nodes = {root, first, second}
    left = [_factors(graph, reference(each), nodes) for each in minus.args[:2]]
    right = [_factors(graph, reference(each), nodes) for each in plus.args[:2]]
    if None in (*left, *right):
        return None
    # a c - b s: the order of the factors and of the sum is free.
    for a, cos in _both(left[0]):
        for b, sin in _both(left[1]):
            want = ({b, cos}, {a, sin})
            got = [set(each or ()) for each in right]
            if got not in ([*want], [*reversed(want)]):
                continue
            core = _core(graph, root, (a, b, cos, sin), nodes)
            if core is not None:
                return core
    return None


def _factors(graph: Graph, name: str | None, nodes: set[str]) -> tuple[str, str] | None:
    if name is None or graph[name].op != _PRODUCT:
        return None
    one, other = (reference(each) for each in graph[name].args[:2])
    if one is None or other is None:
        return None
    nodes.add(name)
    return one, other


def _both(pair: tuple[str, str] | None) -> list[tuple[str, str]]:
    return [] if pair is None else [pair, (pair[1], pair[0])]


def _core(
    graph: Graph, root: str, parts: tuple[str, str, str, str], nodes: set[str]
) -> Core | None:
    a, b, cos, sin = parts
    halves = half(graph, a), half(graph, b)
    if halves[0] is None or halves[1] is None or halves[0][0] != halves[1][0]:
        return None
    if (halves[0][1], halves[1][1]) != (0, 1):
        return None
    x = halves[0][0]
    shape = graph.shape(x)
    angles = {graph.shape(cos), graph.shape(sin)}
    if len(angles) != 1 or not _spreads(next(iter(angles)), (*shape[:-1], shape[-1] // 2)):
        return None
    if len({graph.dtype(each) for each in (x, cos, sin, root)}) != 1:
        return None
    used = nodes | {a, b} | halves[0][2] | halves[1][2]
    used = {each for each in used if graph[each].op not in ("input", "tensor")}
    arguments = {"x": f"{{{x}}}", "cos": f"{{{cos}}}", "sin": f"{{{sin}}}"}
    reads = frozenset({x, cos, sin})
    return Core("rope", frozenset(used), arguments, {root: "{r}"}, reads=reads)


def _spreads(mine: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a shape is broadcast to another one by leading dimensions and ones."""
    tail = shape[len(shape) - len(mine) :]
    return len(mine) <= len(shape) and all(
        one in (1, other) for one, other in zip(mine, tail, strict=True)
    )


ROTARY: Final[tuple[Finder, ...]] = (_rope,)
