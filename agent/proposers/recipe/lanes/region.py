"""The part of a graph that lanes compute by themselves, as one kernel of a core."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from agent.proposers.recipe.carry import Recipe
from agent.proposers.recipe.core import Core
from agent.proposers.recipe.lanes.elements import (
    Element,
    Lanes,
    Load,
    Ref,
    Steps,
    UnsupportedError,
    array,
)  # fmt: skip
from agent.proposers.recipe.lanes.loops import Store, arrange, find_loops
from agent.proposers.recipe.lanes.operators import Operators
from agent.proposers.recipe.lanes.text import Tensor, Writer
from judge.graph import Graph, operands

SLUG: Final = "lanes"
# Fewer lanes leave a GPU idle.
_LEAST_LANES: Final = 1024
_MOST_STEPS: Final = 60_000
# Lines of a kernel: of 2,800 the compiler takes more than 12 s.
_MOST_LINES: Final = 1500
# Choices of dimensions that are tried, and operators that make a kernel of its own worth it.
_MOST_CHOICES: Final = 8
_LEAST_OPERATORS: Final = 6
# Elements of one tensor in one lane: as many as are tried first, and where that is too much.
_MOST_ELEMENTS: Final = (1 << 15, 1 << 11)
_READ: Final = frozenset({"float32", "float16", "bfloat16", "bool"})


@dataclass(frozen=True)
class Region:
    """Operators that one kernel computes, and the kernel."""

    core: Core
    recipe: Recipe
    loops: int
    """How many loops there are in the kernel."""
    elementwise: bool
    """Whether a fused chain does the same: nothing is small, and nothing repeats."""


def region_of(graph: Graph) -> Region | None:
    """The largest part of a graph that lanes can compute; None where it is not worth a kernel."""
    best: Region | None = None
    for sizes, most in itertools.product(_choices(graph), _MOST_ELEMENTS):
        try:
            found = _region(graph, sizes, most)
        except UnsupportedError:
            continue
        if best is None or len(found.core.nodes) > len(best.core.nodes):
            best = found
        if len(best.core.nodes) == len(graph.computed):
            break
    return None if best is None or best.elementwise else best


def _choices(graph: Graph) -> Iterator[tuple[int, ...]]:
    """Sizes of dimensions that may be lanes, the most lanes first, from the shapes of results."""
    results = [*graph.outputs, *graph.computed[-1:]]
    shapes = [graph.shape(name) for name in results if graph.is_tensor(name)]
    found: dict[tuple[int, ...], None] = {}
    for shape in shapes:
        for length in range(len(shape), 0, -1):
            for dims in itertools.combinations(range(len(shape)), length):
                sizes = tuple(shape[dim] for dim in dims)
                if math.prod(sizes) >= _LEAST_LANES and 1 not in sizes:
                    found[sizes] = None
    ordered = sorted(found, key=lambda sizes: (-math.prod(sizes), sizes))
    yield from ordered[:_MOST_CHOICES]


@dataclass(frozen=True)
class _Values:
    """What these lanes can compute of a graph."""

    operators: Operators
    steps: Steps
    tensors: dict[str, Tensor]
    """That are read."""
    inside: list[str]
    """Operators, in order."""
    counts: list[int]
    """By place in the graph: elements of what it computes, in one lane."""


def _region(graph: Graph, sizes: Sequence[int], most: int) -> Region:
    """The part of a graph that these lanes can compute, with operators of at most so many elements
    each."""
    values = _evaluate(graph, sizes, most)
    steps, every = values.steps, {*range(len(sizes))}
    of_lanes = values.operators.values
    members, results = members_of(
        graph, values.inside, lambda name: _is_own(of_lanes[name], len(sizes))
    )
    if len([name for name in members if graph[name].op != "getitem"]) < _LEAST_OPERATORS:
        raise UnsupportedError("there is little to compute")
    longest = max(values.counts)
    outputs: list[Tensor] = []
    stores: list[Store] = []
    for out, name in enumerate(results):
        value = values.operators.values[name]
        assert isinstance(value, Lanes)
        outputs.append(Tensor(graph.shape(name), value.axes, graph.dtype(name)))
        stores += _stores(out, value)
    items = arrange(steps, stores, [count * 4 < longest for count in values.counts])
    loops = find_loops(items)
    if len(items) - sum(loop.period * (loop.count - 1) for loop in loops) > _MOST_LINES:
        raise UnsupportedError("a lane has too much to compute")
    needed = {arg.name for item in items for arg in item.args if isinstance(arg, Load)}
    inputs = {name: tensor for name, tensor in values.tensors.items() if name in needed}
    if not inputs or {axis for tensor in inputs.values() for axis in tensor.axes} - {None} != every:
        raise UnsupportedError("inputs do not tell how many lanes there are")
    code = Writer(inputs, outputs, len(sizes)).kernel(items, loops)
    citation = "One lane a thread, written for this problem."
    core, recipe = written(SLUG, members, list(inputs), results, code, citation)
    is_chain = longest == 1 and not loops and len(results) == 1
    return Region(core, recipe, len(loops), is_chain)


def _evaluate(graph: Graph, sizes: Sequence[int], most: int) -> _Values:
    """What lanes can compute: operators that they cannot are before or after the kernel."""
    steps = Steps(_MOST_STEPS)
    operators = Operators(graph, steps, sizes, most)
    tensors: dict[str, Tensor] = {}
    inside: dict[str, None] = {}
    after: set[str] = set()
    counts = [0] * len(graph.nodes)
    for number, name in enumerate(graph.nodes):
        node, made_of = graph[name], operands(graph[name])
        steps.origin = number
        if node.op in ("input", "tensor"):
            continue
        if not after.isdisjoint(made_of):
            after.add(name)
            continue
        is_inside = not inside.keys().isdisjoint(made_of)
        try:
            for operand in made_of:
                if operand not in operators.values:
                    read = _read(graph, operand, operators, most)
                    tensors[operand], operators.values[operand] = read
            value = operators.evaluate(node)
            if not isinstance(value, list) and node.tensors[0].dtype not in _READ:
                _only_numbers(value)
        except UnsupportedError:
            if is_inside:
                after.add(name)
            continue
        operators.values[name] = value
        if is_inside or is_computed(value):
            inside[name] = None
            parts = value if isinstance(value, list) else [value]
            counts[number] = sum(part.elements.size for part in parts)
    return _Values(operators, steps, tensors, list(inside), counts)


def written(  # noqa: PLR0917 (the parts of a core and its kernel)
    slug: str,
    members: frozenset[str],
    inputs: Sequence[str],
    results: Sequence[str],
    code: str,
    citation: str,
) -> tuple[Core, Recipe]:
    """The core of operators that one kernel computes, which takes `inputs` as p0, p1 …, and the
    kernel."""
    arguments = {f"p{number}": f"{{{name}}}" for number, name in enumerate(inputs)}
    marks = ["{r}"] if len(results) == 1 else [f"{{r{place}}}" for place in range(len(results))]
    by_result = dict(zip(results, marks, strict=True))
    core = Core(slug, members, arguments, by_result, returns=len(results))
    dtypes = ("float32", "float16", "bfloat16")
    return core, Recipe(slug, slug, code, dtypes, ("kernel-fusion",), citation=citation, own=True)


def members_of(
    graph: Graph, inside: Sequence[str], is_own: Callable[[str], bool]
) -> tuple[frozenset[str], list[str]]:
    """Operators whose results outside of the kernel are its own to write, and these results."""
    members = set(inside)
    while True:
        results = [
            name
            for name in inside
            if name in members and (name in graph.outputs or set(graph.users[name]) - members)
        ]
        others = {name for name in results if not is_own(name)}
        if not others:
            return frozenset(members), results
        members -= others


def _is_own(value: Lanes | list[Lanes], lanes: int) -> bool:
    return not isinstance(value, list) and {*value.axes} - {None} == {*range(lanes)}


def is_computed(value: Lanes | list[Lanes] | None) -> bool:
    """Whether a lane has something to do for a value."""
    if value is None:
        return False
    if isinstance(value, list):
        return any(map(is_computed, value))
    return any(isinstance(element, Ref) for element in value.elements.flat)


def _only_numbers(value: Lanes) -> None:
    """Integers are kept where they are known; a lane computes in float32."""
    if any(isinstance(element, Load | Ref) for element in value.elements.flat):
        raise UnsupportedError("integers that depend on the inputs")


def _read(graph: Graph, name: str, operators: Operators, most: int) -> tuple[Tensor, Lanes]:
    """A tensor in memory as lanes read it."""
    if not graph.is_tensor(name) or graph.dtype(name) not in _READ:
        raise UnsupportedError("it is no tensor of numbers")
    shape = graph.shape(name)
    axes = operators.axes_of(shape)
    sizes = [1 if axis is not None else size for size, axis in zip(shape, axes, strict=True)]
    if math.prod(sizes) > most:
        raise UnsupportedError("a lane has too much to read")
    places = [
        [None] if axis is not None else range(size) for size, axis in zip(sizes, axes, strict=True)
    ]
    loads = [Load(name, index) for index in itertools.product(*places)]
    return Tensor(shape, axes, graph.dtype(name)), Lanes(array(loads, sizes), axes)


def _stores(out: int, value: Lanes) -> Iterator[Store]:
    for at in np.ndindex(*value.elements.shape):
        index = tuple(None if a is not None else i for i, a in zip(at, value.axes, strict=True))
        yield Store(out, index, (cast("Element", value.elements[at]),))
