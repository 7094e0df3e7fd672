"""The graph of a problem's model, with what matching needs: users, shapes, constants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from judge.graph_spelling import normalize, references, substitute, with_values
from judge.sandbox.launch import Zygote
from judge.worker import messages as m
from kb.errors import KbError


class GraphError(KbError):
    """The problem's model has no graph. The message says why."""

    status = 422


@dataclass(frozen=True)
class Graph:
    """Values by name, in the order of execution."""

    nodes: dict[str, m.GraphNode]
    outputs: tuple[str, ...]
    """Names of what the model returns; a tuple where there are several."""
    updates: tuple[str, ...] = ()
    """State-dict names of buffers that a call changes, such as running statistics."""
    triangles: Mapping[str, int] = field(default_factory=dict)
    """Inputs that the problem makes as triangles: -1 a lower one, 1 an upper one."""
    sized: bool = False
    """Whether numbers in it hold for the problem's own shapes alone."""

    @classmethod
    def from_export(cls, request_graph: m.Graph) -> "Graph":
        """The graph that a worker exported.

        Raises
        ------
        GraphError
            The model could not be exported, or returns something that is no tensor.
        """
        if request_graph.reason:
            raise GraphError(f"the model has no graph: {request_graph.reason}")
        normalized, returned = normalize(request_graph.nodes, request_graph.outputs)
        nodes, same = _without_broadcasts(normalized)
        outputs = [reference(value) for value in substitute(returned, same)]
        if not outputs or any(output is None or output not in nodes for output in outputs):
            raise GraphError("the model returns something that is not a tensor")
        names = tuple(output for output in outputs if output is not None)
        return cls(_reachable(nodes, names), names, tuple(request_graph.updates))

    def __getitem__(self, name: str) -> m.GraphNode:
        return self.nodes[name]

    def with_nodes(self, nodes: Sequence[m.GraphNode], outputs: Sequence[str]) -> "Graph":
        """The graph with other nodes, in the order of execution, and other values returned. Nodes
        that no output needs are dropped."""
        by_name = {node.name: node for node in nodes}
        return replace(self, nodes=_reachable(by_name, outputs), outputs=tuple(outputs))

    @cached_property
    def users(self) -> dict[str, tuple[str, ...]]:
        """Which values are computed from each."""
        by_operand: dict[str, list[str]] = {name: [] for name in self.nodes}
        for name, node in self.nodes.items():
            for operand in dict.fromkeys(operands(node)):
                by_operand[operand].append(name)
        return {name: tuple(users) for name, users in by_operand.items()}

    @cached_property
    def computed(self) -> tuple[str, ...]:
        """Values that operators compute, in order."""
        return tuple(
            name for name, node in self.nodes.items() if node.op not in ("input", "tensor")
        )

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a value that is one tensor."""
        return tuple(self.nodes[name].tensors[0].shape)

    def dtype(self, name: str) -> str:
        """Such as float32."""
        return self.nodes[name].tensors[0].dtype

    def is_tensor(self, name: str) -> bool:
        """Whether a value is one tensor."""
        return len(self.nodes[name].tensors) == 1


def reference(value: Any) -> str | None:
    """The node's name where an argument is a value of the graph."""
    if isinstance(value, dict) and isinstance(value.get("node"), str):
        return str(value["node"])
    return None


def operands(node: m.GraphNode) -> list[str]:
    """Names of the values that a node is computed from, in the order of its arguments."""
    return list(references([*node.args, *node.kwargs.values()]))


def _reachable(nodes: Mapping[str, m.GraphNode], outputs: Sequence[str]) -> dict[str, m.GraphNode]:
    """The nodes that outputs depend on, and all inputs and tensors of the model."""
    needed: set[str] = set()
    pending = list(outputs)
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += operands(nodes[name])
    return {
        name: node
        for name, node in nodes.items()
        if name in needed or node.op in ("input", "tensor")
    }


def _without_broadcasts(
    original: Sequence[m.GraphNode],
) -> tuple[dict[str, m.GraphNode], dict[str, Any]]:
    """The nodes without broadcasts of tensors that are of one shape already, and what stands for
    their results: losses begin with them."""
    shapes = {value.name: [tensor.shape for tensor in value.tensors] for value in original}
    substitutes: dict[str, Any] = {}
    dropped: dict[str, list[str]] = {}
    nodes: dict[str, m.GraphNode] = {}
    for value in original:
        node = with_values(value, substitutes)
        parts = list(references(node.args))
        if node.op == "aten.broadcast_tensors.default" and all(
            shapes[part] == shapes[parts[0]] for part in parts
        ):
            dropped[node.name] = parts
        elif node.op == "getitem" and parts and parts[0] in dropped:
            substitutes[node.name] = {"node": dropped[parts[0]][int(str(node.args[1]))]}
        else:
            nodes[node.name] = node
    return nodes, substitutes


def export_graph(
    source: str, name: str = "problem.py", dtype: str | None = None, zygote: Zygote | None = None
) -> Graph:
    """Export the graph of a problem in a sandboxed worker; no GPU is used, nothing is computed.

    Raises
    ------
    GraphError
        The file raises, or its model cannot be exported.
    """
    return Graph.from_export(request_graph(source, name, dtype, zygote))


def request_graph(source: str, name: str, dtype: str | None, zygote: Zygote | None) -> m.Graph:
    """What a worker says of the graph, as `export_graph` reads it; raises as that does."""
    from judge.evaluate.session import (  # noqa: PLC0415 (it starts what loads torch)
        CommandFailedError,
        Session,
        WorkerError,
    )

    with Session("cpu", zygote=zygote) as session:
        worker = session.worker("graph")
        try:
            command = m.ExportGraph(source=source, module_name=name, dtype=dtype)
            return worker.export_graph(command)
        except (CommandFailedError, WorkerError) as error:
            raise GraphError(f"the problem cannot be exported: {error}") from error
