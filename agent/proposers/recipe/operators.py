"""Recognises operator families of the knowledge base in a problem's graph.

A *core* is a part of the graph that one kernel can take over: which values it uses up, what the
kernel's arguments are, and what its results become, both as Python expressions over the graph's
values. Everything else is what stands before and after.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agent.proposers.recipe.attention import ATTENTION
from agent.proposers.recipe.core import Core, Finder, as_root, single, values
from agent.proposers.recipe.halves import match_halves
from agent.proposers.recipe.losses import LOSSES
from agent.proposers.recipe.norms import NORMS, add_rmsnorm
from agent.proposers.recipe.operands import argument, operand
from agent.proposers.recipe.patterns import Const, Var, attempt, match, op, require, uncast, unwrap
from agent.proposers.recipe.products import PRODUCTS
from agent.proposers.recipe.quantization import nvfp4, with_nvfp4
from agent.proposers.recipe.recurrent import RECURRENT
from agent.proposers.recipe.reductions import FUSED_REDUCTIONS, REDUCTIONS
from agent.proposers.recipe.rotary import rope
from agent.proposers.recipe.softmax import SOFTMAX
from agent.proposers.recipe.spellings import SILU, X
from agent.proposers.recipe.windows import WINDOWS
from judge.graph import Graph


@dataclass(frozen=True)
class Recognition:
    """The cores of a graph, in the order of execution."""

    cores: tuple[Core, ...]
    reason: str = ""
    """Why there are none."""


_LAYOUT: Final = (
    "aten.t.", "aten.view.", "aten.reshape.", "aten.clone.", "aten.permute.", "aten.transpose.",
    "aten.unsqueeze.", "aten.squeeze.", "aten.expand.", "aten.slice.", "aten.split.", "getitem",
    "aten._to_copy.", "aten.alias.", "aten.flatten.", "aten.contiguous.", "aten.chunk.",
)  # fmt: skip


def recognise(graph: Graph, usable: Callable[[Core], bool] | None = None) -> Recognition:
    """The parts of a graph for which the knowledge base may have kernels.

    `usable` says whether there is a kernel for a core: a product without one for its activation
    is still a product.

    Larger patterns go first, and a value belongs to one core. A pattern is passed over where
    something else uses its inner values.
    """
    cores: list[Core] = []
    used: set[str] = set()
    for find in _FAMILIES:
        for root in reversed(graph.computed):
            if root in used:
                continue
            core = attempt(find, graph, root)
            if core is None or core.nodes & used or not _is_closed(graph, core):
                continue
            if (core.op in _LIGHT and not _is_all(graph, core)) or not (
                usable is None or usable(core)
            ):
                continue
            cores.append(core)
            used |= core.nodes
    if cores:
        order = {name: place for place, name in enumerate(graph.nodes)}
        cores.sort(key=lambda core: max(order[name] for name in core.nodes))
        return Recognition(tuple(cores))
    work = [graph[name].op for name in graph.computed if not graph[name].op.startswith(_LAYOUT)]
    operators = ", ".join(dict.fromkeys(operator.removeprefix("aten.") for operator in work[:8]))
    whole = operators or "a graph without work"
    return Recognition((), f"no kernel of the knowledge base computes a part of: {whole}")


def _is_closed(graph: Graph, core: Core) -> bool:
    """Whether nothing outside needs a value that the kernel does not return."""
    inner = core.nodes - set(core.results)
    return not any(
        name in graph.outputs or not set(graph.users[name]) <= core.nodes for name in inner
    )


def _is_all(graph: Graph, core: Core) -> bool:
    """Whether there is no arithmetic but the core's."""
    rest = [name for name in graph.computed if name not in core.nodes]
    return all(graph[name].op.startswith(_LAYOUT) for name in rest)


def _column_sum(graph: Graph, root: str) -> Core:
    hit = match(graph, op("sum.dim_IntList", X, Const("dims")), root)
    require(not graph[root].kwargs)
    x = hit.tensors["x"]
    rank = len(graph.shape(x))
    dims = sorted(int(dim) % rank for dim in hit.constants["dims"] or [])
    count = len(dims)
    require(dims == list(range(count)) and 0 < count < rank and "float" in graph.dtype(x))
    lead = "1, " * count if argument(graph[root], 2) is True else ""
    matrix = as_root(graph, root, x)
    if rank != 2:
        matrix = f"{matrix}.flatten(0, {count - 1}).flatten(1)"
    result = "{r}" if rank == 2 and not lead else f"{{r}}.view({lead}*{{{x}}}.shape[{count}:])"
    return single("column-sum", root, {"x": matrix}, result, nodes=hit.nodes)


def _silu_mul(graph: Graph, root: str) -> Core:
    hit = match(graph, op("mul.Tensor", SILU, Var("up")), root)
    halves = match_halves(graph, hit.tensors["gate"], hit.tensors["up"])
    source, casts = uncast(graph, halves[0])
    used = hit.nodes | halves[1] | casts
    # A conversion that others need as well stays outside.
    used -= {cast for cast in casts if not set(graph.users[cast]) <= used}
    return single("silu-mul", root, {"x": as_root(graph, root, source)}, nodes=used)


def _transpose(graph: Graph, root: str) -> Core:
    hit = match(graph, op("clone.default", Var("view")), root)
    view = graph[hit.tensors["view"]]
    source = unwrap(operand(view))
    require(len(graph.shape(source)) == 2)
    swaps = view.op == "aten.t.default" or (
        view.op in ("aten.transpose.int", "aten.permute.default")
        and graph.shape(view.name) == graph.shape(source)[::-1]
        and view.args[1:] not in ([[0, 1]], [0, 0], [1, 1])
    )
    require(swaps and graph[root].kwargs.get("memory_format") == {"torch": "contiguous_format"})
    return single("transpose", root, values(x=source), nodes=hit.nodes | {view.name})


def _add(graph: Graph, root: str) -> Core:
    hit = match(graph, op("add.Tensor", Var("a"), Var("b")), root)
    shape, dtype = graph.shape(root), graph.dtype(root)
    one, other = sides = [hit.tensors["a"], hit.tensors["b"]]
    require(bool(shape) and "float" in dtype)
    require(all(graph.shape(side) == shape and graph.dtype(side) == dtype for side in sides))
    flat = len(shape) != 2
    rows = f".reshape(-1, {{{one}}}.shape[-1])" if flat else ""
    arguments = {"a": f"{{{one}}}{rows}", "b": f"{{{other}}}{rows}"}
    result = f"{{r}}.view({{{one}}}.shape)" if flat else "{r}"
    return single("elementwise-add", root, arguments, result, nodes=hit.nodes)


def _scale(graph: Graph, root: str) -> Core:
    products = tuple(op(name, X, Const("factor")) for name in ("mul.Tensor", "mul.Scalar"))
    hit = match(graph, products, root)
    require(isinstance(hit.constants["factor"], int | float) and "float" in graph.dtype(root))
    factor = repr(float(hit.constants["factor"]))
    arguments = {"x": as_root(graph, root, hit.tensors["x"]), "factor": factor}
    return single("scale", root, arguments, nodes=hit.nodes)


# Larger patterns first.
_FAMILIES: Final[tuple[Finder, ...]] = (
    with_nvfp4(_silu_mul, "silu-mul-quantize"), with_nvfp4(add_rmsnorm, "add-rmsnorm-quantize"),
    nvfp4, *RECURRENT, *ATTENTION, *PRODUCTS, *NORMS, *LOSSES, *SOFTMAX, rope, _silu_mul,
    *FUSED_REDUCTIONS, _column_sum, *REDUCTIONS, _transpose, _add, _scale, *WINDOWS,
)  # fmt: skip
# One pass over the data: a kernel of its own pays only where there is no other arithmetic.
_LIGHT: Final = frozenset({"elementwise-add", "scale", "transpose"})
