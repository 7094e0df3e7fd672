"""Recognises rotary position embedding in a graph."""

from itertools import permutations

from agent.proposers.recipe.core import Core, single, values
from agent.proposers.recipe.halves import match_halves
from agent.proposers.recipe.operands import argument, operand
from agent.proposers.recipe.patterns import NoMatchError, attempt, require, unwrap
from judge.graph import Graph, reference


def rope(graph: Graph, root: str) -> Core:
    """Feature i turned with feature D / 2 + i: the halves a, b become a c - b s and b c + a s."""
    node = graph[root]
    parts, dim = argument(node, 0), argument(node, 1, 0)
    rank = len(graph.shape(root))
    require(node.op == "aten.cat.default" and isinstance(parts, list) and len(parts) == 2)
    require(isinstance(dim, int) and dim % rank == rank - 1)
    first, second = (unwrap(reference(part)) for part in parts)
    minus, plus = graph[first], graph[second]
    require(minus.op == "aten.sub.Tensor" and plus.op == "aten.add.Tensor")
    require(not minus.kwargs and not plus.kwargs)
    products = [unwrap(operand(node, place)) for node in (minus, plus) for place in (0, 1)]
    factors = [_factors(graph, product) for product in products]
    nodes = {first, second, *products}
    right = [set(factor) for factor in factors[2:]]
    # a c - b s: the order of the factors and of the sum is free.
    for a, cos in permutations(factors[0]):
        for b, sin in permutations(factors[1]):
            both = [{b, cos}, {a, sin}]
            parts = (a, b, cos, sin)
            if right in (both, both[::-1]) and (core := attempt(_core, graph, root, parts, nodes)):
                return core
    raise NoMatchError


def _factors(graph: Graph, name: str) -> list[str]:
    """The two factors of a product."""
    require(graph[name].op == "aten.mul.Tensor")
    return [unwrap(operand(graph[name], place)) for place in (0, 1)]


def _core(graph: Graph, root: str, parts: tuple[str, str, str, str], nodes: set[str]) -> Core:
    a, b, cos, sin = parts
    x, halving = match_halves(graph, a, b)
    shape, angles = graph.shape(x), graph.shape(cos)
    require(angles == graph.shape(sin) and _broadcasts(angles, (*shape[:-1], shape[-1] // 2)))
    require(len({graph.dtype(name) for name in (x, cos, sin, root)}) == 1)
    return single("rope", root, values(x=x, cos=cos, sin=sin), nodes=nodes | halving)


def _broadcasts(own_shape: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a shape is broadcast to another one by leading dimensions and ones."""
    tail = shape[len(shape) - len(own_shape) :]
    return len(own_shape) <= len(shape) and all(
        one in (1, other) for one, other in zip(own_shape, tail, strict=True)
    )
