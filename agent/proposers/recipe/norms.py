"""Recognises norms in a graph: RMS, layer, group, instance, batch norm, and division by a norm."""

from typing import Any, Final

from agent.proposers.recipe.core import (
    Core,
    Finder,
    along,
    as_root,
    hookable,
    out_dtype,
    single,
    values,
)
from agent.proposers.recipe.hooks import with_fusion
from agent.proposers.recipe.operands import argument, only_axis, operand, result_of
from agent.proposers.recipe.patterns import Match, match, require, uncast, unwrap
from agent.proposers.recipe.spellings import LAYERNORM, RMSNORM
from judge.graph import Graph

# Operator → family, and where it has its epsilon.
_BATCH_NORMS: Final = {
    "aten._native_batch_norm_legit_no_training.default": ("batch-norm", 6),
    "aten._native_batch_norm_legit.no_stats": ("batch-norm-training", 5),
}


def add_rmsnorm(graph: Graph, root: str) -> Core:
    """Of a sum over the last dimension; the sum is a result as well."""
    hit = _match_rows(graph, root)
    x, weight = hit.tensors["x"], hit.tensors.get("weight")
    shape, addition = graph.shape(x), graph[x]
    require(addition.op == "aten.add.Tensor" and not addition.kwargs)
    sides = [unwrap(operand(addition, place)) for place in (0, 1)]
    require(all(graph.shape(side) == shape for side in sides))
    (one, casts), (other, more) = (uncast(graph, side) for side in sides)
    used = {x} | {cast for cast in casts | more if set(graph.users[cast]) <= {x}}
    arguments = {
        "x": as_root(graph, root, one),
        "residual": as_root(graph, root, other),
        "weight": _scale(graph, root, one, weight),
        "eps": repr(float(hit.constants["eps"])),
    }
    results = {root: "{r0}", x: "{r1}"}
    return Core("add-rmsnorm", hit.nodes | used, arguments, results, returns=2)


def _rmsnorm(graph: Graph, root: str) -> Core:
    """Over the last dimension, as the kernels of rows take it."""
    hit = _match_rows(graph, root)
    x = hit.tensors["x"]
    arguments = {
        "x": as_root(graph, root, x),
        "weight": _scale(graph, root, x, hit.tensors.get("weight")),
        "eps": repr(float(hit.constants["eps"])),
        "dim": "-1",
    }
    optional = frozenset({"dim"})
    return single("rmsnorm", root, arguments, nodes=hit.nodes, optional=optional)


def _scale(graph: Graph, root: str, x: str, weight: str | None) -> str:
    if weight is None:
        return f"{{{x}}}.new_ones({{{x}}}.shape[-1])"
    return as_root(graph, root, weight)


def _match_rows(graph: Graph, root: str) -> Match:
    """An RMSNorm over the last dimension with a weight along it, or none."""
    hit = match(graph, RMSNORM, root)
    shape, weight = graph.shape(hit.tensors["x"]), hit.tensors.get("weight")
    require(_axis(graph, root, hit) == len(shape) - 1)
    require(weight is None or graph.shape(weight) == shape[-1:])
    return hit


def _axis(graph: Graph, root: str, hit: Match) -> int:
    """The one dimension of a norm that does not broadcast."""
    shape = graph.shape(hit.tensors["x"])
    sizes = hit.constants.get("shape")
    require(graph.shape(root) == shape and (sizes is None or len(sizes) == 1))
    require(isinstance(hit.constants["eps"], float | int))
    return unwrap(only_axis(hit.constants.get("dim", [-1]), len(shape)))


def _along_axis(pattern: Any, family: str) -> Finder:
    """A finder of norms over any one dimension, which their weight and bias lie along."""

    def finder(graph: Graph, root: str) -> Core:
        hit = match(graph, pattern, root)
        axis = _axis(graph, root, hit)
        x = hit.tensors["x"]
        shape = graph.shape(x)
        arguments = values(x=x) | {"dim": str(axis), "eps": repr(float(hit.constants["eps"]))}
        for name in ("weight", "bias"):
            if name in hit.tensors:
                arguments[name] = unwrap(along(graph, hit.tensors[name], axis, shape))
        # Along a dimension that is not the last, a lane is all that lies after it.
        lanes = max(1, len(shape) - axis - 1)
        return hookable(graph, root, family, x, arguments, lanes, nodes=hit.nodes)

    return finder


def _layernorm_op(graph: Graph, root: str) -> Core:
    """PyTorch's operator, over the last dimensions as one."""
    node = graph[root]
    require(node.op == "aten.layer_norm.default")
    x = unwrap(operand(node))
    count, rank = len(argument(node, 1)), len(graph.shape(x))
    vectors = values(weight=operand(node, 2), bias=operand(node, 3))
    flat, flat_vector, back = "", "", ""
    if count > 1:
        flat, flat_vector = f".flatten({rank - count})", ".flatten()"
        back = f".view({{{x}}}.shape)"
    arguments = {
        "x": f"{{{x}}}{flat}",
        "dim": str(rank - count),
        "eps": repr(float(argument(node, 4, 1e-5))),
        **{name: f"{vector}{flat_vector}" for name, vector in vectors.items()},
    }
    return hookable(graph, root, "layer-norm", x, arguments, count, result="{r}" + back)


def _group_norm(graph: Graph, root: str) -> Core:
    """Group norm; instance norm is that of one channel a group."""
    node = graph[root]
    if node.op == "aten.group_norm.default":
        groups, eps, first = argument(node, 1), argument(node, 4, 1e-5), 2
    else:
        require(node.op == "aten.instance_norm.default" and node.args[5] is True)
        require(node.args[3:5] == [None, None])  # no statistics that are updated
        groups, eps, first = None, argument(node, 7), 1
    x = unwrap(operand(node))
    require(len(graph.shape(x)) >= 2)
    number = f"{{{x}}}.shape[1]" if groups is None else str(groups)
    arguments = values(x=x) | {"groups": number, "eps": repr(float(eps))}
    arguments |= values(weight=operand(node, first), bias=operand(node, first + 1))
    return hookable(graph, root, "group-norm", x, arguments, len(graph.shape(x)))


def _batch_norm(graph: Graph, root: str) -> Core:
    """Of a model that is not trained (a scale and a shift a channel), or by the batch's own
    statistics, which nobody keeps."""
    source = unwrap(result_of(graph, root, _BATCH_NORMS, 0))
    node = graph[source]
    family, eps = _BATCH_NORMS[node.op]
    training = family == "batch-norm-training"
    require(not training or (len(graph.users[source]) == 1 and node.args[3] is True))
    x, weight, bias, *statistics = (operand(node, place) for place in range(3 if training else 5))
    x = unwrap(x)
    require(None not in statistics and len(graph.shape(x)) >= 2)
    arguments = values(x=x, **dict(zip(("mean", "variance"), statistics, strict=False)))
    arguments |= {"eps": repr(float(argument(node, eps)))} | values(weight=weight, bias=bias)
    return hookable(graph, root, family, x, arguments, len(graph.shape(x)), nodes=[source])


def _normalize(graph: Graph, root: str) -> Core:
    """A tensor divided by its own norm, or by the mean of its magnitudes, along a dimension."""
    node = graph[root]
    require(node.op == "aten.div.Tensor" and not node.kwargs)
    x, norm = unwrap(operand(node)), unwrap(operand(node, 1))
    nodes, least = {root}, 0.0
    while graph[norm].op in ("aten.expand.default", "aten.clamp_min.default"):
        nodes.add(norm)
        if graph[norm].op == "aten.clamp_min.default":
            least = float(argument(graph[norm], 1))
        norm = unwrap(operand(graph[norm]))
    divisor, kind = graph[norm], None
    dims, keeps, source = argument(divisor, 1), argument(divisor, 2), operand(divisor)
    nodes.add(norm)
    if divisor.op == "aten.linalg_vector_norm.default":
        kind = {1: "l1", 2: "l2"}.get(argument(divisor, 1, 2))
        dims, keeps = argument(divisor, 2), argument(divisor, 3)
    elif divisor.op == "aten.mean.dim" and source and graph[source].op == "aten.abs.default":
        nodes.add(source)
        kind, source = "mean", operand(graph[source])
    require(kind is not None and source == x and keeps is True)
    axis = unwrap(only_axis(dims, len(graph.shape(x))))
    require(all(set(graph.users[name]) <= nodes for name in nodes - {root}))
    arguments = values(x=x) | {"dim": str(axis), "kind": repr(kind), "eps": repr(least)}
    return single("normalize", root, arguments | out_dtype(graph, root, x), nodes=nodes)


_rmsnorm_dim = _along_axis(RMSNORM, "rmsnorm")
_layernorm = _along_axis(LAYERNORM, "layer-norm")
NORMS: Final[tuple[Finder, ...]] = (
    add_rmsnorm, with_fusion(_rmsnorm_dim), _rmsnorm, _rmsnorm_dim,
    with_fusion(_layernorm_op), _layernorm_op, with_fusion(_layernorm), _layernorm,
    with_fusion(_group_norm), _group_norm, with_fusion(_batch_norm), _batch_norm, _normalize,
)  # fmt: skip
