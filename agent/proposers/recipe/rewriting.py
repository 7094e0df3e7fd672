"""What a rewrite of a graph is written with: new nodes in the place of one."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from agent.proposers.recipe.operands import operand
from agent.proposers.recipe.patterns import attempt, require, unwrap
from agent.proposers.recipe.windows import CONVOLUTIONS, TRANSPOSED
from judge.graph import Graph
from judge.graph_spelling import with_values
from judge.worker import messages as m

ADDING: Final = ("aten.add.Tensor", "aten.sub.Tensor")
SCALING: Final = ("aten.mul.Tensor", "aten.div.Tensor")
PRODUCTS: Final = ("aten.linear.default", "aten.matmul.default", "aten.mm.default",
                   "aten.addmm.default")  # fmt: skip
_SWAPS: Final = ("aten.t.default", "aten.permute.default", "aten.transpose.int")
_ORDERS: Final[tuple[list[Any], ...]] = ([], [[1, 0]], [0, 1], [1, 0], [-1, -2], [-2, -1])


class Rewriting:
    """One node of a graph, and the nodes that take its place."""

    rules: ClassVar[Sequence[Callable[[Any], str]]] = ()
    """Methods that write these nodes and return what the rule is called, empty where it alone is
    not worth a candidate. They raise `NoMatchError` where they do not apply."""

    def __init__(self, graph: Graph, name: str) -> None:
        self._graph = graph
        self._node = graph[name]
        self._new: list[m.GraphNode] = []
        self._sized = False
        self._result = name

    def apply_first_rule(self) -> tuple[Graph, str] | None:
        """The graph after the first rule that applies, and what the rule is called."""
        for rule in self.rules:
            self._new.clear()
            name = attempt(rule, self)
            if name is not None:
                return self._build_graph(), name
        return None

    def _product(self, x: m.GraphNode) -> tuple[str, str, int, str | None]:
        """The left factor, the weights, their dimension that results run along, and the bias."""
        require(x.op in PRODUCTS and not x.kwargs)
        names = [unwrap(operand(x, place)) for place in range(len(x.args))]
        if x.op == "aten.addmm.default":
            names = [*names[1:], names[0]]
        left, weight, *bias = names
        ranks = [len(self._shape(name)) for name in names]
        require(ranks[0] >= 2 and ranks[1:] == [2, 1][: len(bias) + 1])
        along = 0
        if x.op != "aten.linear.default":
            producer, inner = self._graph[weight], operand(self._graph[weight])
            along = 1
            if producer.op in _SWAPS and [*producer.args[1:]] in _ORDERS and inner is not None:
                weight, along = inner, 0
        return left, weight, along, bias[0] if bias else None

    def _affine(self, x: m.GraphNode) -> tuple[int, str, str | None]:
        """Of an addition or a scaling behind which a linear map is: the place of the operand that
        comes from there, the operand, and the other one, which is None where it is a number."""
        require(x.op in (*ADDING, *SCALING) and len(x.args) == 2 and not x.kwargs)
        sides = [operand(x, place) for place in (0, 1)]
        place = unwrap(next((i for i, side in enumerate(sides) if self._alike(side, x)), None))
        require(place == 0 or x.op in ("aten.add.Tensor", "aten.mul.Tensor"))
        inner, other = unwrap(sides[place]), sides[1 - place]
        require(other is not None or isinstance(x.args[1 - place], int | float))
        require(self._leads_to_a_map(inner))
        return place, inner, other

    def _along(self, name: str, rank: int, dims: Sequence[int]) -> list[int]:
        """An operand's sizes along some of the dimensions of a result of this rank."""
        shape = self._shape(name)
        lead = rank - len(shape)
        return [shape[dim - lead] if dim >= lead else 1 for dim in dims]

    def _leads_to_a_map(self, name: str) -> bool:
        """Whether a linear map is behind elementwise additions and scalings."""
        while self._has_one_user(name):
            node = self._graph[name]
            if node.op in (*PRODUCTS, *TRANSPOSED, *CONVOLUTIONS):
                return True
            sides = [operand(node, place) for place in range(len(node.args))]
            inner = next((side for side in sides if self._alike(side, node)), None)
            if node.op not in (*ADDING, *SCALING) or inner is None:
                return False
            name = inner
        return False

    def _alike(self, name: str | None, node: m.GraphNode) -> bool:
        """Whether an operand has the shape and dtype of what it goes into."""
        return (
            name is not None
            and self._shape(name) == self._shape(node.name)
            and self._graph.dtype(name) == self._graph.dtype(node.name)
        )

    def _has_one_user(self, name: str) -> bool:
        """Whether nothing else needs a value."""
        return len(self._graph.users[name]) == 1 and name not in self._graph.outputs

    def _shape(self, name: str) -> tuple[int, ...]:
        new = next((node for node in self._new if node.name == name), None)
        return tuple(new.tensors[0].shape) if new is not None else self._graph.shape(name)

    def _out_sizes(self, name: str, dims: Sequence[int]) -> list[int]:
        return [1 if dim in dims else size for dim, size in enumerate(self._shape(name))]

    # Writing nodes

    def _add(
        self, op: str, args: list[Any], shape: Sequence[int], dtype: str = "", kwargs: Any = None
    ) -> str:
        """A new node, in the reduction's dtype if no other is given; its name."""
        name = f"{self._node.name[:40]}_{len(self._new)}_"
        dtype = dtype or self._graph.dtype(self._node.name)
        tensors = [m.GraphTensor(shape=[*shape], dtype=dtype)]
        self._new.append(
            m.GraphNode(name=name, op=op, args=args, kwargs=kwargs or {}, tensors=tensors)
        )
        return name

    def _emit(self, x: str) -> None:
        """`x` in its shape is what the reduction was."""
        node = self._node
        shape = self._graph.shape(node.name)
        if self._shape(x) != shape:
            x = self._add("aten.reshape.default", [ref(x), [*shape]], shape)
        self._result = x

    def _build_graph(self) -> Graph:
        name, nodes = self._node.name, list[m.GraphNode]()
        for node in self._graph.nodes.values():
            nodes += self._new if node.name == name else [node]
        mapping = {name: ref(self._result)}
        outputs = [self._result if output == name else output for output in self._graph.outputs]
        graph = self._graph.with_nodes([with_values(node, mapping) for node in nodes], outputs)
        return replace(graph, sized=graph.sized or self._sized)


def ref(name: str) -> dict[str, str]:
    """A value of the graph as an argument."""
    return {"node": name}
