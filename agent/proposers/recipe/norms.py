"""Recognises norms in a graph: RMS, layer, group, instance and batch norm."""

from typing import Any, Final

from agent.proposers.recipe.core import Core, along, as_root, only_axis, single
from agent.proposers.recipe.hooks import Finder, fusing
from agent.proposers.recipe.patterns import Match, match, uncast
from agent.proposers.recipe.spellings import LAYERNORM, RMSNORM
from judge.graph import Graph, reference


def add_rmsnorm(graph: Graph, root: str) -> Core | None:
    """Of a sum over the last dimension; the sum is a result as well."""
    found = match(graph, RMSNORM, root)
    if found is None or not _is_last(graph, root, found):
        return None
    x, weight = found.tensors["x"], found.tensors.get("weight")
    shape, addition = graph.shape(x), graph[x]
    sides = [reference(each) for each in addition.args[:2]]
    if (
        addition.op != "aten.add.Tensor"
        or addition.kwargs
        or any(each is None or graph.shape(each) != shape for each in sides)
    ):
        return None
    one, other = (uncast(graph, str(each))[0] for each in sides)
    casts = uncast(graph, str(sides[0]))[1] | uncast(graph, str(sides[1]))[1]
    used = {x} | {each for each in casts if set(graph.users[each]) <= {x}}
    arguments = {
        "x": as_root(graph, root, one),
        "residual": as_root(graph, root, other),
        "weight": _scale(graph, root, one, weight),
        "eps": repr(float(found.constants["eps"])),
    }
    return Core(
        "add-rmsnorm", found.nodes | used, arguments, {root: "{r0}", x: "{r1}"}, returns=2,
        reads=frozenset({one, other} | ({weight} if weight else set())),
    )  # fmt: skip


def _rmsnorm(graph: Graph, root: str) -> Core | None:
    """Over the last dimension, as the kernels of rows take it."""
    found = match(graph, RMSNORM, root)
    if found is None or not _is_last(graph, root, found):
        return None
    x = found.tensors["x"]
    arguments = {
        "x": as_root(graph, root, x),
        "weight": _scale(graph, root, x, found.tensors.get("weight")),
        "eps": repr(float(found.constants["eps"])),
        "dim": "-1",
    }
    return single("rmsnorm", found, root, arguments, "{r}", optional=frozenset({"dim"}))


def _scale(graph: Graph, root: str, x: str, weight: str | None) -> str:
    if weight is None:
        return f"{{{x}}}.new_ones({{{x}}}.shape[-1])"
    return as_root(graph, root, weight)


def _is_last(graph: Graph, root: str, found: Match) -> bool:
    """Whether an RMSNorm is over the last dimension with a weight along it, or none."""
    shape = graph.shape(found.tensors["x"])
    weight = found.tensors.get("weight")
    last = _rms_axis(graph, root, found) == len(shape) - 1
    return last and (weight is None or graph.shape(weight) == shape[-1:])


def _rms_axis(graph: Graph, root: str, found: Match) -> int | None:
    shape = graph.shape(found.tensors["x"])
    axis = only_axis(found.constants.get("dim", [-1]), len(shape))
    named = found.constants.get("shape")
    whole = graph.shape(root) == shape and (named is None or len(named) == 1)
    return axis if whole and isinstance(found.constants["eps"], float | int) else None


def _rmsnorm_dim(graph: Graph, root: str) -> Core | None:
    """Over any dimension, where it lies."""
    found = match(graph, RMSNORM, root)
    if found is None or (axis := _rms_axis(graph, root, found)) is None:
        return None
    return _along_axis(graph, found, "rmsnorm", axis, ("weight",))


def _layernorm(graph: Graph, root: str) -> Core | None:
    """Of any dimension, spelled out."""
    found = match(graph, LAYERNORM, root)
    if found is None:
        return None
    shape = graph.shape(found.tensors["x"])
    axis = only_axis(found.constants["dim"], len(shape))
    eps = found.constants["eps"]
    if axis is None or graph.shape(root) != shape or not isinstance(eps, float | int):
        return None
    return _along_axis(graph, found, "layer-norm", axis, ("weight", "bias"))


def _along_axis(
    graph: Graph, found: Match, family: str, axis: int, vectors: tuple[str, ...]
) -> Core | None:
    """A core over one dimension, whose `vectors` lie along it."""
    x = found.tensors["x"]
    shape = graph.shape(x)
    arguments = {"x": f"{{{x}}}", "dim": str(axis), "eps": repr(float(found.constants["eps"]))}
    reads = {x}
    for name in vectors:
        if name in found.tensors:
            vector = along(graph, found.tensors[name], axis, shape)
            if vector is None:
                return None
            reads.add(vector[0])
            arguments[name] = vector[1]
    # Along a dimension that is not the last, a lane is all that lies after it.
    lanes = max(1, len(shape) - axis - 1)
    return _hookable(
        graph, family, found.nodes, arguments, x=x, reads=frozenset(reads), lanes=lanes
    )


def _layernorm_op(graph: Graph, root: str) -> Core | None:
    """PyTorch's operator, over the last dimensions as one."""
    node = graph[root]
    if node.op != "aten.layer_norm.default" or (x := reference(node.args[0])) is None:
        return None
    args: list[Any] = node.args
    count, rank = len(args[1]), len(graph.shape(x))
    given = [reference(each) for each in node.args[2:4]]
    flat = "" if count == 1 else f".flatten({rank - count})"
    arguments = {
        "x": f"{{{x}}}{flat}",
        "dim": str(rank - count),
        "eps": repr(float(args[4] if len(args) > 4 else 1e-5)),
    }
    for name, value in zip(("weight", "bias"), given, strict=False):
        if value is not None:
            arguments[name] = f"{{{value}}}" + (".flatten()" if flat else "")
    reads = frozenset({x, *(each for each in given if each is not None)})
    back = f".view({{{x}}}.shape)" if flat else ""
    nodes = frozenset({root})
    return _hookable(
        graph, "layer-norm", nodes, arguments, x=x, reads=reads, lanes=count, back=back
    )


def _group_norm(graph: Graph, root: str) -> Core | None:
    """Group norm; instance norm is that of one channel a group."""
    node = graph[root]
    args: list[Any] = node.args
    if node.op == "aten.group_norm.default":
        groups = args[1]
        eps = args[4] if len(args) > 4 else 1e-5
        given = [reference(each) for each in node.args[2:4]]
    elif node.op == "aten.instance_norm.default" and node.args[5] is True:
        if any(each is not None for each in node.args[3:5]):
            return None  # statistics that are updated
        groups, eps = None, args[7]
        given = [reference(each) for each in node.args[1:3]]
    else:
        return None
    x = reference(node.args[0])
    if x is None or len(graph.shape(x)) < 2:
        return None
    number = f"{{{x}}}.shape[1]" if groups is None else str(groups)
    arguments = {"x": f"{{{x}}}", "groups": number, "eps": repr(float(eps))}
    for name, value in zip(("weight", "bias"), given, strict=False):
        if value is not None:
            arguments[name] = f"{{{value}}}"
    reads = frozenset({x, *(each for each in given if each is not None)})
    nodes, lanes = frozenset({root}), len(graph.shape(x))
    return _hookable(graph, "group-norm", nodes, arguments, x=x, reads=reads, lanes=lanes)


def _batch_norm(graph: Graph, root: str) -> Core | None:
    """Of a model that is not trained: a scale and a shift a channel."""
    source = reference(graph[root].args[0]) if graph[root].op == "getitem" else None
    if source is None or graph[root].args[1] != 0:
        return None
    node = graph[source]
    if node.op != "aten._native_batch_norm_legit_no_training.default":
        return None
    args: list[Any] = node.args
    x, weight, bias, mean, variance = (reference(each) for each in args[:5])
    if x is None or mean is None or variance is None or len(graph.shape(x)) < 2:
        return None
    arguments = {
        "x": f"{{{x}}}", "mean": f"{{{mean}}}", "variance": f"{{{variance}}}",
        "eps": repr(float(args[6])),
    }  # fmt: skip
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None:
            arguments[name] = f"{{{value}}}"
    reads = frozenset(each for each in (x, weight, bias, mean, variance) if each is not None)
    nodes, lanes = frozenset({root, source}), len(graph.shape(x))
    return _hookable(graph, "batch-norm", nodes, arguments, x=x, reads=reads, lanes=lanes)


def _batch_norm_training(graph: Graph, root: str) -> Core | None:
    """By the batch's own statistics, which nobody keeps."""
    source = reference(graph[root].args[0]) if graph[root].op == "getitem" else None
    if source is None or graph[root].args[1] != 0 or len(graph.users[source]) != 1:
        return None
    node = graph[source]
    if node.op != "aten._native_batch_norm_legit.no_stats" or node.args[3] is not True:
        return None
    x, weight, bias = (reference(each) for each in node.args[:3])
    if x is None or len(graph.shape(x)) < 2:
        return None
    arguments = {"x": f"{{{x}}}", "eps": repr(float(str(node.args[5])))}
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None:
            arguments[name] = f"{{{value}}}"
    reads = frozenset(each for each in (x, weight, bias) if each is not None)
    nodes, lanes = frozenset({root, source}), len(graph.shape(x))
    return _hookable(graph, "batch-norm-training", nodes, arguments, x=x, reads=reads, lanes=lanes)


def _hookable(
    graph: Graph,
    family: str,
    nodes: frozenset[str],
    arguments: dict[str, str],
    *,
    x: str,
    reads: frozenset[str],
    lanes: int,
    back: str = "",
) -> Core:
    """A core whose kernels take any dtype in and out and fuse what is around."""
    root = max(nodes, key=list(graph.nodes).index)
    if graph.dtype(root) != graph.dtype(x):
        arguments = arguments | {"out_dtype": f"torch.{graph.dtype(root)}"}
    return Core(
        family, nodes, arguments, {root: "{r}" + back}, reads=reads, main=x, lanes=lanes,
        out_lanes=lanes,
    )  # fmt: skip


NORMS: Final[tuple[Finder, ...]] = (
    add_rmsnorm, fusing(_rmsnorm_dim), _rmsnorm, _rmsnorm_dim,
    fusing(_layernorm_op), _layernorm_op, fusing(_layernorm), _layernorm,
    fusing(_group_norm), _group_norm, fusing(_batch_norm), _batch_norm,
    fusing(_batch_norm_training), _batch_norm_training,
)  # fmt: skip
