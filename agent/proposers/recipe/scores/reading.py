"""Tensors that a kernel of scores reads, as they lie in memory, and products of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agent.proposers.recipe.operands import (
    COPIES,
    argument,
    base_of,
    einsum_letters,
    matmul_letters,
    operand,
)  # fmt: skip
from agent.proposers.recipe.patterns import attempt, require, unwrap
from judge.graph import Graph, operands

WIDTH: Final = -1
"""In place of an axis: what a product sums over, or what the values' result is wide."""
PAGE: Final = -2
"""In place of an axis: the page that a table says keys are in."""
LOW: Final = frozenset({"float16", "bfloat16"})
"""Dtypes that products take as they are."""
INTEGERS: Final = frozenset({"int16", "int32", "int64", "uint8", "int8"})
READABLE: Final = LOW | INTEGERS | {"float32", "bool"}
"""Dtypes of tensors that a kernel can read."""
PRODUCTS: Final = frozenset({"aten.matmul.default", "aten.bmm.default", "aten.mm.default"})
SHAPED: Final = frozenset({"view", "reshape", "_unsafe_view", "squeeze", "unsqueeze"})

Axes = tuple[int | None, ...]


@dataclass(frozen=True)
class Read:
    """A tensor in memory; of each of its dimensions the axis, or None where it has one element."""

    name: str
    axes: Axes
    shared: tuple[int, ...] = ()
    """By dimension: how many neighbours along the axis share an element."""
    table: "Read | None" = None
    """Where keys lie in pages: which page each has, as many keys as it holds to an element. The
    tensor's own place along the keys is then that within a page."""

    @property
    def along(self) -> set[int]:
        """The axes, and `WIDTH`, that it depends on."""
        own = {axis for axis in self.axes if axis is not None} - {PAGE}
        return own | (self.table.along if self.table is not None else set())


@dataclass(frozen=True)
class Contraction:
    """A product of two tensors, and a letter for each of their dimensions."""

    parts: tuple[str, str]
    letters: tuple[str, str]
    out: str

    def other(self, side: int) -> tuple[str, str]:
        """The operand that is not at `side`, and its letters."""
        return self.parts[1 - side], self.letters[1 - side]


def contraction(graph: Graph, name: str) -> Contraction:
    """A product as one of letters, of which one is summed over.

    Raises
    ------
    NoMatchError
        The value is no such product.
    """
    node = graph[name]
    require(node.op == "aten.einsum.default" or node.op in PRODUCTS)
    parts = operands(node)
    require(len(parts) == 2)
    if node.op == "aten.einsum.default":
        labels, out = unwrap(einsum_letters(str(node.args[0])))
    else:
        first, second = (len(graph.shape(part)) for part in parts)
        require(min(first, second) >= 2)
        labels, out = matmul_letters(first, second)
    left, right = labels
    summed = ({*left} & {*right}) - {*out}
    require(len(summed) == 1 and {*left} | {*right} == {*out} | summed)
    return Contraction((parts[0], parts[1]), (left, right), out)


def read(graph: Graph, name: str, axes: Sequence[int | None], sizes: Sequence[int]) -> Read:
    """A tensor as it lies in memory, by dimension along these axes of scores of these sizes: what
    it is a transposed view, a copy or a repetition of, what is widened, or the pages that are
    gathered.

    Raises
    ------
    NoMatchError
        A kernel cannot read it.
    """
    places, shared = list(axes), [1] * len(axes)
    while True:
        paged = attempt(_paged, graph, name, places, sizes)
        if paged is not None and max(shared, default=1) == 1:
            return paged
        node, source = graph[name], operand(graph[name])
        rank = len(places)
        repeated = attempt(_repeated, graph, name)
        if repeated is not None:
            source, dim, times = repeated
            shared[dim] *= times
        elif (order := permutation(graph, name)) is not None:
            back = [order.index(place) for place in range(rank)]
            places = [places[place] for place in back]
            shared = [shared[place] for place in back]
        elif base_of(node.op) not in COPIES and not _is_widened(graph, name):
            break
        name = unwrap(source)
    require(graph.is_tensor(name) and graph.dtype(name) in READABLE)
    found: list[int | None] = []
    for size, axis, times in zip(graph.shape(name), places, shared, strict=True):
        is_one = size == 1 and axis != WIDTH
        require(axis != WIDTH or times == 1)
        require(is_one or axis == WIDTH or (axis is not None and size * times == sizes[axis]))
        found.append(None if is_one else axis)
    return Read(name, tuple(found), tuple(shared) if max(shared, default=1) > 1 else ())


def permutation(graph: Graph, name: str) -> list[int] | None:
    """The order in which a view has its operand's dimensions; None where it is no such view."""
    node, rank = graph[name], len(graph.shape(name))
    if node.op == "aten.permute.default":
        return [int(place) % rank for place in argument(node, 1)]
    if node.op not in ("aten.transpose.int", "aten.t.default"):
        return None
    order = list(range(rank))
    first, second = (int(argument(node, place, place - 1)) for place in (1, 2))
    order[first], order[second] = order[second], order[first]
    return order


def _is_widened(graph: Graph, name: str) -> bool:
    """Whether a value is a narrower one in float32."""
    source = operand(graph[name])
    is_cast = graph[name].op == "aten._to_copy.default" and source is not None
    return is_cast and graph.dtype(name) == "float32" and graph.dtype(unwrap(source)) in LOW


def _repeated(graph: Graph, name: str) -> tuple[str, int, int]:
    """Of what a value repeats each element along a dimension, along which, and how often: by
    PyTorch's operator, or expanded in a dimension of its own that is merged with the one before."""
    node = graph[name]
    source = unwrap(operand(node))
    if node.op == "aten.repeat_interleave.self_int":
        times, dim = argument(node, 1), argument(node, 2)
        require(isinstance(times, int) and isinstance(dim, int) and not node.kwargs)
        return source, dim % len(graph.shape(name)), times
    require(base_of(node.op) in SHAPED)
    while base_of(graph[source].op) in COPIES:
        source = unwrap(operand(graph[source]))
    require(graph[source].op == "aten.expand.default")
    wide, alone = graph.shape(source), unwrap(operand(graph[source]))
    narrow = graph.shape(alone)
    require(graph[alone].op == "aten.unsqueeze.default" and len(narrow) == len(wide))
    grown = [dim for dim, (size, own) in enumerate(zip(wide, narrow, strict=True)) if size != own]
    require(len(grown) == 1 and grown[0] > 0 and narrow[grown[0]] == 1)
    dim = grown[0] - 1
    merged = (*wide[:dim], wide[dim] * wide[dim + 1], *wide[dim + 2 :])
    original = unwrap(operand(graph[alone]))
    require(graph.shape(name) == merged)
    require(graph.shape(original) == (*narrow[: dim + 1], *narrow[dim + 2 :]))
    return original, dim, wide[dim + 1]


def _paged(graph: Graph, name: str, axes: Sequence[int | None], sizes: Sequence[int]) -> Read:
    """Keys [batch, keys, …] out of pages [page, keys within, …], by a table [batch, pages]."""
    keys = len(sizes) - 1
    require(base_of(graph[name].op) in SHAPED and list(axes[1:2]) == [keys])
    gathered = graph[unwrap(operand(graph[name]))]
    require(gathered.op == "aten.index.Tensor")
    pages, table = operands(gathered)
    require(gathered.args[1] == [{"node": table}])
    while graph[table].op == "aten._to_copy.default" and graph.dtype(table) in INTEGERS:
        table = unwrap(operand(graph[table]))
    shape, of_table = graph.shape(pages), graph.shape(table)
    require(len(of_table) == 2 and graph.dtype(table) in INTEGERS)
    require(graph.shape(name) == (of_table[0], of_table[1] * shape[1], *shape[2:]))
    require(graph.dtype(pages) in READABLE and of_table[1] > 1 and shape[1] > 1)
    own = (
        None if size == 1 and a != WIDTH else a for size, a in zip(shape[2:], axes[2:], strict=True)
    )
    batch = None if of_table[0] == 1 else axes[0]
    return Read(pages, (PAGE, keys, *own), table=Read(table, (batch, keys)))
