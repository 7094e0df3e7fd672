"""Recognises quantization to block formats in a graph."""

from dataclasses import replace
from typing import Final

from agent.proposers.recipe.core import Core, Finder
from agent.proposers.recipe.operands import argument, operand
from agent.proposers.recipe.patterns import NoMatchError, require, uncast
from judge.graph import Graph, operands, reference

# E2M1's rounding: half-way points between its magnitudes, ties to the even code.
_TIES_DOWN: Final = (0.25, 1.25, 2.5, 5.0)
_TIES_UP: Final = (0.75, 1.75, 3.5)


def nvfp4(graph: Graph, root: str) -> Core:
    """Codes and scales of NVFP4, told by the format's constants: thresholds of the codes, the
    largest scale, blocks of 16 whose largest magnitude is divided by 6."""
    require(graph.dtype(root) == "uint8" and "__or__" in graph[root].op)
    cone = _ancestors(graph, root)
    constants = {
        (graph[name].op, float(arg))
        for name in cone
        for arg in graph[name].args
        if isinstance(arg, int | float)
    }
    down = {("aten.gt.Scalar", threshold) for threshold in _TIES_DOWN}
    up = {("aten.ge.Scalar", threshold) for threshold in _TIES_UP}
    require(down | up <= constants)
    scales = [
        name
        for name in cone
        if graph[name].op == "aten._to_copy.default" and graph.dtype(name) == "float8_e4m3fn"
    ]
    blocks = [
        name
        for name in cone
        if graph[name].op in ("aten.view.default", "aten.unflatten.int")
        and graph.shape(name)[-1:] == (16,)
        and operand(graph[name]) is not None
        and "float" in graph.dtype(name)
    ]
    require(len(scales) == 1 and len(blocks) == 1)
    values = str(operand(graph[blocks[0]]))
    inside = {name for name in cone if blocks[0] in _ancestors(graph, name) or name == blocks[0]}
    # Constants that are filled in, and what is only made of them.
    fills = {n for n in cone if n not in inside and not _depends_on_inputs(graph, n)}
    x, casts = uncast(graph, values)
    factor = _global_scale(graph, inside)
    inside |= {root} | fills
    inside |= {cast for cast in casts if set(graph.users[cast]) <= inside}
    wide = "" if graph.dtype(x) == graph.dtype(values) else ".float()"
    scale = "None" if factor == 1.0 else f"{{{x}}}.new_full((1,), {factor!r}, dtype=torch.float32)"
    return Core(
        "quantize",
        frozenset(inside),
        {"x": f"{{{x}}}{wide}", "global_scale": scale},
        {root: "{r0}", scales[0]: "{r1}"},
        returns=2,
    )


def with_nvfp4(find: Finder, family: str) -> Finder:
    """A finder of what `find` finds where nothing but NVFP4 quantization takes its result: the
    kernels of `family` do both in one pass, in float32 from operands of any dtype."""

    def finder(graph: Graph, root: str) -> Core:
        codes = nvfp4(graph, root)
        (values,) = codes.reads
        inner = find(graph, values)
        require(values in inner.results and not codes.nodes & inner.nodes)
        # The kernel rounds nothing on the way, so its operands need no conversion.
        arguments = {
            name: text.removesuffix(f".to(torch.{graph.dtype(values)})")
            for name, text in inner.arguments.items()
        }
        scale = codes.arguments["global_scale"].replace(f"{{{values}}}", arguments["x"])
        return replace(
            codes,
            op=family,
            nodes=codes.nodes | inner.nodes,
            arguments=arguments | {"global_scale": scale},
        )

    return finder


def _global_scale(graph: Graph, inside: set[str]) -> float:
    """What the largest magnitudes are multiplied with before they are divided by 6."""
    largest = [name for name in inside if graph[name].op == "aten.amax.default"]
    require(len(largest) == 1)
    for user in graph.users[largest[0]]:
        if graph[user].op == "aten.div.Tensor":
            return 1.0
        if graph[user].op == "aten.mul.Tensor":
            for arg in graph[user].args:
                name = reference(arg)
                if isinstance(arg, int | float):
                    return float(arg)
                if name is not None and graph[name].op == "aten.full.default":
                    filled = argument(graph[name], 1)
                    require(isinstance(filled, int | float))
                    return float(filled)
    raise NoMatchError


def _ancestors(graph: Graph, name: str) -> set[str]:
    ancestors: set[str] = set()
    stack = [name]
    while stack:
        for source in operands(graph[stack.pop()]):
            if source not in ancestors:
                ancestors.add(source)
                stack.append(source)
    return ancestors


def _depends_on_inputs(graph: Graph, name: str) -> bool:
    return any(
        graph[ancestor].op in ("input", "tensor") for ancestor in {name} | _ancestors(graph, name)
    )
