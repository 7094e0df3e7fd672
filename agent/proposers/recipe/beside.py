"""Operators that PyTorch runs beside kernels: which ones can be written out, and views of sizes."""

from collections.abc import Mapping
from typing import Final

from agent.proposers.recipe.operands import argument, base_of
from judge.graph import Graph, reference
from judge.problem.variants import SMALL

# Views whose arguments do not depend on the problem's sizes.
VIEWS: Final = frozenset({
    "alias", "clone", "contiguous", "detach", "permute", "squeeze", "t", "transpose", "unsqueeze",
})  # fmt: skip
# Views of sizes, which depend on the problem's.
SIZED: Final = frozenset({"expand", "reshape", "view", "_unsafe_view"})
# Tensors that are made, of sizes that are the problem's, where its inputs are.
CREATED: Final = frozenset({
    "arange", "empty", "eye", "full", "linspace", "ones", "scalar_tensor", "zeros",
})  # fmt: skip
# The same, drawn: they take the place of the model's in the order of its draws.
SAMPLED: Final = frozenset({"rand", "randn"})
# A smaller number is a length by chance as often.
_A_LENGTH: Final = 64
# What a mean, or the like, may be written with.
_SCALING: Final = frozenset({"add", "div", "mul", "sub"})
# A slice's end where none is given.
_TO_THE_END: Final = (1 << 63) - 1
# Each call has other results, or writes into an operand.
RANDOM: Final = frozenset({
    "bernoulli", "dropout", "multinomial", "normal", "poisson", "rand_like",
    "randint", "randn_like", "randperm",
})  # fmt: skip


def view_sizes(graph: Graph, name: str, names: Mapping[str, str]) -> tuple[str, bool] | None:
    """The sizes argument of a view or an expansion as Python, and whether it holds for the
    problem's own shape alone; None where it is of no form that is known.

    A size is the operand's where the two agree from the front or from the back on, and one follows
    from the others: that which the model leaves open, if it does. What is left is written as it is:
    heads and channels are the model's own.
    """
    node = graph[name]
    source, requested = reference(node.args[0]), node.args[1]
    if source is None or not isinstance(requested, list):
        return None
    shape, own_shape = graph.shape(source), graph.shape(name)
    sizes = [str(size) for size in own_shape]
    same = 0
    while same < min(len(shape), len(own_shape)) and shape[same] == own_shape[same]:
        sizes[same] = f"{names[source]}.shape[{same}]"
        same += 1
    if node.op.startswith("aten.expand."):
        return f"[{', '.join(sizes)}]", same < len(own_shape)
    end = 0
    while end < min(len(shape), len(own_shape)) - same and shape[-1 - end] == own_shape[-1 - end]:
        end += 1
        sizes[-end] = f"{names[source]}.shape[{-end}]"
    free = [place for place in range(same, len(own_shape) - end) if own_shape[place] != 1]
    is_given = -1 in requested and requested.index(-1) in free
    if free:
        place = free[0] if same == 0 else free[-1]
        sizes[requested.index(-1) if is_given else place] = "-1"
    return f"[{', '.join(sizes)}]", same == 0 and len(free) > 1 and not is_given


def sampled_sizes(graph: Graph, name: str, names: Mapping[str, str]) -> tuple[str, bool]:
    """The sizes of a drawn tensor as Python, and whether they hold for the problem's own shape
    alone: one that several dimensions of inputs have is ambiguous, one that none has is the
    model's own."""
    candidates = {
        place: [f"{names[node.name]}.shape[{dim}]"
                for node in graph.nodes.values() if node.input is not None and node.tensors
                for dim, size in enumerate(graph.shape(node.name)) if size == length > 1]
        for place, length in enumerate(graph.shape(name))
    }  # fmt: skip
    sizes = [
        candidates[place][0] if len(candidates[place]) == 1 else str(length)
        for place, length in enumerate(graph.shape(name))
    ]
    return f"[{', '.join(sizes)}]", any(len(options) > 1 for options in candidates.values())


def bounds_are_fixed(graph: Graph, name: str) -> bool:
    """Whether a slice's bounds hold for the problem's own shape alone, as far as can be told: where
    it cuts a dimension that only the model's own tensors have, they are the model's own."""
    node = graph[name]
    source = reference(node.args[0])
    bounds = [arg for arg in node.args[2:4] if isinstance(arg, int)]
    if source is None or not any(SMALL < bound < _TO_THE_END for bound in bounds):
        return False  # from the end, all of it, or by a constant
    size = graph.shape(source)[argument(node, 1, 0)]
    nodes = [node for node in graph.nodes.values() if node.op in ("input", "tensor")]
    own, inputs = (
        {size for node in nodes if (node.input is None) is model for size in graph.shape(node.name)}
        for model in (True, False)
    )
    return size in inputs or size not in own


def names_a_size(graph: Graph) -> bool:
    """Whether a number that the graph computes with, or its reciprocal, is the length of an input's
    dimension: at other shapes it would be another, as far as can be told."""
    lengths = {
        size
        for node in graph.nodes.values()
        if node.input is not None and node.tensors
        for size in graph.shape(node.name)
        if size >= _A_LENGTH
    }
    numbers = (
        float(arg)
        for name in graph.computed
        if base_of(graph[name].op) in _SCALING
        for arg in graph[name].args
        if isinstance(arg, int | float) and not isinstance(arg, bool) and arg
    )
    return any(
        each.is_integer() and each in lengths
        for number in numbers
        for each in (number, round(1 / number, 6))
    )


def one_shape(graph: Graph, names: Mapping[str, str]) -> list[str]:
    """Lines that refuse inputs of shapes other than the problem's."""
    lines = []
    for node in graph.nodes.values():
        if node.input is not None and node.tensors:
            name, shape = names[node.name], graph.shape(node.name)
            lines += [
                f"if tuple({name}.shape) != {shape!r}:",
                f'    raise ValueError("this file takes {name} only in shape {shape}")',
            ]
    return lines
