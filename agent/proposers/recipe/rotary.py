"""Recognises rotary position embedding in a graph."""

from itertools import permutations

from agent.proposers.recipe.core import Core, argument, operand, single, values
from agent.proposers.recipe.halves import halved
from judge.graph import Graph, reference


def rope(graph: Graph, root: str) -> Core | None:
    """Feature i turned with feature D / 2 + i: the halves a, b become a c - b s and b c + a s."""
    node = graph[root]
    parts, dim = argument(node, 0), argument(node, 1, 0)
    rank = len(graph.shape(root))
    joins = isinstance(parts, list) and len(parts) == 2 and isinstance(dim, int)
    if node.op != "aten.cat.default" or not joins or dim % rank != rank - 1:
        return None
    first, second = (reference(each) for each in parts)
    if first is None or second is None:
        return None
    minus, plus = graph[first], graph[second]
    if minus.op != "aten.sub.Tensor" or plus.op != "aten.add.Tensor":
        return None
    products = [operand(each, place) for each in (minus, plus) for place in (0, 1)]
    factors = [_factors(graph, each) for each in products]
    if minus.kwargs or plus.kwargs or not all(factors):
        return None
    nodes = {first, second, *(each for each in products if each is not None)}
    right = [set(each) for each in factors[2:]]
    # a c - b s: the order of the factors and of the sum is free.
    for a, cos in permutations(factors[0]):
        for b, sin in permutations(factors[1]):
            want = [{b, cos}, {a, sin}]
            if right in (want, want[::-1]) and (
                core := _core(graph, root, (a, b, cos, sin), nodes)
            ):
                return core
    return None


def _factors(graph: Graph, name: str | None) -> tuple[str, ...]:
    """The two factors of a product; empty where a value is none."""
    if name is None or graph[name].op != "aten.mul.Tensor":
        return ()
    factors = [operand(graph[name], place) for place in (0, 1)]
    return tuple(each for each in factors if each is not None) if None not in factors else ()


def _core(
    graph: Graph, root: str, parts: tuple[str, str, str, str], nodes: set[str]
) -> Core | None:
    a, b, cos, sin = parts
    halves = halved(graph, a, b)
    if halves is None:
        return None
    x = halves[0]
    shape = graph.shape(x)
    angles = {graph.shape(cos), graph.shape(sin)}
    if len(angles) != 1 or not _spreads(next(iter(angles)), (*shape[:-1], shape[-1] // 2)):
        return None
    if len({graph.dtype(each) for each in (x, cos, sin, root)}) != 1:
        return None
    return single("rope", root, values(x=x, cos=cos, sin=sin), nodes=nodes | halves[1])


def _spreads(mine: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a shape is broadcast to another one by leading dimensions and ones."""
    tail = shape[len(shape) - len(mine) :]
    return len(mine) <= len(shape) and all(
        one in (1, other) for one, other in zip(mine, tail, strict=True)
    )
