"""Tells halves of a tensor along its last dimension."""

from judge.graph import Graph, reference


def half(  # noqa: PLR0911 (two spellings of a half)
    graph: Graph, name: str
) -> tuple[str, int, set[str]] | None:
    """Of what a value is the first (0) or second (1) half along the last dimension."""
    node = graph[name]
    if node.op == "getitem":
        split = reference(node.args[0])
        if split is None or graph[split].op not in ("aten.split.Tensor", "aten.chunk.default"):
            return None
        source = reference(graph[split].args[0])
        dim = graph[split].args[2] if len(graph[split].args) > 2 else 0
        if source is None or len(graph[split].tensors) != 2:
            return None
        rank = len(graph.shape(source))
        equal = graph[split].tensors[0].shape == graph[split].tensors[1].shape
        index = node.args[1]
        if equal and isinstance(dim, int) and dim % rank == rank - 1 and isinstance(index, int):
            return source, index, {split}
        return None
    if node.op == "aten.slice.Tensor" and len(node.args) >= 4:
        source, dim, start = reference(node.args[0]), node.args[1], node.args[2]
        if source is None or not isinstance(dim, int):
            return None
        rank, length = len(graph.shape(source)), graph.shape(source)[-1]
        step = node.args[4] if len(node.args) > 4 else 1
        halved = 2 * graph.shape(name)[-1] == length and step == 1
        if halved and dim % rank == rank - 1 and start in (0, None, length // 2):
            return source, 0 if start in (0, None) else 1, set()
    return None
