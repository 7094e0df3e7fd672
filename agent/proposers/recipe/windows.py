"""Recognises operators that slide a window over images: pooling and convolutions."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from agent.proposers.recipe.core import FLOATS, Core, Finder, single, values
from agent.proposers.recipe.hooks import with_epilogue
from agent.proposers.recipe.operands import bind_arguments, result_of
from agent.proposers.recipe.patterns import require, unwrap
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
_POOL: Final[dict[str, tuple[tuple[str, Any], ...]]] = {
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
_COMMON: Final = (
    ("x", None), ("weight", None), ("bias", None), ("stride", 1), ("padding", 0),
)  # fmt: skip
_ARGUMENTS: Final = (*_COMMON, ("dilation", 1), ("groups", 1))
_TRANSPOSED_ARGUMENTS: Final = (*_COMMON, ("output_padding", 0), ("groups", 1), ("dilation", 1))
_GENERAL_ARGUMENTS: Final = (
    *_COMMON, ("dilation", 1), ("transposed", False), ("output_padding", 0), ("groups", 1),
)  # fmt: skip


def _pool(graph: Graph, root: str) -> Core:
    """Max and average pooling; with indices where only the values are needed."""
    source = result_of(graph, root, _WITH_INDICES, 0)
    node = graph[source or root]
    kind = unwrap(POOLS.get(node.op) if source is None else _WITH_INDICES[node.op])
    x, settings = read_pooling(node, kind[0])
    require(graph.dtype(x) in FLOATS)
    # A kernel need not know of what is not asked of it.
    for name, plain in (("divisor_override", None), ("count_include_pad", True)):
        if name in settings and settings[name] == plain:
            del settings[name]
    return _window_core(graph, root, kind, {"x": x}, settings, [node.name])


def read_pooling(node: m.GraphNode, family: str) -> tuple[str, dict[str, Any]]:
    """What a pooling reads, and its settings; its stride is the window's where none is given."""
    settings = unwrap(bind_arguments(node, (("x", None), ("kernel_size", None), *_POOL[family])))
    if settings["stride"] == []:
        settings["stride"] = settings["kernel_size"]
    return unwrap(reference(settings.pop("x"))), settings


def _convolution(graph: Graph, root: str) -> Core:
    """Convolutions, and those with a filter of its own for each channel."""
    tensors, settings, rank = read_convolution(graph, root, transposed=False)
    window = graph.shape(tensors["weight"])[2:]
    if isinstance(settings["padding"], str):
        settings["padding"] = _named_padding(settings["padding"], window, settings["dilation"])
    groups = settings["groups"]
    if graph.shape(tensors["weight"])[1] == 1 and groups > 1 and rank < 3:
        del settings["groups"]
        return _window_core(graph, root, ("depthwise-conv", rank), tensors, settings)
    if groups == 1:
        del settings["groups"]
    core = _window_core(graph, root, ("conv", rank), tensors, settings)
    return _finishable(core, tensors, settings, rank, transposed=False)


def _transposed(graph: Graph, root: str) -> Core:
    """Transposed convolutions, as such."""
    tensors, settings, rank = read_convolution(graph, root, transposed=True)
    if settings["groups"] == 1:
        del settings["groups"]
    core = _window_core(graph, root, ("conv-transpose", rank), tensors, settings)
    return _finishable(core, tensors, settings, rank, transposed=True)


def _flipped(graph: Graph, root: str) -> Core:
    """A transposed convolution of stride 1 as the convolution that it is: with the filters turned
    round, their input and output channels exchanged, and padding up to the window's reach."""
    tensors, settings, rank = read_convolution(graph, root, transposed=True)
    by_axis = {name: numbers(settings[name], rank) for name in ("stride", "dilation", "padding")}
    require(settings["groups"] == 1 and all(stride == 1 for stride in by_axis["stride"]))
    require(not any(numbers(settings["output_padding"], rank)))
    window = graph.shape(tensors["weight"])[2:]
    triples = zip(by_axis["dilation"], window, by_axis["padding"], strict=True)
    padding = [dilation * (taps - 1) - less for dilation, taps, less in triples]
    require(min(padding) >= 0)
    settings = {"padding": padding, "dilation": by_axis["dilation"]}
    core = _window_core(graph, root, ("conv", rank), tensors, settings)
    axes = ", ".join(str(axis + 2) for axis in range(rank))
    weight = f"{core.arguments['weight']}.transpose(0, 1).flip({axes})"
    core = replace(core, arguments={**core.arguments, "weight": weight})
    return _finishable(core, tensors, settings, rank, transposed=False)


def numbers(value: Any, rank: int) -> list[int]:
    """One number a dimension, of one for all or one each."""
    sizes = list(value) if isinstance(value, list | tuple) else [value]
    return sizes * (rank // len(sizes))


def read_convolution(
    graph: Graph, root: str, *, transposed: bool
) -> tuple[dict[str, str], dict[str, Any], int]:
    """Tensors, settings and rank of a convolution, transposed or not."""
    node = graph[root]
    general = transposed and node.op == "aten.convolution.default"
    rank = (TRANSPOSED if transposed else CONVOLUTIONS).get(node.op)
    require(rank is not None or general)
    arguments = _TRANSPOSED_ARGUMENTS if transposed else _ARGUMENTS
    settings = unwrap(bind_arguments(node, _GENERAL_ARGUMENTS if general else arguments))
    require(settings.pop("transposed", transposed) is transposed)
    return _tensors(graph, settings), settings, rank or len(settings["stride"])


def _finishable(
    core: Core, tensors: dict[str, str], settings: dict[str, Any], rank: int, *, transposed: bool
) -> Core:
    """A core whose kernels may fuse what stands after: a lane runs along an image's positions."""
    if "[None]" in core.arguments["x"]:
        return core
    x, weight = tensors["x"], tensors["weight"]
    defaults = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}
    per_axis = (numbers(settings.get(name, plain), rank) for name, plain in defaults.items())
    sizes = []
    for axis, (stride, padding, dilation, further) in enumerate(zip(*per_axis, strict=True), 2):
        size = f"{{{x}}}.shape[{axis}]"
        reach = f"{dilation} * ({{{weight}}}.shape[{axis}] - 1)"
        if transposed:
            more = further + 1 - 2 * padding
            sizes.append(f"(({size} - 1) * {stride} + {reach} + {more})")
        else:
            sizes.append(f"(({size} + {2 * padding} - {reach} - 1) // {stride} + 1)")
    return replace(core, main=x, out_lanes=rank, lane_size=" * ".join(sizes))


def _tensors(graph: Graph, settings: dict[str, Any]) -> dict[str, str]:
    """Image, filters and bias, taken from the arguments, all of one dtype."""
    tensors = {}
    for name in ("x", "weight", "bias"):
        value = settings.pop(name)
        if name != "bias" or value is not None:
            tensors[name] = unwrap(reference(value))
    dtypes = {graph.dtype(name) for name in tensors.values()}
    require(len(dtypes) == 1 and dtypes <= FLOATS)
    return tensors


def _named_padding(name: str, window: tuple[int, ...], dilation: Any) -> list[int]:
    """`valid` and `same` as numbers, where both sides are equal."""
    if name == "valid":
        return [0] * len(window)
    dilations = numbers(dilation, len(window))
    reaches = [d * (k - 1) for d, k in zip(dilations, window, strict=True)]
    require(not any(reach % 2 for reach in reaches))
    return [reach // 2 for reach in reaches]


def _window_core(  # noqa: PLR0917 (the parts of a core)
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
    _pool, with_epilogue(_convolution), with_epilogue(_flipped), with_epilogue(_transposed),
    _convolution, _flipped, _transposed,
)  # fmt: skip
