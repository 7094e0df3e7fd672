"""A part of a graph that one kernel can take over."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from agent.proposers.recipe.operands import operand
from judge.graph import Graph

FLOATS: Final = frozenset({"float64", "float32", "float16", "bfloat16"})
PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
"""A value in an expression of a core."""


@dataclass(frozen=True)
class Core:
    """A part of the graph that one kernel takes over."""

    op: str
    """Operator family, as kernels of the knowledge base name it."""
    nodes: frozenset[str]
    """Values that it uses up or computes."""
    arguments: dict[str, str]
    """Parameter of the kernel → expression; `{x}` stands for the value x of the graph."""
    results: dict[str, str]
    """Value of the graph → expression of the kernel's results; `{r}` is what the kernel returned
    (`{r0}`, `{r1}` where it returns several)."""
    optional: frozenset[str] = frozenset()
    """Arguments that a kernel may lack."""
    words: frozenset[str] = frozenset()
    """Functions that the kernel's reference has to call, beyond the family's own."""
    bias: str = ""
    """Value that is yet to be added to the result."""
    returns: int = 1
    """How many tensors the kernel returns."""
    main: str = ""
    """Value that the argument `x` is made of, where its kernels can fuse elementwise work in."""
    lanes: int = 1
    """Of the dimensions of `main`, how many last ones a kernel's lane runs along: an operand of
    such elementwise work has all of them, or one element."""
    out_lanes: int = 1
    """The same for what the kernel returns."""
    lane_size: str = ""
    """Expression of how many elements of the result a lane runs along; empty: not known."""
    functions: tuple[str, ...] = ()
    """Triton functions that the arguments name."""
    fused: tuple[str, ...] = ()
    """Elementwise operators that these compute."""
    triangles: tuple[str, ...] = ()
    """Inputs of which it reads a triangle alone, because the problem makes them so."""

    @property
    def reads(self) -> frozenset[str]:
        """Values of the graph that are needed before the kernel runs."""
        names = PLACEHOLDER.findall(" ".join(self.arguments.values()))
        return frozenset([*names, self.bias] if self.bias else names)


Finder = Callable[[Graph, str], Core]
"""Finds a core whose last value is the given one; raises `NoMatchError` where there is none."""


def single(
    family: str,
    root: str,
    arguments: dict[str, str],
    result: str = "{r}",
    *,
    nodes: Iterable[str] = (),
    **more: Any,
) -> Core:
    """A core with one result; `nodes` are what it uses up beside `root`."""
    return Core(family, frozenset({root, *nodes}), arguments, {root: result}, **more)


def values(**names: str | None) -> dict[str, str]:
    """Arguments that are values of the graph as they are, without those that are None."""
    return {parameter: f"{{{name}}}" for parameter, name in names.items() if name is not None}


def hookable(  # noqa: PLR0917 (the parts of a core)
    graph: Graph, root: str, family: str, x: str, arguments: dict[str, str], lanes: int, **more: Any
) -> Core:
    """A core whose kernels take any dtype in and out and fuse what is around."""
    arguments = arguments | out_dtype(graph, root, x)
    return single(family, root, arguments, main=x, lanes=lanes, out_lanes=lanes, **more)


def out_dtype(graph: Graph, root: str, x: str) -> dict[str, str]:
    """The argument `out_dtype`, where the result's dtype is another than that of `x`."""
    dtype = graph.dtype(root)
    return {} if dtype == graph.dtype(x) else {"out_dtype": f"torch.{dtype}"}


def plain_name(operator: str) -> str:
    """`aten.relu.default` as relu."""
    return operator.removeprefix("aten.").partition(".")[0].strip("_")


def as_root(graph: Graph, root: str, name: str) -> str:
    """`{name}`, converted where its dtype is another than the root's: the kernel shall round no
    more than the model does."""
    dtype = graph.dtype(root)
    converts = graph.dtype(name) != dtype and "float" in dtype
    return f"{{{name}}}.to(torch.{dtype})" if converts else f"{{{name}}}"


def along(graph: Graph, name: str, axis: int, shape: tuple[int, ...]) -> str | None:
    """A vector that lies along dimension `axis` of `shape` (all other dimensions 1), as one
    dimension of what it is a view of; None where it is something else."""
    own_shape = graph.shape(name)
    place = axis - (len(shape) - len(own_shape))
    lies = place >= 0 and all(
        size == (shape[axis] if index == place else 1) for index, size in enumerate(own_shape)
    )
    if not lies:
        return None
    while graph[name].op in _VIEWS and (source := operand(graph[name])) is not None:
        name = source
    return f"{{{name}}}.reshape(-1)"


# Of a vector: all keep its elements in their order.
_VIEWS = ("aten.view.default", "aten.reshape.default", "aten.unsqueeze.default")
