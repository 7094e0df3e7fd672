"""A part of a graph that one kernel can take over."""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from judge.graph import Graph, reference
from judge.worker import messages as m

T = TypeVar("T")
FLOATS: Final = frozenset({"float64", "float32", "float16", "bfloat16"})
NAMED: Final = re.compile(r"\{(\w+)\}")
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

    @property
    def reads(self) -> frozenset[str]:
        """Values of the graph that are needed before the kernel runs."""
        named = NAMED.findall(" ".join(self.arguments.values()))
        return frozenset([*named, self.bias] if self.bias else named)


Finder = Callable[[Graph, str], Core]
"""Finds a core whose last value is the given one; raises `NoMatchError` where there is none."""


class NoMatchError(Exception):
    """The graph has something else there than what is looked for."""


def require(condition: bool) -> None:
    """Go on where this holds.

    Raises
    ------
    NoMatchError
        It does not.
    """
    if not condition:
        raise NoMatchError


def needed(value: T | None) -> T:
    """A value that has to be there.

    Raises
    ------
    NoMatchError
        It is None.
    """
    if value is None:
        raise NoMatchError
    return value


def attempt(find: Callable[..., T], *given: Any) -> T | None:
    """What a function finds; None where it finds no match."""
    try:
        return find(*given)
    except NoMatchError:
        return None


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
    wanted = graph.dtype(root)
    return {} if wanted == graph.dtype(x) else {"out_dtype": f"torch.{wanted}"}


def argument(node: m.GraphNode, place: int, default: Any = None) -> Any:
    """An operator's positional argument; `default` where it is not given."""
    return node.args[place] if place < len(node.args) else default


def named(node: m.GraphNode, defaults: Iterable[tuple[str, Any]]) -> dict[str, Any] | None:
    """An operator's arguments by name, from names and defaults in order; None if it has others."""
    found = dict(defaults)
    if len(node.args) > len(found):
        return None
    given = {"x" if key == "input" else key: value for key, value in node.kwargs.items()}
    given |= dict(zip(found, node.args, strict=False))
    return found | given if given.keys() <= found.keys() else None


def operand(node: m.GraphNode, place: int = 0) -> str | None:
    """The value that is an operator's positional argument; None where it is none."""
    return reference(argument(node, place))


def result_of(
    graph: Graph, root: str, operators: Collection[str], place: int | None = None
) -> str | None:
    """The operator, one of several results of which (that at `place`) a value is."""
    node = graph[root]
    source = operand(node) if node.op == "getitem" and place in (None, node.args[1]) else None
    return source if source is not None and graph[source].op in operators else None


def plain_name(operator: str) -> str:
    """`aten.relu.default` as relu."""
    return operator.removeprefix("aten.").partition(".")[0].strip("_")


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


def along(graph: Graph, name: str, axis: int, shape: tuple[int, ...]) -> str | None:
    """A vector that lies along dimension `axis` of `shape` (all other dimensions 1), as one
    dimension of what it is a view of; None where it is something else."""
    mine = graph.shape(name)
    place = axis - (len(shape) - len(mine))
    lies = place >= 0 and all(
        size == (shape[axis] if index == place else 1) for index, size in enumerate(mine)
    )
    if not lies:
        return None
    while graph[name].op in _VIEWS and (source := operand(graph[name])) is not None:
        name = source
    return f"{{{name}}}.reshape(-1)"


# Of a vector: all keep its elements in their order.
_VIEWS = ("aten.view.default", "aten.reshape.default", "aten.unsqueeze.default")
