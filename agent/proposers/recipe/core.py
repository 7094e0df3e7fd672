"""A part of a graph that one kernel can take over."""

from dataclasses import dataclass, field
from typing import Any

from agent.proposers.recipe.patterns import Match
from judge.graph import Graph, reference


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
    copies: str = ""
    """Copies needed to bring operands into the kernel's layout; empty for none."""
    bias: str = ""
    """Value that is yet to be added to the result."""
    returns: int = 1
    """How many tensors the kernel returns."""
    reads: frozenset[str] = field(default_factory=frozenset)
    """Values of the graph that the arguments need."""
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


def single(
    family: str, found: Match, root: str, arguments: dict[str, str], result: str, **more: Any
) -> Core:
    """A core with one result."""
    reads = frozenset(found.tensors.values())
    return Core(family, found.nodes, arguments, {root: result}, reads=reads, **more)


def as_root(graph: Graph, root: str, name: str) -> str:
    """`{name}`, converted where its dtype is another than the root's: the kernel shall round no
    more than the model does."""
    wanted = graph.dtype(root)
    converts = graph.dtype(name) != wanted and "float" in wanted
    return f"{{{name}}}.to(torch.{wanted})" if converts else f"{{{name}}}"


def only_axis(dims: Any, rank: int) -> int | None:
    """The one dimension of a list, counted from the front; None where there is no such."""
    if isinstance(dims, list) and len(dims) == 1 and isinstance(dims[0], int) and rank:
        return int(dims[0]) % rank
    return None


def along(graph: Graph, name: str, axis: int, shape: tuple[int, ...]) -> tuple[str, str] | None:
    """A vector that lies along dimension `axis` of `shape` (all other dimensions 1): what it is a
    view of, and its expression as one dimension. None where it is something else."""
    mine = graph.shape(name)
    place = axis - (len(shape) - len(mine))
    lies = place >= 0 and all(
        size == (shape[axis] if index == place else 1) for index, size in enumerate(mine)
    )
    if not lies:
        return None
    while graph[name].op in _VIEWS and (source := reference(graph[name].args[0])) is not None:
        name = source
    return name, f"{{{name}}}.reshape(-1)"


# Of a vector: all keep its elements in their order.
_VIEWS = ("aten.view.default", "aten.reshape.default", "aten.unsqueeze.default")
