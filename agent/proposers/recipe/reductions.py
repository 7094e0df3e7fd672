"""Recognises reductions and running sums in a graph: over one dimension, neighbouring ones, all."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from agent.proposers.recipe.core import Core, Finder, hookable, out_dtype, values
from agent.proposers.recipe.hooks import with_fusion
from agent.proposers.recipe.operands import argument, operand, result_of
from agent.proposers.recipe.patterns import attempt, require, unwrap
from judge.graph import Graph
from judge.worker import messages as m

_LOGSUMEXP: Final = "aten.logsumexp.default"
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
    _LOGSUMEXP: "logsumexp",
}
# Operator → whether the largest is sought.
_PAIRS: Final = {"aten.max.dim": True, "aten.min.dim": False}
_PLACES: Final = {"aten.argmax.default": True, "aten.argmin.default": False}
_VARIANCES: Final = ("aten.var.dim", "aten.var.correction", "aten.std.dim", "aten.std.correction")
_PAIRED_VARIANCES: Final = ("aten.var_mean.dim", "aten.var_mean.correction")


def _reduce(graph: Graph, root: str) -> Core:
    """Sum, mean, product, maximum or minimum."""
    kind, span, inner = _reduction(graph, root, _REDUCTIONS)
    return _core(graph, root, "reduce", span, {"kind": repr(kind)}, inner)


def _logsumexp(graph: Graph, root: str) -> Core:
    """The logarithm of a sum of exponentials."""
    node = graph[root]
    require(node.op == _LOGSUMEXP and not set(node.kwargs) - {"keepdim"})
    return _core(graph, root, "logsumexp", _span(graph, node, argument(node, 1)), {})


def _argmax(graph: Graph, root: str) -> Core:
    """Indices of extremes, with or without the values."""
    node = graph[root]
    if node.op in _PLACES:
        largest, inner, results = _PLACES[node.op], frozenset[str](), {root: 1}
    else:
        source = unwrap(result_of(graph, root, _PAIRS))
        node = graph[source]
        largest, inner, results = _PAIRS[node.op], frozenset({source}), _parts(graph, source)
    dim = argument(node, 1)
    span = _span(graph, node, None if dim is None else [dim])
    return _core(graph, root, "argmax", span, {"largest": repr(largest)}, inner, results)


def _variance(graph: Graph, root: str) -> Core:
    """Variance or standard deviation, with the mean where it is asked for."""
    node = graph[root]
    if node.op in _VARIANCES:
        source, results = root, {root: 0}
    else:
        source = unwrap(result_of(graph, root, _PAIRED_VARIANCES))
        node, results = graph[source], _parts(graph, source)
    span = _span(graph, node, argument(node, 1), keep_at=3)
    correction: Any = node.kwargs.get("correction", 1)
    if node.op.endswith(".dim") and len(node.args) > 2:
        correction = 1 if node.args[2] else 0
    settings = {"correction": repr(float(1 if correction is None else correction))}
    inner = frozenset({source} - {root})
    core = _core(graph, root, "variance", span, settings, inner, results)
    if "aten.std" in node.op:
        return replace(core, results={root: core.results[root] + ".sqrt()"})
    mean = _same_mean(graph, source, span)
    if mean is None or source != root:
        return core
    more = _core(graph, mean, "variance", span, settings, results={mean: 1})
    return replace(core, nodes=core.nodes | {mean}, results=core.results | more.results)


def _same_mean(graph: Graph, variance: str, span: "Span") -> str | None:
    """The mean along the same dimensions, which the kernel gives with the variance."""
    for name in graph.users[span.x]:
        node = graph[name]
        if node.op == "aten.mean.dim" and name != variance and not node.kwargs:
            other = attempt(_span, graph, node, node.args[1])
            if other is not None and (other.first, other.count) == (span.first, span.count):
                return name
    return None


def _norm(graph: Graph, root: str) -> Core:
    """Euclidean norm, or sum of magnitudes."""
    node = graph[root]
    require(node.op == "aten.linalg_vector_norm.default" and not node.kwargs)
    order = argument(node, 1, 2)
    require(order in (1, 2))
    span = _span(graph, node, argument(node, 2), keep_at=3)
    core = _core(graph, root, "reduce", span, {"kind": "'sum'"})
    before, after = f"_power_{root}", f"_root_{root}"
    power, back = ("x * x", "tl.sqrt(x)") if order == 2 else ("tl.abs(x)", "x")
    texts = tuple(
        f"@triton.jit\ndef {name}(x, lead, lane, mask, operands):\n    return {text}"
        for name, text in ((before, power), (after, back))
    )
    arguments = core.arguments | {"before": before, "after": after}
    # What stands around it has no place beside these functions.
    return replace(core, arguments=arguments, functions=texts, main="")


def _divergence(graph: Graph, root: str) -> Core:
    """The sum or mean of a Kullback-Leibler divergence, of logarithms that are taken here as well
    where they have no other use."""
    node = graph[root]
    require(node.op == "aten.kl_div.default" and node.kwargs.get("log_target", False) is False)
    kind = unwrap({1: "mean", 2: "sum"}.get(argument(node, 2, 1)))
    x, target = unwrap(operand(node)), unwrap(operand(node, 1))
    require(graph.shape(x) == graph.shape(target))
    inner, mine = frozenset[str](), "x"
    if graph[x].op == "aten.log.default" and set(graph.users[x]) == {root}:
        inner, mine = frozenset({x}), "tl.log(x)"
        x = unwrap(operand(graph[x]))
    span = _span(graph, node, None)
    require(graph.dtype(x) == graph.dtype(root))
    core = _core(graph, root, "reduce", replace(span, x=x), {"kind": repr(kind)}, inner)
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


def _scan(graph: Graph, root: str) -> Core:
    """Running sums or products."""
    node = graph[root]
    kinds = {"aten.cumsum.default": "sum", "aten.cumprod.default": "prod"}
    kind, x = unwrap(kinds.get(node.op)), unwrap(operand(node))
    rank = len(graph.shape(x))
    require(rank > 0 and not set(node.kwargs) - {"dtype"})
    require("float" in graph.dtype(x) and "float" in graph.dtype(root))
    axis = int(argument(node, 1)) % rank
    arguments = values(x=x) | {"dim": str(axis), "kind": repr(kind)}
    return hookable(graph, root, "cumsum", x, arguments, max(1, rank - axis - 1))


def _reverse_scan(graph: Graph, root: str) -> Core:
    """Running sums or products from the end: turned around, scanned, turned back."""
    node = graph[root]
    require(node.op == "aten.flip.default")
    core = _scan(graph, unwrap(operand(node)))
    first = graph[core.main]
    require(first.op == "aten.flip.default")
    x = unwrap(operand(first))
    rank = len(graph.shape(root))
    axes = [[int(axis) % rank for axis in argument(flip, 1)] for flip in (node, first)]
    require(axes == [[int(core.arguments["dim"])]] * 2)
    arguments = core.arguments | values(x=x) | {"reverse": "True"}
    nodes = core.nodes | {root, first.name}
    return replace(core, nodes=nodes, arguments=arguments, results={root: "{r}"}, main=x)


@dataclass(frozen=True)
class Span:
    """Neighbouring dimensions that are reduced."""

    x: str
    first: int
    count: int
    rank: int
    keep: bool


def _span(graph: Graph, node: m.GraphNode, dims: Any, keep_at: int = 2) -> Span:
    """Dimensions that are neighbours, of floating-point numbers. `keep_at` is where the operator
    has `keepdim`."""
    x = unwrap(operand(node))
    require(graph.is_tensor(x) and "float" in graph.dtype(x))
    rank = len(graph.shape(x))
    require(dims is None or isinstance(dims, list))
    axes = sorted({int(dim) % rank for dim in dims}) if dims and rank else [*range(rank)]
    require(bool(axes) and axes == [*range(axes[0], axes[0] + len(axes))])
    keep = argument(node, keep_at, node.kwargs.get("keepdim"))
    return Span(x, axes[0], len(axes), rank, keep=keep is True)


def _reduction(
    graph: Graph, root: str, kinds: Mapping[str, str]
) -> tuple[str, Span, frozenset[str]]:
    """What a reduction is called, where it lies, and the operator inside of it, if there is one:
    values of `max` along a dimension are a reduction where nobody reads the indices."""
    node, inner = graph[root], frozenset[str]()
    kind = kinds.get(node.op)
    pair = result_of(graph, root, _PAIRS, 0)
    if pair is not None and len(graph.users[pair]) == 1:
        node, inner = graph[pair], frozenset({pair})
        kind = "max" if _PAIRS[node.op] else "min"
    require(not set(node.kwargs) - {"dtype", "keepdim"})
    dims = argument(node, 1)
    return unwrap(kind), _span(graph, node, [dims] if isinstance(dims, int) else dims), inner


def row_reduction(graph: Graph, root: str) -> tuple[str, Span, frozenset[str]]:
    """The reduction of a matrix's last dimension that ends in `root`: what it is called, where it
    lies and its operators."""
    kind, span, inner = _reduction(graph, root, _ROW_REDUCTIONS)
    require((span.rank, span.first, span.count) == (2, 1, 1))
    return kind, span, inner | {root}


def _core(  # noqa: PLR0917 (each is a part of the core)
    graph: Graph,
    root: str,
    family: str,
    span: Span,
    settings: dict[str, str],
    inner: frozenset[str] = frozenset(),
    results: dict[str, int] | None = None,
) -> Core:
    """`results` says which of several tensors each value is; None where there is one."""
    x, first, end = span.x, span.first, span.first + span.count
    flat = f".flatten({first}, {end - 1})" if span.count > 1 else ""
    arguments = {"x": f"{{{x}}}{flat}", "dim": str(first), **settings}
    floating = [result for result in results or [root] if "float" in graph.dtype(result)]
    if floating:
        arguments |= out_dtype(graph, floating[0], x)
    back = ""
    if span.keep:
        parts = [f"*{{{x}}}.shape[:{first}]"] * (first > 0) + ["1"] * span.count
        parts += [f"*{{{x}}}.shape[{end}:]"] * (end < span.rank)
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
        lanes=span.rank - end if end < span.rank else span.count,
        out_lanes=max(1, len(graph.shape(root))),
    )


def _parts(graph: Graph, source: str) -> dict[str, int]:
    return {name: int(argument(graph[name], 1)) for name in graph.users[source]}


# With what is around them; then alone.
FUSED_REDUCTIONS: Final[tuple[Finder, ...]] = tuple(
    with_fusion(find) for find in (_variance, _reduce, _logsumexp, _argmax, _reverse_scan, _scan)
)
REDUCTIONS: Final[tuple[Finder, ...]] = (
    _variance, _reduce, _logsumexp, _argmax, _norm, _divergence, _reverse_scan, _scan,
)  # fmt: skip
