"""Parts of a graph that one kernel computes row by row."""

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
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
    needed,
)  # fmt: skip
from agent.proposers.recipe.lanes.region import is_computed, members_of, written
from agent.proposers.recipe.operands import argument
from agent.proposers.recipe.rows.launching import Tensor
from agent.proposers.recipe.rows.operators import ACROSS, INTEGERS, RowOperators
from agent.proposers.recipe.rows.text import Store, Writer, is_long
from judge.graph import Graph, operands

SLUG: Final = "rows"
# Elements that are worth a kernel.
_LEAST: Final = 1 << 16
_MOST_STEPS: Final = 4000
_MOST_LINES: Final = 600
# Small dimensions of a tensor that a program has in its registers.
_MOST_ELEMENTS: Final = 64
_MOST_CHOICES: Final = 24
_MOST_REGIONS: Final = 8
# Operators that are looked at, over all choices: 10,000 take a second.
_MOST_VISITS: Final = 50_000
_LEAST_OPERATORS: Final = 3
# One part in so many of all elements that are computed is worth a try.
_LEAST_SHARE: Final = 5
_FLOATS: Final = frozenset({"float32", "float16", "bfloat16"})
_EIGHT_BIT_FLOATS: Final = frozenset({"float8_e4m3fn", "float8_e5m2"})
_READ: Final = _FLOATS | _EIGHT_BIT_FLOATS | INTEGERS | {"bool"}


@dataclass(frozen=True)
class Region:
    """Operators that one kernel computes, and the kernel."""

    core: Core
    recipe: Recipe
    work: int
    """Elements that its operators compute."""


def regions_of(graph: Graph, taken: Collection[str] = ()) -> list[Region]:
    """Parts of a graph that are computed row by row, the largest first; they share nothing.

    `taken` are values that other kernels compute.
    """
    found: list[Region] = []
    slugs: dict[str, str] = {}
    pending: list[frozenset[str]] = [frozenset(graph.computed) - {*taken}]
    choices = [*_choices(graph)]
    tries = _MOST_VISITS // max(len(graph.nodes) * len(choices), 1)
    while pending and len(found) < _MOST_REGIONS and tries >= 0:
        allowed = pending.pop(0)
        tries -= 1
        best: Region | None = None
        for choice in choices:
            try:
                region = _region(graph, *choice, allowed)
            except UnsupportedError:
                continue
            if best is None or region.work > best.work:
                best = region
        if best is None:
            continue
        slug = slugs.setdefault(best.recipe.code, f"{SLUG}-{len(slugs) + 1}" if slugs else SLUG)
        found.append(replace(best, recipe=replace(best.recipe, slug=slug)))
        before = _ancestors(graph, best.core.nodes)
        rest = allowed - best.core.nodes
        pending += [rest - before, rest & before]
    everything = sum(
        math.prod(graph.shape(name)) for name in graph.computed if graph.is_tensor(name)
    )
    return found if sum(region.work for region in found) * _LEAST_SHARE >= everything else []


def _ancestors(graph: Graph, names: Collection[str]) -> frozenset[str]:
    """What values are computed from."""
    seen: set[str] = set()
    pending = [part for name in names for part in operands(graph[name])]
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += operands(graph[name])
    return frozenset(seen)


def _choices(graph: Graph) -> Iterator[tuple[tuple[int, ...], int]]:
    """Sizes of rows and columns that shapes in the graph suggest, the largest tensors first, and
    how many neighbours one column is: two where every second element is taken."""
    shapes = {
        graph.shape(name)
        for name, node in graph.nodes.items()
        if len(node.tensors) == 1 and len(node.tensors[0].shape) > 1
    }
    steps = {1} | {
        int(step)
        for node in graph.nodes.values()
        if node.op == "aten.slice.Tensor" and isinstance(step := argument(node, 4), int)
    }
    found: dict[tuple[tuple[int, ...], int], None] = {}
    for shape in sorted(shapes, key=lambda each: (-math.prod(each), each)):
        lead = [size for size in shape[:-1] if size > 1]
        for length in range(len(lead), 0, -1):
            for dims in itertools.combinations(range(len(lead)), length):
                for step in sorted(steps, reverse=True):
                    sizes = (*(lead[dim] for dim in dims), shape[-1] // step)
                    if math.prod(sizes) * step >= _LEAST and sizes[-1] > 1:
                        found.setdefault((sizes, step))
    yield from itertools.islice(found, _MOST_CHOICES)


def _region(graph: Graph, sizes: Sequence[int], together: int, allowed: Collection[str]) -> Region:
    """What blocks of such rows can compute of some operators."""
    steps = Steps(_MOST_STEPS)
    operators = RowOperators(graph, steps, sizes, _MOST_ELEMENTS)
    operators.together, operators.is_long = together, is_long(sizes[-1])
    tensors, inside = _evaluate(graph, operators, steps, allowed)
    rows = len(sizes) - 1
    members, results = members_of(graph, inside, lambda name: _is_own(graph, name, operators, rows))
    counted = [name for name in members if graph[name].op != "getitem"]
    if len(counted) < _LEAST_OPERATORS:
        raise UnsupportedError("there is little to compute")
    outputs: list[Tensor] = []
    stores: list[Store] = []
    for out, name in enumerate(results):
        value = cast("Lanes", operators.values[name])
        kind = ""
        if name in operators.across:
            kind = _kind(steps, value)
        groups = value.groups or (1,) * len(value.axes)
        outputs.append(Tensor(value.elements.shape, value.axes, groups, graph.dtype(name), kind))
        for at in np.ndindex(*value.elements.shape):
            index = tuple(None if a is not None else i for i, a in zip(at, value.axes, strict=True))
            stores.append(Store(out, index, cast("Element", value.elements[at])))
    loads = _loads(steps, stores)
    inputs = {name: tensor for name, tensor in tensors.items() if name in loads}
    if not any(len(sizes) - 1 in tensor.axes for tensor in inputs.values()):
        raise UnsupportedError("no columns are read")
    code = Writer(inputs, outputs, sizes, steps.all).kernel(stores)
    if code.count("\n") > _MOST_LINES:
        raise UnsupportedError("a row has too much to compute")
    citation = "All that is done to a row in one kernel, written for this problem."
    core, recipe = written(SLUG, members, list(inputs), results, code, citation)
    work = sum(math.prod(graph.shape(name)) for name in counted if graph.is_tensor(name))
    return Region(core, recipe, work)


def _kind(steps: Steps, value: Lanes) -> str:
    first = next(iter(value.elements.flat))
    template = steps.all[cast("Ref", first).step].template
    return next(kind for kind, text in ACROSS.items() if text == template)


def _loads(steps: Steps, stores: Sequence[Store]) -> set[str]:
    """Tensors that the stores' values need."""
    values = [store.value for store in stores]
    args = [arg for step in needed(steps.all, values) for arg in steps.all[step].args]
    return {element.name for element in [*values, *args] if isinstance(element, Load)}


def _evaluate(
    graph: Graph, operators: RowOperators, steps: Steps, allowed: Collection[str]
) -> tuple[dict[str, Tensor], list[str]]:
    """Tensors that are read, and what is computed of the allowed operators, in order."""
    tensors: dict[str, Tensor] = {}
    inside: dict[str, None] = {}
    after: set[str] = set()
    for number, (name, node) in enumerate(graph.nodes.items()):
        made_of = operands(node)
        steps.origin = number
        if node.op in ("input", "tensor"):
            continue
        if not after.isdisjoint(made_of):
            after.add(name)
            continue
        is_inside = not inside.keys().isdisjoint(made_of)
        if name not in allowed:
            if is_inside:
                after.add(name)
            continue
        try:
            for operand in made_of:
                if operand not in operators.values:
                    tensors[operand], operators.values[operand] = _read(graph, operand, operators)
            value = operators.evaluate(node)
        except UnsupportedError:
            if is_inside:
                after.add(name)
            continue
        operators.values[name] = value
        if is_inside or is_computed(value):
            inside[name] = None
        if not isinstance(value, list) and any(map(operators.is_across, value.elements.flat)):
            operators.across.add(name)
    return tensors, list(inside)


def _is_own(graph: Graph, name: str, operators: RowOperators, rows: int) -> bool:
    value = operators.values[name]
    if isinstance(value, list) or graph.dtype(name) not in _READ:
        return False
    if name in operators.across:
        return graph.dtype(name) in _FLOATS
    return {*value.axes} >= {*range(rows)}


def _read(graph: Graph, name: str, operators: RowOperators) -> tuple[Tensor, Lanes]:
    """A tensor in memory as blocks of rows."""
    if not graph.is_tensor(name) or graph.dtype(name) not in _READ:
        raise UnsupportedError("it is no tensor of numbers")
    sizes, axes, groups = operators.dimensions(name)
    places = [
        [None] if axis is not None else range(size) for size, axis in zip(sizes, axes, strict=True)
    ]
    loads = [Load(name, index) for index in itertools.product(*places)]
    own = groups or (1,) * len(axes)
    tensor = Tensor(sizes, axes, own, graph.dtype(name))
    return tensor, Lanes(array(loads, sizes), axes, groups)
