"""Recognises PyTorch's recurrent layers in a graph: LSTM, GRU and plain layers, of any depth."""

from typing import Any, Final

from agent.proposers.recipe.core import Core, Finder
from agent.proposers.recipe.operands import operand, result_of
from agent.proposers.recipe.patterns import require, unwrap
from judge.graph import Graph, operands
from judge.graph_spelling import references

_KINDS: Final = {
    "aten.lstm.input": "lstm",
    "aten.gru.input": "gru",
    "aten.rnn_tanh.input": "rnn_tanh",
    "aten.rnn_relu.input": "rnn_relu",
}
_RESULTS: Final = ("{r0}", "{r1}", "{r2}")


def _recurrent(graph: Graph, root: str) -> Core:
    """A layer without dropout in use, packed sequences and projections left out."""
    layer = unwrap(result_of(graph, root, _KINDS))
    node = graph[layer]
    kind = _KINDS[node.op]
    x = unwrap(operand(node))
    states = list(references(node.args[1]))
    weights = list(references(node.args[2]))
    rest: list[Any] = node.args[3:9]
    bias, layers, dropout, training, bidirectional, batch_first = rest
    groups = layers * (2 if bidirectional else 1)
    require(not (training and dropout) and len(weights) == groups * (4 if bias else 2))
    require(len(graph.shape(x)) == 3 and len({graph.dtype(name) for name in operands(node)}) == 1)
    arguments = {
        "x": f"{{{x}}}",
        "h0": f"{{{states[0]}}}",
        "weights": f"torch.cat([{', '.join(f'{{{weight}}}.reshape(-1)' for weight in weights)}])",
        "kind": repr(kind),
        "bias": repr(bool(bias)),
        "bidirectional": repr(bool(bidirectional)),
        "batch_first": repr(bool(batch_first)),
    }
    if kind == "lstm":
        arguments["c0"] = f"{{{states[1]}}}"
    results = {name: _RESULTS[int(str(graph[name].args[1]))] for name in graph.users[layer]}
    nodes = frozenset({layer, *results})
    return Core("recurrent-layers", nodes, arguments, results, returns=3)


RECURRENT: Final[tuple[Finder, ...]] = (_recurrent,)
