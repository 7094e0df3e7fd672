"""What a rewrite of a graph is written with: new nodes in the place of one."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from agent.proposers.recipe.patterns import attempt, require
from judge.graph import Graph
from judge.graph_spelling import with_values
from judge.worker import messages as m


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
        self._stands = name

    def tried(self) -> tuple[Graph, str] | None:
        """The graph after the first rule that applies, and what the rule is called."""
        for rule in self.rules:
            self._new.clear()
            name = attempt(rule, self)
            if name is not None:
                return self._written(), name
        return None

    def _full(self, name: str | None, node: m.GraphNode) -> bool:
        """Whether an operand has the shape and dtype of what it goes into."""
        return (
            name is not None
            and self._shape(name) == self._shape(node.name)
            and self._graph.dtype(name) == self._graph.dtype(node.name)
        )

    def _alone(self, name: str) -> bool:
        """Whether nothing else needs a value."""
        return len(self._graph.users[name]) == 1 and name not in self._graph.outputs

    def _shape(self, name: str) -> tuple[int, ...]:
        new = next((each for each in self._new if each.name == name), None)
        return tuple(new.tensors[0].shape) if new is not None else self._graph.shape(name)

    def _reduced(self, name: str, dims: Sequence[int]) -> list[int]:
        return [1 if dim in dims else size for dim, size in enumerate(self._shape(name))]

    # Writing nodes

    def _add(
        self, op: str, args: list[Any], shape: Sequence[int], dtype: str = "", given: Any = None
    ) -> str:
        """A new node, in the reduction's dtype if no other is given; its name."""
        name = f"{self._node.name[:40]}_{len(self._new)}_"
        dtype = dtype or self._graph.dtype(self._node.name)
        tensors = [m.GraphTensor(shape=[*shape], dtype=dtype)]
        self._new.append(
            m.GraphNode(name=name, op=op, args=args, kwargs=given or {}, tensors=tensors)
        )
        return name

    def _view(self, x: str) -> None:
        """`x` in its shape is what the reduction was."""
        node = self._node
        shape = self._graph.shape(node.name)
        if self._shape(x) != shape:
            x = self._add("aten.reshape.default", [ref(x), [*shape]], shape)
        self._stands = x

    def _written(self) -> Graph:
        name, nodes = self._node.name, list[m.GraphNode]()
        for node in self._graph.nodes.values():
            nodes += self._new if node.name == name else [node]
        there = {name: ref(self._stands)}
        outputs = [self._stands if each == name else each for each in self._graph.outputs]
        graph = self._graph.with_nodes([with_values(each, there) for each in nodes], outputs)
        return replace(graph, sized=graph.sized or self._sized)


def ref(name: str) -> dict[str, str]:
    """A value of the graph as an argument."""
    return {"node": name}


def numbers(value: Any, count: int) -> list[int]:
    """An argument that is one number for each axis, or one for all.

    Raises
    ------
    NoMatchError
        It is a word, such as "same".
    """
    require(not isinstance(value, str))
    listed = value if isinstance(value, list) else [value]
    return [int(each) for each in (listed * count if len(listed) == 1 else listed)]
