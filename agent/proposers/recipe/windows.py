"""Recognises operators that slide a window over images: pooling and convolutions."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from agent.proposers.recipe.core import FLOATS, Core, Finder, single, values
from agent.proposers.recipe.hooks import finishing
from agent.proposers.recipe.operands import named, result_of
from agent.proposers.recipe.patterns import needed, require
from judge.graph import Graph, reference
from judge.worker import messages as m

POOLS: Final = {
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
CONVOLUTIONS: Final = {
    f"aten.conv{rank}d.{overload}": rank
    for rank in (1, 2, 3)
    for overload in ("default", "padding")
}
TRANSPOSED: Final = {
    "aten.conv_transpose1d.default": 1,
    "aten.conv_transpose2d.input": 2,
    "aten.conv_transpose3d.input": 3,
}
# Arguments of a convolution, with the defaults of the schema.
_FILTERED: Final = (
    ("x", None), ("weight", None), ("bias", None), ("stride", 1), ("padding", 0),
)  # fmt: skip
_ARGUMENTS: Final = (*_FILTERED, ("dilation", 1), ("groups", 1))
_TRANSPOSED_ARGUMENTS: Final = (*_FILTERED, ("output_padding", 0), ("groups", 1), ("dilation", 1))
_GENERAL: Final = (
    *_FILTERED, ("dilation", 1), ("transposed", False), ("output_padding", 0), ("groups", 1),
)  # fmt: skip


def _pool(graph: Graph, root: str) -> Core:
    """Max and average pooling; with indices where only the values are needed."""
    source = result_of(graph, root, _WITH_INDICES, 0)
    node = graph[source or root]
    kind = needed(POOLS.get(node.op) if source is None else _WITH_INDICES[node.op])
    x, given = read_pooling(node, kind[0])
    require(graph.dtype(x) in FLOATS)
    # A kernel need not know of what is not asked of it.
    for name, plain in (("divisor_override", None), ("count_include_pad", True)):
        if name in given and given[name] == plain:
            del given[name]
    return _windowed(graph, root, kind, {"x": x}, given, [node.name])


def read_pooling(node: m.GraphNode, family: str) -> tuple[str, dict[str, Any]]:
    """What a pooling reads, and its settings; its stride is the window's where none is given."""
    given = needed(named(node, (("x", None), ("kernel_size", None), *_AFTER[family])))
    if given["stride"] == []:
        given["stride"] = given["kernel_size"]
    return needed(reference(given.pop("x"))), given


def _convolution(graph: Graph, root: str) -> Core:
    """Convolutions, and those with a filter of its own for each channel."""
    tensors, given, rank = read_convolution(graph, root, transposed=False)
    window = graph.shape(tensors["weight"])[2:]
    if isinstance(given["padding"], str):
        given["padding"] = _named_padding(given["padding"], window, given["dilation"])
    groups = given["groups"]
    if graph.shape(tensors["weight"])[1] == 1 and groups > 1 and rank < 3:
        del given["groups"]
        return _windowed(graph, root, ("depthwise-conv", rank), tensors, given)
    if groups == 1:
        del given["groups"]
    core = _windowed(graph, root, ("conv", rank), tensors, given)
    return _finishable(core, tensors, given, rank, transposed=False)


def _transposed(graph: Graph, root: str) -> Core:
    """Transposed convolutions, as such."""
    tensors, given, rank = read_convolution(graph, root, transposed=True)
    if given["groups"] == 1:
        del given["groups"]
    core = _windowed(graph, root, ("conv-transpose", rank), tensors, given)
    return _finishable(core, tensors, given, rank, transposed=True)


def _turned(graph: Graph, root: str) -> Core:
    """A transposed convolution of stride 1 as the convolution that it is: with the filters turned
    round, their input and output channels exchanged, and padding up to the window's reach."""
    tensors, given, rank = read_convolution(graph, root, transposed=True)
    told = {name: numbers(given[name], rank) for name in ("stride", "dilation", "padding")}
    require(given["groups"] == 1 and all(each == 1 for each in told["stride"]))
    require(not any(numbers(given["output_padding"], rank)))
    window = graph.shape(tensors["weight"])[2:]
    settings = zip(told["dilation"], window, told["padding"], strict=True)
    padding = [dilation * (taps - 1) - less for dilation, taps, less in settings]
    require(min(padding) >= 0)
    given = {"padding": padding, "dilation": told["dilation"]}
    core = _windowed(graph, root, ("conv", rank), tensors, given)
    axes = ", ".join(str(axis + 2) for axis in range(rank))
    weight = f"{core.arguments['weight']}.transpose(0, 1).flip({axes})"
    core = replace(core, arguments={**core.arguments, "weight": weight})
    return _finishable(core, tensors, given, rank, transposed=False)


def numbers(value: Any, rank: int) -> list[int]:
    """One number a dimension, of one for all or one each."""
    given = list(value) if isinstance(value, list | tuple) else [value]
    return given * (rank // len(given))


def read_convolution(
    graph: Graph, root: str, *, transposed: bool
) -> tuple[dict[str, str], dict[str, Any], int]:
    """Tensors, settings and rank of a convolution, transposed or not."""
    node = graph[root]
    general = transposed and node.op == "aten.convolution.default"
    rank = (TRANSPOSED if transposed else CONVOLUTIONS).get(node.op)
    require(rank is not None or general)
    arguments = _TRANSPOSED_ARGUMENTS if transposed else _ARGUMENTS
    given = needed(named(node, _GENERAL if general else arguments))
    require(given.pop("transposed", transposed) is transposed)
    return _tensors(graph, given), given, rank or len(given["stride"])


def _finishable(
    core: Core, tensors: dict[str, str], given: dict[str, Any], rank: int, *, transposed: bool
) -> Core:
    """A core whose kernels may fuse what stands after: a lane runs along an image's positions."""
    if "[None]" in core.arguments["x"]:
        return core
    x, weight = tensors["x"], tensors["weight"]
    defaults = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}
    settings = (numbers(given.get(name, plain), rank) for name, plain in defaults.items())
    sizes = []
    for place, (stride, padding, dilation, further) in enumerate(zip(*settings, strict=True), 2):
        size = f"{{{x}}}.shape[{place}]"
        reach = f"{dilation} * ({{{weight}}}.shape[{place}] - 1)"
        if transposed:
            more = further + 1 - 2 * padding
            sizes.append(f"(({size} - 1) * {stride} + {reach} + {more})")
        else:
            sizes.append(f"(({size} + {2 * padding} - {reach} - 1) // {stride} + 1)")
    return replace(core, main=x, out_lanes=rank, lane_size=" * ".join(sizes))


def _tensors(graph: Graph, given: dict[str, Any]) -> dict[str, str]:
    """Image, filters and bias, taken from the arguments, all of one dtype."""
    found = {}
    for name in ("x", "weight", "bias"):
        value = given.pop(name)
        if name != "bias" or value is not None:
            found[name] = needed(reference(value))
    dtypes = {graph.dtype(name) for name in found.values()}
    require(len(dtypes) == 1 and dtypes <= FLOATS)
    return found


def _named_padding(name: str, window: tuple[int, ...], dilation: Any) -> list[int]:
    """`valid` and `same` as numbers, where both sides are equal."""
    if name == "valid":
        return [0] * len(window)
    dilations = numbers(dilation, len(window))
    reach = [d * (k - 1) for d, k in zip(dilations, window, strict=True)]
    require(not any(each % 2 for each in reach))
    return [each // 2 for each in reach]


def _windowed(  # noqa: PLR0917 (the parts of a core)
    graph: Graph,
    root: str,
    kind: tuple[str, int],
    tensors: dict[str, str],
    settings: dict[str, Any],
    nodes: Iterable[str] = (),
) -> Core:
    """A core of a family and rank with one result; an image without a batch gets one of size 1."""
    family, rank = kind
    require(
        all(setting is not None and reference(setting) is None for setting in settings.values())
    )
    batched = len(graph.shape(tensors["x"])) - rank - 1
    require(batched in (0, 1))
    arguments, result = values(**tensors), "{r}"
    if not batched:
        arguments["x"], result = arguments["x"] + "[None]", "{r}[0]"
    arguments |= {
        name: repr(tuple(value)) if isinstance(value, list) else repr(value)
        for name, value in settings.items()
    }
    return single(family, root, arguments, result, nodes=nodes)


WINDOWS: Final[tuple[Finder, ...]] = (
    _pool, finishing(_convolution), finishing(_turned), finishing(_transposed),
    _convolution, _turned, _transposed,
)  # fmt: skip
