"""How blocks of rows lie in a tensor's dimensions, of which one may be several of an array's.

7,168 columns are 56 times 128 where scales are shared by 128 neighbours, or two halves.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from agent.proposers.recipe.lanes.elements import (
    Element,
    Lanes,
    Load,
    Ref,
    Steps,
    UnsupportedError,
    array,
    constant,
    needed,
    pointwise,
)  # fmt: skip
from agent.proposers.recipe.lanes.operators import Operators
from agent.proposers.recipe.lanes.views import number_of
from agent.proposers.recipe.operands import base_of
from judge.graph import Graph, reference
from judge.worker import messages as m

# As many columns as each of these parts are one dimension of a tensor.
_MOST_PARTS: Final = 64

COLUMN: Final = "column"
"""Which column an element is in."""
LOADED: Final = "at {1}"
"""What is read at one column of a row."""
RUNNING: Final = "tl.cumsum({0}, 1)"
ALONG: Final[Mapping[str, str]] = {
    "sum": "tl.sum(tl.where(in_column, {0}, 0), 1)[:, None]",
    "max": 'tl.max(tl.where(in_column, {0}, float("-inf")), 1)[:, None]',
    "min": 'tl.min(tl.where(in_column, {0}, float("inf")), 1)[:, None]',
}
"""Reductions along rows."""

Whole = tuple[tuple[int, ...], tuple[int | None, ...], tuple[int, ...] | None]
"""Of a tensor's array: sizes of small dimensions, axes, groups."""


class RowViews(Operators):
    """Values of a graph in each block of rows, and views of them."""

    def __init__(self, graph: Graph, steps: Steps, sizes: Sequence[int], most: int) -> None:
        super().__init__(graph, steps, sizes, most)
        self._columns = len(self._sizes) - 1
        self.together = 1
        """How many neighbours along a tensor's dimension a column is, where it is several."""
        self.is_long = False
        """Whether rows are too long for registers."""
        self.across: set[str] = set()
        """Values that are reduced over rows; only the launcher knows them."""

    def dimensions(self, name: str) -> Whole:
        """How a tensor of the graph is taken apart, which lies in memory or is made.

        Raises
        ------
        UnsupportedError
            Sizes do not tell.
        """
        shape = self._graph.shape(name)
        last = self._sizes[-1]
        is_rows = len(shape) == 1 and any(
            self._graph[user].op == "aten.unsqueeze.default"
            or (base_of(self._graph[user].op) in {"view", "reshape"}
                and self._graph.shape(user)[-1:] == (1,))
            for user in self._graph.users[name]
        )  # fmt: skip
        axes = self._axes_by_place(shape, before=is_rows)
        sizes: list[int] = []
        own: list[int | None] = []
        groups: list[int] = []
        for size, axis in zip(shape, axes, strict=True):
            parts = size // last
            if axis is None and self.together > 1 and size == last * self.together:
                sizes += [1, self.together]
                own += [self._columns, None]
                groups.append(2)
            elif axis is None and size % last == 0 and 1 < parts <= _MOST_PARTS and last > 1:
                if parts in self._sizes[-2:-1]:
                    raise UnsupportedError("dimensions are lanes, which a view shows")
                sizes += [parts, 1]
                own += [None, self._columns]
                groups.append(2)
            else:
                sizes.append(1 if axis is not None else size)
                own.append(axis)
                groups.append(1)
        if math.prod(sizes) > self._most:
            raise UnsupportedError("a row has too much to read")
        if sum(axis == self._columns for axis in own) > 1:
            raise UnsupportedError("sizes do not tell which dimension the columns are")
        return tuple(sizes), tuple(own), tuple(groups) if max(groups, default=1) > 1 else None

    def axes_of(self, shape: Sequence[int]) -> tuple[int | None, ...]:
        """As lanes do; where sizes leave a choice, counted from the last dimension."""
        return self._axes_by_place(shape, before=False)

    def _axes_by_place(self, shape: Sequence[int], *, before: bool) -> tuple[int | None, ...]:
        """Axes of dimensions, the last of which are the last axes, or those before the columns."""
        sizes, lead = self._sizes, len(self._sizes) - before - len(shape)
        places = [place + lead for place in range(len(shape))]
        if all(
            size == 1 or (place >= 0 and size == sizes[place])
            for size, place in zip(shape, places, strict=True)
        ):
            return tuple(
                None if size == 1 else place for size, place in zip(shape, places, strict=True)
            )
        return super().axes_of(shape)

    def _operand(self, arg: Any) -> Lanes:
        value = self._own(arg)
        if value.groups is not None:
            raise UnsupportedError("a dimension is several")
        return value

    def _own(self, arg: Any) -> Lanes:
        """An operand whose dimensions may be groups."""
        name = reference(arg)
        if name is None:
            return constant(number_of(arg))
        value = self.values[name]
        if isinstance(value, list):
            raise UnsupportedError("several values where one is needed")
        if name in self.across:
            raise UnsupportedError("no program knows what all rows are")
        return value

    def _sizes_of(self, value: Lanes) -> list[int]:
        own = self._own_sizes(value)
        return [math.prod(own[start:end]) for start, end in spans_of(value)]

    def _reshape(self, value: Lanes, shape: Sequence[int]) -> Lanes:
        """Dimensions of lanes stay; small ones may be cut, and all be put together."""
        own, axes = self._own_sizes(value), list(value.axes)
        new_sizes: list[int] = []
        new_axes: list[int | None] = []
        groups: list[int] = []
        pending = list(zip(own, axes, strict=True))
        for size in shape:
            taken, count = 1, 0
            while taken < size:
                if not pending:
                    raise UnsupportedError("dimensions of lanes are cut anew")
                part, axis = pending.pop(0)
                if part * taken > size and axis is None and size % taken == 0:
                    first = size // taken
                    if part % first:
                        raise UnsupportedError("dimensions are cut anew")
                    pending.insert(0, (part // first, None))
                    part = first
                taken *= part
                if part == 1:
                    continue
                new_sizes.append(1 if axis is not None else part)
                new_axes.append(axis)
                count += 1
            if taken != size:
                raise UnsupportedError("dimensions of lanes are cut anew")
            if not count:
                new_sizes.append(1)
                new_axes.append(None)
            groups.append(max(count, 1))
        if any(part != 1 for part, _ in pending):
            raise UnsupportedError("dimensions of lanes are cut anew")
        made = Lanes(value.elements.reshape(new_sizes), tuple(new_axes))
        return grouped(made, groups)

    def _pointwise(self, template: str, operands: Sequence[Lanes]) -> Lanes:
        """Elementwise; where a dimension is a group in one operand, it is one in all."""
        if all(operand.groups is None for operand in operands):
            return pointwise(self._steps, template, operands)
        rank = max(len(spans_of(operand)) for operand in operands)
        groups = [1] * rank
        for operand in operands:
            own = operand.groups or (1,) * len(operand.axes)
            for place, count in enumerate(own, rank - len(own)):
                groups[place] = max(groups[place], count)
        parted = []
        for operand in operands:
            spans = spans_of(operand)
            sizes: list[int] = []
            axes: list[int | None] = []
            for (start, end), count in zip(spans, groups[rank - len(spans) :], strict=True):
                shape = list(operand.elements.shape[start:end])
                own_axes = list(operand.axes[start:end])
                if len(shape) < count:
                    if shape != [1] or own_axes != [None]:
                        raise UnsupportedError("dimensions of lanes meet others")
                    shape, own_axes = [1] * count, [None] * count
                sizes += shape
                axes += own_axes
            parted.append(Lanes(operand.elements.reshape(sizes), tuple(axes)))
        return grouped(pointwise(self._steps, template, parted), groups)

    # Parts of rows

    def _along_columns(self, node: m.GraphNode, base: str) -> Lanes | list[Lanes] | None:
        """Parts of a dimension that is several, or several parts as one; None: it is none."""
        if base == "cat":
            parts = [self._own(part) for part in cast("list[Any]", node.args[0])]
            return self._joined(parts, cast("int", (*node.args[1:], 0)[0]))
        value = self._own(node.args[0])
        spans = spans_of(value)
        args: list[Any] = [*node.args]
        dim = args[{"slice": 1}.get(base, 2)] if len(args) > {"slice": 1}.get(base, 2) else 0
        dim %= len(spans)
        start, end = spans[dim]
        if end - start == 1 and value.axes[start] == self._columns and base == "slice":
            return self._one_column(value, dim, args[2:])
        if end - start == 1:
            return None if value.groups is None else self._small_part(node, base, value, dim)
        if base != "slice":
            inner = math.prod(self._own_sizes(value)[start + 1 : end])
            return self._cut(node, value, dim, inner)
        size = math.prod(self._own_sizes(value)[start:end])
        first, last, step = ([*args[2:], None, None, None][i] for i in range(3))
        first, last, step = slice(first, last, step).indices(size)
        return self._slice_of_group(value, dim, (first, last, step), size)

    def _one_column(self, value: Lanes, dim: int, bounds: Sequence[Any]) -> Lanes | None:
        """One element of each row."""
        first, last, step = ([*bounds, None, None, None][i] for i in range(3))
        first, last, step = slice(first, last, step).indices(self._sizes[-1])
        if last - first != 1:
            return None
        start, _ = spans_of(value)[dim]
        made = [self._at(cast("Element", each), first) for each in value.elements.flat]
        axes = [None if place == start else axis for place, axis in enumerate(value.axes)]
        return Lanes(array(made, value.elements.shape), tuple(axes), value.groups)

    def _at(self, element: Element, column: Element) -> Element:
        """An element of a row, at one of its columns."""
        known: dict[Element, Element] = {}

        def at(part: Element) -> Element:
            if isinstance(part, Load) and self._columns in self.dimensions(part.name)[1]:
                return self._steps.add(LOADED, part, column)
            return known.get(part, part)

        for number in needed(self._steps.all, [element]):
            step = self._steps.all[number]
            if step.template == RUNNING:
                raise UnsupportedError("an element of running sums")
            if step.template == COLUMN:
                known[Ref(number)] = column
            elif step.template not in {LOADED, *ALONG.values()}:
                known[Ref(number)] = self._steps.add(step.template, *map(at, step.args))
        return at(element)

    def _small_part(self, node: m.GraphNode, base: str, value: Lanes, dim: int) -> Any:
        """Of a small dimension beside a group."""
        start, _ = spans_of(value)[dim]
        if value.axes[start] is not None:
            raise UnsupportedError("it goes across lanes")
        if base == "slice":
            index = (slice(None),) * start + (slice(*node.args[2:]),)
            return value._replace(elements=value.elements[index])
        ends = np.cumsum([tensor.shape[dim] for tensor in node.tensors])[:-1]
        parts = np.split(value.elements, ends, axis=start)
        return [value._replace(elements=part) for part in parts]

    def _cut(self, node: m.GraphNode, value: Lanes, dim: int, inner: int) -> list[Lanes]:
        """Parts that are whole numbers of the group's first dimension."""
        start, _ = spans_of(value)[dim]
        sizes = [tensor.shape[dim] for tensor in node.tensors]
        if value.axes[start] is not None or any(size % inner for size in sizes):
            raise UnsupportedError("dimensions of lanes are cut")
        ends = np.cumsum([size // inner for size in sizes])[:-1]
        parts = np.split(value.elements, ends, axis=start)
        return [self._simplified(value._replace(elements=part)) for part in parts]

    def _slice_of_group(
        self, value: Lanes, dim: int, bounds: tuple[int, int, int], size: int
    ) -> Lanes:
        start, end = spans_of(value)[dim]
        own = self._own_sizes(value)
        first, last, step = bounds
        inner = math.prod(own[start + 1 : end])
        innermost = own[end - 1]
        if step == 1 and value.axes[start] is None and not (first % inner or last % inner):
            index = (slice(None),) * start + (slice(first // inner, last // inner),)
        elif (
            last == size and first < step and innermost % step == 0 and value.axes[end - 1] is None
        ):
            index = (slice(None),) * (end - 1) + (slice(first, None, step),)
        else:
            raise UnsupportedError("dimensions of lanes are cut")
        return self._simplified(value._replace(elements=value.elements[index]))

    def _simplified(self, value: Lanes) -> Lanes:
        """Without dimensions of one element within groups."""
        shape: list[int] = []
        axes: list[int | None] = []
        groups: list[int] = []
        for start, end in spans_of(value):
            kept = [
                place
                for place in range(start, end)
                if value.axes[place] is not None or value.elements.shape[place] > 1
            ] or [start]
            shape += [value.elements.shape[place] for place in kept]
            axes += [value.axes[place] for place in kept]
            groups.append(len(kept))
        return grouped(Lanes(value.elements.reshape(shape), tuple(axes)), groups)

    def _joined(self, parts: Sequence[Lanes], dim: int) -> Lanes | None:
        """Parts of rows one after the other: a group of as many."""
        dim %= len(spans_of(parts[0]))
        wide: list[Lanes] = []
        for part in parts:
            start, end = spans_of(part)[dim]
            axes = part.axes[start:end]
            if axes == (self._columns,):  # one part
                elements = np.expand_dims(part.elements, start)
                own = (*part.axes[:start], None, *part.axes[start:])
                part = Lanes(elements, own, _with(part, dim, 2))  # noqa: PLW2901
            elif axes != (None, self._columns):
                return None
            wide.append(part)
        place = spans_of(wide[0])[dim][0]
        if any(part.axes != wide[0].axes or part.groups != wide[0].groups for part in wide):
            raise UnsupportedError("dimensions of lanes meet others")
        joined = np.concatenate([part.elements for part in wide], place)
        return Lanes(joined, wide[0].axes, wide[0].groups)


def spans_of(value: Lanes) -> list[tuple[int, int]]:
    """By dimension of the tensor: which of the array's it is."""
    groups = value.groups or (1,) * len(value.axes)
    ends = np.cumsum(groups).tolist()
    return [(end - count, end) for end, count in zip(ends, groups, strict=True)]


def grouped(value: Lanes, groups: Sequence[int]) -> Lanes:
    """A value whose tensor's dimensions are so many of its array's."""
    return value._replace(groups=tuple(groups) if max(groups, default=1) > 1 else None)


def _with(value: Lanes, dim: int, count: int) -> tuple[int, ...]:
    groups = list(value.groups or (1,) * len(value.axes))
    groups[dim] = count
    return tuple(groups)
