"""Tells halves of a tensor along its last dimension."""

from agent.proposers.recipe.operands import argument, operand, result_of
from agent.proposers.recipe.patterns import require, unwrap
from judge.graph import Graph


def match_halves(graph: Graph, first: str, second: str) -> tuple[str, set[str]]:
    """The value whose first and second half along the last dimension two others are, and the
    operators that halve it."""
    one, other = _half(graph, first), _half(graph, second)
    require(one[:2] == (other[0], 0) and other[1] == 1)
    return one[0], {first, second} | one[2] | other[2]


def _half(graph: Graph, name: str) -> tuple[str, int, set[str]]:
    """The value that one is a half of, which half, and the split that makes it."""
    split = result_of(graph, name, ("aten.split.Tensor", "aten.chunk.default"))
    node = graph[split or name]
    require(split is not None or node.op == "aten.slice.Tensor")
    source = unwrap(operand(node))
    rank, length = len(graph.shape(source)), graph.shape(source)[-1]
    if split is not None:
        dim, index = argument(node, 2, 0), argument(graph[name], 1)
        shapes = [tensor.shape for tensor in node.tensors]
        halves = len(shapes) == 2 and shapes[0] == shapes[1] and isinstance(index, int)
    else:
        dim, start = argument(node, 1, 0), argument(node, 2)
        index = 0 if start in (0, None) else 1
        whole = argument(node, 4, 1) == 1 and 2 * graph.shape(name)[-1] == length
        halves = len(node.args) >= 4 and whole and start in (0, None, length // 2)
    require(halves and isinstance(dim, int) and dim % rank == rank - 1)
    return source, index, set() if split is None else {split}
