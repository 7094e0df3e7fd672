"""Operators that PyTorch runs beside kernels: which ones can be written out, and views of sizes."""

from collections.abc import Mapping
from typing import Final

from agent.proposers.recipe.operands import argument
from judge.graph import Graph, reference
from judge.problem.variants import SMALL

# Views whose arguments do not depend on the problem's sizes.
VIEWS: Final = frozenset({
    "alias", "clone", "contiguous", "detach", "permute", "squeeze", "t", "transpose", "unsqueeze",
})  # fmt: skip
# Views of sizes, which depend on the problem's.
SIZED: Final = frozenset({"expand", "reshape", "view", "_unsafe_view"})
# Tensors that are made, of sizes that are the problem's, where its inputs are.
MADE: Final = frozenset({
    "arange", "empty", "eye", "full", "linspace", "ones", "scalar_tensor", "zeros",
})  # fmt: skip
# The same, drawn: they take the place of the model's in the order of its draws.
DRAWN: Final = frozenset({"rand", "randn"})
# A slice's end where none is given.
_TO_THE_END: Final = (1 << 63) - 1
# Each call has other results, or writes into an operand.
RANDOM: Final = frozenset({
    "bernoulli", "dropout", "empty_like", "multinomial", "normal", "poisson", "rand_like",
    "randint", "randn_like", "randperm",
})  # fmt: skip


def view_sizes(graph: Graph, name: str, names: Mapping[str, str]) -> tuple[str, bool] | None:
    """The sizes argument of a view or an expansion as Python, and whether it holds for the
    problem's own shape alone; None where it is of no form that is known.

    A size is the operand's where the two agree from the front on, and one follows from the others.
    What is left is written as it is: heads and channels are the model's own.
    """
    node = graph[name]
    source, wanted = reference(node.args[0]), node.args[1]
    if source is None or not isinstance(wanted, list):
        return None
    shape, mine = graph.shape(source), graph.shape(name)
    sizes = [str(each) for each in mine]
    same = 0
    while same < min(len(shape), len(mine)) and shape[same] == mine[same]:
        sizes[same] = f"{names[source]}.shape[{same}]"
        same += 1
    if node.op.startswith("aten.expand."):
        return f"[{', '.join(sizes)}]", same < len(mine)
    left = [place for place in range(same, len(mine)) if mine[place] != 1]
    if left:
        sizes[left[0] if same == 0 else left[-1]] = "-1"
    return f"[{', '.join(sizes)}]", same == 0 and len(left) > 1


def drawn_sizes(graph: Graph, name: str, names: Mapping[str, str]) -> tuple[str, bool]:
    """The sizes of a drawn tensor as Python, and whether they hold for the problem's own shape
    alone: one that several dimensions of inputs have is ambiguous, one that none has is the
    model's own."""
    found = {
        place: [f"{names[node.name]}.shape[{dim}]"
                for node in graph.nodes.values() if node.input is not None and node.tensors
                for dim, size in enumerate(graph.shape(node.name)) if size == wanted > 1]
        for place, wanted in enumerate(graph.shape(name))
    }  # fmt: skip
    sizes = [
        found[place][0] if len(found[place]) == 1 else str(wanted)
        for place, wanted in enumerate(graph.shape(name))
    ]
    return f"[{', '.join(sizes)}]", any(len(each) > 1 for each in found.values())


def bounded(graph: Graph, name: str) -> bool:
    """Whether a slice's bounds hold for the problem's own shape alone, as far as can be told: where
    it cuts a dimension that only the model's own tensors have, they are the model's own."""
    node = graph[name]
    source = reference(node.args[0])
    bounds = [arg for arg in node.args[2:4] if isinstance(arg, int)]
    if source is None or not any(SMALL < bound < _TO_THE_END for bound in bounds):
        return False  # from the end, all of it, or by a constant
    size = graph.shape(source)[argument(node, 1, 0)]
    given = [node for node in graph.nodes.values() if node.op in ("input", "tensor")]
    own, inputs = (
        {size for node in given if (node.input is None) is made for size in graph.shape(node.name)}
        for made in (True, False)
    )
    return size in inputs or size not in own


def one_shape(graph: Graph, names: Mapping[str, str]) -> list[str]:
    """Lines that refuse inputs of shapes other than the problem's."""
    lines = []
    for node in graph.nodes.values():
        if node.input is not None and node.tensors:
            name, shape = names[node.name], graph.shape(node.name)
            lines += [
                f"if tuple({name}.shape) != {shape!r}:",
                f'    raise ValueError("this file takes {name} of shape {shape} alone")',
            ]
    return lines
