"""Recognises reductions and running sums in a graph: over one dimension, neighbouring ones, all."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from agent.proposers.recipe.core import (
    Core,
    Finder,
    argument,
    hookable,
    operand,
    out_dtype,
    result_of,
    values,
)
from agent.proposers.recipe.hooks import fusing
from judge.graph import Graph
from judge.worker import messages as m

# Operator → what the kernels call it.
_REDUCTIONS: Final = {
    "aten.sum.default": "sum", "aten.sum.dim_IntList": "sum",
    "aten.mean.default": "mean", "aten.mean.dim": "mean",
    "aten.amax.default": "max", "aten.max.default": "max",
    "aten.amin.default": "min", "aten.min.default": "min",
    "aten.prod.default": "prod", "aten.prod.dim_int": "prod",
}  # fmt: skip
# Of the rows of a product.
_ROW_REDUCTIONS: Final = {
    **{operator: kind for operator, kind in _REDUCTIONS.items() if kind != "prod"},
    "aten.logsumexp.default": "logsumexp",
}
# Operator → whether the largest is sought.
_PAIRS: Final = {"aten.max.dim": True, "aten.min.dim": False}
_PLACES: Final = {"aten.argmax.default": True, "aten.argmin.default": False}
_VARIANCES: Final = ("aten.var.dim", "aten.var.correction", "aten.std.dim", "aten.std.correction")
_PAIRED_VARIANCES: Final = ("aten.var_mean.dim", "aten.var_mean.correction")


def _reduce(graph: Graph, root: str) -> Core | None:
    """Sum, mean, product, maximum or minimum."""
    found = _reduction(graph, root, _REDUCTIONS)
    if found is None:
        return None
    kind, place, inner = found
    return _core(graph, root, "reduce", place, {"kind": repr(kind)}, inner)


def _argmax(graph: Graph, root: str) -> Core | None:
    """Indices of extremes, with or without the values."""
    node = graph[root]
    if node.op in _PLACES:
        largest, inner, results = _PLACES[node.op], frozenset[str](), {root: 1}
    elif (source := result_of(graph, root, _PAIRS)) is not None:
        node = graph[source]
        largest, inner, results = _PAIRS[node.op], frozenset({source}), _parts(graph, source)
    else:
        return None
    dim = argument(node, 1)
    place = _place(graph, node, None if dim is None else [dim])
    if place is None:
        return None
    given = {"largest": repr(largest)}
    return _core(graph, root, "argmax", place, given, inner, results)


def _variance(graph: Graph, root: str) -> Core | None:
    """Variance or standard deviation, with the mean where it is asked for."""
    node = graph[root]
    if node.op in _VARIANCES:
        source, results = root, {root: 0}
    elif (found := result_of(graph, root, _PAIRED_VARIANCES)) is not None:
        source, results = found, _parts(graph, found)
        node = graph[found]
    else:
        return None
    place = _place(graph, node, argument(node, 1), keep_at=3)
    if place is None:
        return None
    correction: Any = node.kwargs.get("correction", 1)
    if node.op.endswith(".dim") and len(node.args) > 2:
        correction = 1 if node.args[2] else 0
    given = {"correction": repr(float(1 if correction is None else correction))}
    inner = frozenset({source} - {root})
    core = _core(graph, root, "variance", place, given, inner, results)
    if "aten.std" in node.op:
        return replace(core, results={root: core.results[root] + ".sqrt()"})
    mean = _same_mean(graph, source, place)
    if mean is None or source != root:
        return core
    more = _core(graph, mean, "variance", place, given, results={mean: 1})
    return replace(core, nodes=core.nodes | {mean}, results=core.results | more.results)


def _same_mean(graph: Graph, variance: str, place: "Place") -> str | None:
    """The mean along the same dimensions, which the kernel gives with the variance."""
    for name in graph.users[place.x]:
        node = graph[name]
        if node.op == "aten.mean.dim" and name != variance and not node.kwargs:
            other = _place(graph, node, node.args[1])
            if other is not None and (other.first, other.count) == (place.first, place.count):
                return name
    return None


def _norm(graph: Graph, root: str) -> Core | None:
    """Euclidean norm, or sum of magnitudes."""
    node = graph[root]
    if node.op != "aten.linalg_vector_norm.default" or node.kwargs:
        return None
    order = argument(node, 1, 2)
    place = _place(graph, node, argument(node, 2), keep_at=3)
    if place is None or order not in (1, 2):
        return None
    core = _core(graph, root, "reduce", place, {"kind": "'sum'"})
    before, after = f"_power_{root}", f"_root_{root}"
    power, back = ("x * x", "tl.sqrt(x)") if order == 2 else ("tl.abs(x)", "x")
    texts = tuple(
        f"@triton.jit\ndef {name}(x, lead, lane, mask, operands):\n    return {text}"
        for name, text in ((before, power), (after, back))
    )
    arguments = core.arguments | {"before": before, "after": after}
    # What stands around it has no place beside these functions.
    return replace(core, arguments=arguments, functions=texts, main="")


def _divergence(graph: Graph, root: str) -> Core | None:
    """The sum or mean of a Kullback-Leibler divergence, of logarithms that are taken here as well
    where they have no other use."""
    node = graph[root]
    if node.op != "aten.kl_div.default" or node.kwargs.get("log_target", False) is not False:
        return None
    kind = {1: "mean", 2: "sum"}.get(argument(node, 2, 1))
    x, target = operand(node), operand(node, 1)
    if kind is None or x is None or target is None or graph.shape(x) != graph.shape(target):
        return None
    inner, mine = frozenset[str](), "x"
    if graph[x].op == "aten.log.default" and set(graph.users[x]) == {root}:
        inner, mine = frozenset({x}), "tl.log(x)"
        x = operand(graph[x])
    place = _place(graph, node, None)
    if x is None or place is None or graph.dtype(x) != graph.dtype(root):
        return None
    core = _core(graph, root, "reduce", replace(place, x=x), {"kind": repr(kind)}, inner)
    before = f"_divergence_{root}"
    # As PyTorch: 0 times the logarithm of 0 is 0 for the target's own, NaN for the other.
    text = (
        f"@triton.jit\ndef {before}(x, lead, lane, mask, operands):\n"
        "    y = tl.load(operands[0] + lead + lane, mask=mask, other=0.0).to(tl.float32)\n"
        f"    return tl.where(y == 0.0, 0.0, y * tl.log(y)) - y * {mine}"
    )
    arguments = core.arguments | {
        "before": before,
        "before_operands": f"({{{target}}}.contiguous(),)",
    }
    return replace(core, arguments=arguments, functions=(text,), main="")


def _scan(graph: Graph, root: str) -> Core | None:
    """Running sums or products."""
    node = graph[root]
    kinds = {"aten.cumsum.default": "sum", "aten.cumprod.default": "prod"}
    x = operand(node) if node.op in kinds else None
    if x is None or set(node.kwargs) - {"dtype"} or not (rank := len(graph.shape(x))):
        return None
    if "float" not in graph.dtype(x) or "float" not in graph.dtype(root):
        return None
    axis = int(argument(node, 1)) % rank
    arguments = values(x=x) | {"dim": str(axis), "kind": repr(kinds[node.op])}
    return hookable(graph, root, "cumsum", x, arguments, max(1, rank - axis - 1))


def _reverse_scan(graph: Graph, root: str) -> Core | None:
    """Running sums or products from the end: turned around, scanned, turned back."""
    node = graph[root]
    inner = operand(node) if node.op == "aten.flip.default" else None
    core = _scan(graph, inner) if inner is not None else None
    if core is None:
        return None
    first = graph[core.main]
    x = operand(first) if first.op == "aten.flip.default" else None
    if x is None:
        return None
    rank = len(graph.shape(root))
    axes = [[int(axis) % rank for axis in argument(each, 1)] for each in (node, first)]
    if axes != [[int(core.arguments["dim"])]] * 2:
        return None
    arguments = core.arguments | values(x=x) | {"reverse": "True"}
    nodes = core.nodes | {root, first.name}
    return replace(core, nodes=nodes, arguments=arguments, results={root: "{r}"}, main=x)


@dataclass(frozen=True)
class Place:
    """Neighbouring dimensions that are reduced."""

    x: str
    first: int
    count: int
    rank: int
    keep: bool


def _place(graph: Graph, node: m.GraphNode, dims: Any, keep_at: int = 2) -> Place | None:
    """None where the dimensions are not neighbours, or the values no floating-point numbers.
    `keep_at` is where the operator has `keepdim`."""
    x = operand(node)
    if x is None or not graph.is_tensor(x) or "float" not in graph.dtype(x):
        return None
    rank = len(graph.shape(x))
    if dims is not None and not isinstance(dims, list):
        return None
    chosen = sorted({int(each) % rank for each in dims}) if dims and rank else [*range(rank)]
    if not chosen or chosen != [*range(chosen[0], chosen[0] + len(chosen))]:
        return None
    given = argument(node, keep_at, node.kwargs.get("keepdim"))
    return Place(x, chosen[0], len(chosen), rank, keep=given is True)


def _reduction(
    graph: Graph, root: str, kinds: Mapping[str, str]
) -> tuple[str, Place, frozenset[str]] | None:
    """What a reduction is called, where it lies, and the operator inside of it, if there is one:
    values of `max` along a dimension are a reduction where nobody reads the indices."""
    node, inner = graph[root], frozenset[str]()
    kind = kinds.get(node.op)
    pair = result_of(graph, root, _PAIRS, 0)
    if pair is not None and len(graph.users[pair]) == 1:
        node, inner = graph[pair], frozenset({pair})
        kind = "max" if _PAIRS[node.op] else "min"
    if kind is None or set(node.kwargs) - {"dtype", "keepdim"}:
        return None
    dims = argument(node, 1)
    place = _place(graph, node, [dims] if isinstance(dims, int) else dims)
    return None if place is None else (kind, place, inner)


def of_rows(graph: Graph, root: str) -> tuple[str, Place, frozenset[str]] | None:
    """The reduction of a matrix's last dimension that ends in `root`: what it is called, where it
    lies and its operators; None where it is none."""
    found = _reduction(graph, root, _ROW_REDUCTIONS)
    if found is None:
        return None
    kind, place, inner = found
    if (place.rank, place.first, place.count) != (2, 1, 1):
        return None
    return kind, place, inner | {root}


def _core(  # noqa: PLR0917 (each is a part of the core)
    graph: Graph,
    root: str,
    family: str,
    place: Place,
    given: dict[str, str],
    inner: frozenset[str] = frozenset(),
    results: dict[str, int] | None = None,
) -> Core:
    """`results` says which of several tensors each value is; None where there is one."""
    x, first, end = place.x, place.first, place.first + place.count
    flat = f".flatten({first}, {end - 1})" if place.count > 1 else ""
    arguments = {"x": f"{{{x}}}{flat}", "dim": str(first), **given}
    floating = [each for each in results or [root] if "float" in graph.dtype(each)]
    if floating:
        arguments |= out_dtype(graph, floating[0], x)
    back = ""
    if place.keep:
        parts = [f"*{{{x}}}.shape[:{first}]"] * (first > 0) + ["1"] * place.count
        parts += [f"*{{{x}}}.shape[{end}:]"] * (end < place.rank)
        back = f".view({', '.join(parts)})"
    marks = {root: "{r}"}
    if results is not None:
        marks = {name: f"{{r{index}}}" for name, index in results.items()}
    return Core(
        family,
        inner | {root, *marks},
        arguments,
        {name: f"{mark}{back}" for name, mark in marks.items()},
        returns=1 if results is None else 2,
        main=x,
        lanes=place.rank - end if end < place.rank else place.count,
        out_lanes=max(1, len(graph.shape(root))),
    )


def _parts(graph: Graph, source: str) -> dict[str, int]:
    return {name: int(argument(graph[name], 1)) for name in graph.users[source]}


# With what is around them; then alone.
FUSED_REDUCTIONS: Final[tuple[Finder, ...]] = tuple(
    fusing(find) for find in (_variance, _reduce, _argmax, _reverse_scan, _scan)
)
REDUCTIONS: Final[tuple[Finder, ...]] = (
    _variance, _reduce, _argmax, _norm, _divergence, _reverse_scan, _scan,
)  # fmt: skip
