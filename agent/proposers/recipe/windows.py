"""Recognises operators that slide a window over images: pooling and convolutions."""

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from agent.proposers.recipe.core import Core
from agent.proposers.recipe.hooks import finishing
from judge.graph import Graph, reference

_POOLS: Final = {
    f"aten.{kind}_pool{rank}d.default": (f"{kind}-pool", rank)
    for kind in ("max", "avg")
    for rank in (1, 2, 3)
}
_WITH_INDICES: Final = {
    f"aten.max_pool{rank}d_with_indices.default": ("max-pool", rank) for rank in (2, 3)
}
_AFTER: Final[dict[str, tuple[tuple[str, Any], ...]]] = {
    # What follows x and the window, with the defaults of the schema.
    "max-pool": (("stride", []), ("padding", 0), ("dilation", 1), ("ceil_mode", False)),
    "avg-pool": (
        ("stride", []), ("padding", 0), ("ceil_mode", False), ("count_include_pad", True),
        ("divisor_override", None),
    ),
}  # fmt: skip
_CONVOLUTIONS: Final = {
    f"aten.conv{rank}d.{overload}": rank
    for rank in (1, 2, 3)
    for overload in ("default", "padding")
}
_TRANSPOSED: Final = {
    "aten.conv_transpose1d.default": 1,
    "aten.conv_transpose2d.input": 2,
    "aten.conv_transpose3d.input": 3,
}
_FLOATS: Final = frozenset({"float32", "float16", "bfloat16", "float64"})


def _pool(graph: Graph, root: str) -> Core | None:
    """Max and average pooling; with indices where only the values are needed."""
    node, nodes = graph[root], frozenset({root})
    if node.op == "getitem" and node.args[1] == 0:
        source = reference(node.args[0])
        if source is None or graph[source].op not in _WITH_INDICES:
            return None
        node, nodes = graph[source], frozenset({root, source})
        family, rank = _WITH_INDICES[node.op]
    elif node.op in _POOLS:
        family, rank = _POOLS[node.op]
    else:
        return None
    given = _given(node, (("x", None), ("kernel_size", None), *_AFTER[family]))
    x = reference(given.pop("x", None)) if given is not None else None
    if given is None or x is None or graph.dtype(x) not in _FLOATS:
        return None
    if given["stride"] == []:
        given["stride"] = given["kernel_size"]
    # A kernel need not know of what is not asked of it.
    for name, plain in (("divisor_override", None), ("count_include_pad", True)):
        if name in given and given[name] == plain:
            del given[name]
    return _windowed(graph, (root, nodes), (family, rank), {"x": x}, given)


def _convolution(graph: Graph, root: str) -> Core | None:
    """Convolutions, and those with a filter of its own for each channel."""
    node = graph[root]
    rank = _CONVOLUTIONS.get(node.op)
    names = (("x", None), ("weight", None), ("bias", None), ("stride", 1), ("padding", 0))
    given = _given(node, (*names, ("dilation", 1), ("groups", 1)))
    if given is None:
        return None
    if node.op == "aten.convolution.default":
        more = (("dilation", 1), ("transposed", False), ("output_padding", 0), ("groups", 1))
        given = _given(node, (*names, *more))
        if given is None or given.pop("transposed") is not False:
            return None
        del given["output_padding"]
        rank = len(given["stride"])
    tensors = _tensors(graph, given)
    if rank is None or tensors is None:
        return None
    window = graph.shape(tensors["weight"])[2:]
    if isinstance(given["padding"], str):
        padding = _named_padding(given["padding"], window, given["dilation"])
        if padding is None:
            return None
        given["padding"] = padding
    groups = given["groups"]
    alone = (root, frozenset({root}))
    if graph.shape(tensors["weight"])[1] == 1 and groups > 1 and rank < 3:
        del given["groups"]
        return _windowed(graph, alone, ("depthwise-conv", rank), tensors, given)
    if groups == 1:
        del given["groups"]
    core = _windowed(graph, alone, ("conv", rank), tensors, given)
    return _finishable(core, tensors, rank, transposed=False)


def _transposed(graph: Graph, root: str) -> Core | None:
    """Transposed convolutions, as such."""
    read = _read_transposed(graph, root)
    if read is None:
        return None
    tensors, given, rank = read
    if given["groups"] == 1:
        del given["groups"]
    alone = (root, frozenset({root}))
    core = _windowed(graph, alone, ("conv-transpose", rank), tensors, given)
    return _finishable(core, tensors, rank, transposed=True)


def _turned(graph: Graph, root: str) -> Core | None:
    """A transposed convolution of stride 1 as the convolution that it is: with the filters turned
    round, their input and output channels exchanged, and padding up to the window's reach."""
    read = _read_transposed(graph, root)
    if read is None:
        return None
    tensors, given, rank = read
    numbers = {name: _numbers(given[name], rank) for name in ("stride", "dilation", "padding")}
    if (
        given["groups"] != 1
        or any(each != 1 for each in numbers["stride"])
        or any(_numbers(given["output_padding"], rank))
    ):
        return None
    window = graph.shape(tensors["weight"])[2:]
    settings = zip(numbers["dilation"], window, numbers["padding"], strict=True)
    padding = [dilation * (taps - 1) - less for dilation, taps, less in settings]
    if min(padding) < 0:
        return None
    given = {"padding": padding, "dilation": numbers["dilation"]}
    core = _windowed(graph, (root, frozenset({root})), ("conv", rank), tensors, given)
    if core is None:
        return None
    axes = ", ".join(str(axis + 2) for axis in range(rank))
    weight = f"{core.arguments['weight']}.transpose(0, 1).flip({axes})"
    core = replace(core, arguments={**core.arguments, "weight": weight})
    return _finishable(core, tensors, rank, transposed=False)


def _numbers(value: Any, rank: int) -> list[int]:
    """One number a dimension, of one for all or one each."""
    given = list(value) if isinstance(value, list | tuple) else [value]
    return given * (rank // len(given))


def _read_transposed(graph: Graph, root: str) -> tuple[dict[str, str], dict[str, Any], int] | None:
    """Tensors, settings and rank of a transposed convolution."""
    node = graph[root]
    rank = _TRANSPOSED.get(node.op)
    names = (("x", None), ("weight", None), ("bias", None), ("stride", 1), ("padding", 0))
    more: tuple[tuple[str, Any], ...]
    more = (("output_padding", 0), ("groups", 1), ("dilation", 1))
    if node.op == "aten.convolution.default":
        more = (("dilation", 1), ("transposed", False), ("output_padding", 0), ("groups", 1))
    elif rank is None:
        return None
    given = _given(node, (*names, *more))
    if given is None:
        return None
    if rank is None:
        if given.pop("transposed") is not True:
            return None
        rank = len(given["stride"])
    tensors = _tensors(graph, given)
    return None if tensors is None else (tensors, given, rank)


def _finishable(
    core: Core | None, tensors: dict[str, str], rank: int, *, transposed: bool
) -> Core | None:
    """A core whose kernels may fuse what stands after: a lane runs along an image's positions."""
    if core is None or "[None]" in core.arguments["x"]:
        return core
    x, weight = tensors["x"], tensors["weight"]

    def setting(name: str, place: int) -> int:
        value = ast.literal_eval(core.arguments.get(name, "0"))
        return int(value[place] if isinstance(value, tuple) else value)

    sizes = []
    for place in range(rank):
        size, taps = f"{{{x}}}.shape[{place + 2}]", f"{{{weight}}}.shape[{place + 2}]"
        stride, twice = setting("stride", place), 2 * setting("padding", place)
        reach = f"{setting('dilation', place)} * ({taps} - 1)"
        if transposed:
            more = setting("output_padding", place) + 1 - twice
            sizes.append(f"(({size} - 1) * {stride} + {reach} + {more})")
        else:
            sizes.append(f"(({size} + {twice} - {reach} - 1) // {stride} + 1)")
    return replace(core, main=x, out_lanes=rank, lane_size=" * ".join(sizes))


def _given(node: Any, names: tuple[tuple[str, Any], ...]) -> dict[str, Any] | None:
    """An operator's arguments by name; None where it has others."""
    if len(node.args) > len(names):
        return None
    found = dict(names) | {name: value for (name, _), value in zip(names, node.args, strict=False)}
    known = {"input": "x"}
    for key, value in node.kwargs.items():
        name = known.get(key, key)
        if name not in found:
            return None
        found[name] = value
    return found


def _tensors(graph: Graph, given: dict[str, Any]) -> dict[str, str] | None:
    """Image, filters and bias, taken from the arguments; None unless they are of one dtype."""
    found = {}
    for name in ("x", "weight", "bias"):
        value = given.pop(name)
        tensor = reference(value)
        if tensor is not None:
            found[name] = tensor
        elif name != "bias" or value is not None:
            return None
    dtypes = {graph.dtype(name) for name in found.values()}
    return found if len(dtypes) == 1 and dtypes <= _FLOATS else None


def _named_padding(name: str, window: tuple[int, ...], dilation: Any) -> list[int] | None:
    """`valid` and `same` as numbers; None where both sides differ."""
    if name == "valid":
        return [0] * len(window)
    dilations = dilation if isinstance(dilation, list) else [dilation] * len(window)
    dilations = dilations * (len(window) // len(dilations))
    reach = [d * (k - 1) for d, k in zip(dilations, window, strict=True)]
    return None if any(each % 2 for each in reach) else [each // 2 for each in reach]


def _windowed(
    graph: Graph,
    results: tuple[str, frozenset[str]],
    kind: tuple[str, int],
    tensors: dict[str, str],
    settings: dict[str, Any],
) -> Core | None:
    """A core of a family and rank with one result; an image without a batch gets one of size 1."""
    (root, nodes), (family, rank) = results, kind
    if any(each is None or reference(each) is not None for each in settings.values()):
        return None
    arguments = {name: f"{{{value}}}" for name, value in tensors.items()}
    result = "{r}"
    if len(graph.shape(tensors["x"])) == rank + 1:
        arguments["x"], result = arguments["x"] + "[None]", "{r}[0]"
    elif len(graph.shape(tensors["x"])) != rank + 2:
        return None
    arguments |= {
        name: repr(tuple(value)) if isinstance(value, list) else repr(value)
        for name, value in settings.items()
    }
    return Core(family, nodes, arguments, {root: result}, reads=frozenset(tensors.values()))


WINDOWS: Final[tuple[Callable[[Graph, str], Core | None], ...]] = (
    _pool, finishing(_convolution), finishing(_turned), finishing(_transposed),
    _convolution, _turned, _transposed,
)  # fmt: skip
