"""PyTorch's views of tensors as NumPy's views of what each lane computes."""

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from agent.proposers.recipe import fuse
from agent.proposers.recipe.lanes.elements import Lanes, Steps, UnsupportedError, constant
from judge.graph import Graph, reference
from judge.worker import messages as m


class Views:
    """Values of a graph in each lane, and views of them.

    Parameters
    ----------
    steps
        Where arithmetic goes.
    sizes
        Of the lanes' dimensions.
    most
        Elements of one tensor in one lane, and products of one contraction.
    """

    def __init__(self, graph: Graph, steps: Steps, sizes: Sequence[int], most: int) -> None:
        self._graph = graph
        self._steps = steps
        self._sizes = tuple(sizes)
        self._most = most
        self.values: dict[str, Lanes | list[Lanes]] = {}
        """Of the graph, by name; a list where an operator has several results."""

    def axes_of(self, shape: Sequence[int]) -> tuple[int | None, ...]:
        """Which dimensions of a tensor that is read or made are the lanes'.

        Raises
        ------
        UnsupportedError
            Sizes do not tell.
        """
        found: list[list[int | None]] = [[]]
        for size in shape:
            longer = []
            for axes in found:
                after = max((axis for axis in axes if axis is not None), default=-1)
                options: list[int | None] = [
                    axis for axis in range(after + 1, len(self._sizes)) if self._sizes[axis] == size
                ]
                if size not in self._sizes:
                    options = [None]
                longer += [[*axes, option] for option in options]
            found = longer[:16]
        if len(found) != 1:
            raise UnsupportedError("sizes do not tell which dimensions are lanes")
        return tuple(found[0])

    def _operand(self, arg: Any) -> Lanes:
        name = reference(arg)
        if name is not None:
            value = self.values[name]
            if isinstance(value, list):
                raise UnsupportedError("several values where one is needed")
            return value
        return constant(number_of(arg))

    def _shape(self, node: m.GraphNode) -> tuple[int, ...]:
        return tuple(node.tensors[0].shape)

    def _own_sizes(self, value: Lanes) -> list[int]:
        return [
            size if axis is None else self._sizes[axis]
            for size, axis in zip(value.elements.shape, value.axes, strict=True)
        ]

    def _reshape(self, value: Lanes, shape: Sequence[int]) -> Lanes:
        """Dimensions of lanes stay what they are; those between them may be cut anew."""
        own = self._own_sizes(value)
        axes: list[int | None] = []
        i = j = 0
        while i < len(own) or j < len(shape):
            if i < len(own) and value.axes[i] is not None:
                if j < len(shape) and shape[j] == 1 != own[i]:
                    axes.append(None)
                    j += 1
                    continue
                if j >= len(shape) or shape[j] != own[i]:
                    raise UnsupportedError("dimensions of lanes are cut anew")
                axes.append(value.axes[i])
                i, j = i + 1, j + 1
                continue
            begin, start, before, after = i, j, 1, 1
            while i < len(own) and value.axes[i] is None:
                before *= own[i]
                i += 1
            while j < len(shape) and (after < before or shape[j] == 1):
                after *= shape[j]
                j += 1
            if after != before or (begin, start) == (i, j):
                raise UnsupportedError("dimensions of lanes are cut anew")
            axes += [None] * (j - start)
        sizes = [1 if axis is not None else size for size, axis in zip(shape, axes, strict=True)]
        return Lanes(value.elements.reshape(sizes), tuple(axes))

    def _permute(self, _: m.GraphNode, x: Any, dims: Sequence[int]) -> Lanes:
        value = self._operand(x)
        order = [dim % value.rank for dim in dims]
        return value.viewed(lambda e: e.transpose(order), [value.axes[dim] for dim in order])

    def _transpose(self, node: m.GraphNode, x: Any, first: int, second: int) -> Lanes:
        rank = self._operand(x).rank
        order = list(range(rank))
        order[first % rank], order[second % rank] = order[second % rank], order[first % rank]
        return self._permute(node, x, order)

    def _t(self, node: m.GraphNode, x: Any) -> Lanes:
        return self._permute(node, x, list(range(self._operand(x).rank))[::-1])

    def _unsqueeze(self, _: m.GraphNode, x: Any, dim: int) -> Lanes:
        value = self._operand(x)
        place = dim % (value.rank + 1)
        axes = [*value.axes[:place], None, *value.axes[place:]]
        return value.viewed(lambda e: np.expand_dims(e, place), axes)

    def _squeeze(self, node: m.GraphNode, x: Any, *_: Any) -> Lanes:
        return self._reshape(self._operand(x), self._shape(node))

    def _expand(self, node: m.GraphNode, x: Any, *_: Any) -> Lanes:
        value, shape = self._operand(x), self._shape(node)
        lead = len(shape) - value.rank
        axes = [*[None] * lead, *value.axes]
        elements = value.elements.reshape((1,) * lead + value.elements.shape)
        wanted = self.axes_of(shape) if any(axis is None for axis in axes) else tuple(axes)
        for dim, axis in enumerate(wanted):
            if axes[dim] is None and axis is not None:
                if elements.shape[dim] != 1:
                    raise UnsupportedError("dimensions of lanes meet others")
                axes[dim] = axis
        sizes = [1 if a is not None else s for s, a in zip(shape, axes, strict=True)]
        return Lanes(np.broadcast_to(elements, sizes), tuple(axes))

    def _slice(self, node: m.GraphNode, x: Any, dim: int = 0, *bounds: Any) -> Lanes:
        value = self._operand(x)
        if self._shape(node) == tuple(self._graph.shape(cast("str", reference(x)))):
            return value
        place = value.small(dim)
        index = (slice(None),) * place + (slice(*(bounds or [None])),)
        return value.viewed(lambda e: e[index], value.axes)

    def _select(self, _: m.GraphNode, x: Any, dim: int, index: int) -> Lanes:
        value = self._operand(x)
        place = value.small(dim)
        axes = [*value.axes[:place], *value.axes[place + 1 :]]
        return Lanes(value.elements.take([index], place).squeeze(place), tuple(axes))

    def _unbind(self, node: m.GraphNode, x: Any, dim: int = 0) -> list[Lanes]:
        value = self._operand(x)
        return [
            self._select(node, x, dim, place)
            for place in range(value.elements.shape[value.small(dim)])
        ]

    def _split(self, node: m.GraphNode, x: Any, _: Any, dim: int = 0) -> list[Lanes]:
        value = self._operand(x)
        place = value.small(dim)
        ends = np.cumsum([tensor.shape[place] for tensor in node.tensors])[:-1]
        parts = np.split(value.elements, ends, axis=place)
        return [Lanes(part, value.axes) for part in parts]

    _chunk = _split_with_sizes = _split

    def _unfold(self, _: m.GraphNode, x: Any, dim: int, size: int, step: int) -> Lanes:
        value = self._operand(x)
        place = value.small(dim)
        if math.prod(value.elements.shape) * size > self._most:
            raise UnsupportedError("a lane has too much to compute")
        windows = [
            value.elements.take(range(start, start + size), place)
            for start in range(0, value.elements.shape[place] - size + 1, step)
        ]
        stacked = np.moveaxis(np.stack(windows, place), place + 1, -1)
        return Lanes(stacked, (*value.axes, None))

    def _flip(self, _: m.GraphNode, x: Any, dims: Sequence[int]) -> Lanes:
        value = self._operand(x)
        places = [value.small(dim) for dim in dims]
        return value.viewed(lambda e: np.flip(e, tuple(places)), value.axes)

    def _cat(self, _: m.GraphNode, parts: Sequence[Any], dim: int = 0) -> Lanes:
        values = [self._operand(part) for part in parts]
        place = values[0].small(dim)
        if any(value.axes != values[0].axes for value in values):
            raise UnsupportedError("dimensions of lanes meet others")
        return Lanes(np.concatenate([v.elements for v in values], place), values[0].axes)

    def _stack(self, node: m.GraphNode, parts: Sequence[Any], dim: int = 0) -> Lanes:
        values = [self._operand(part) for part in parts]
        if any(value.axes != values[0].axes for value in values):
            raise UnsupportedError("dimensions of lanes meet others")
        place = dim % len(self._shape(node))
        axes = [*values[0].axes[:place], None, *values[0].axes[place:]]
        return Lanes(np.stack([value.elements for value in values], place), tuple(axes))

    def _select_scatter(self, _: m.GraphNode, x: Any, source: Any, dim: int, index: int) -> Lanes:
        value, other = self._operand(x), self._operand(source)
        place = value.small(dim)
        if [*value.axes[:place], *value.axes[place + 1 :]] != list(other.axes):
            raise UnsupportedError("dimensions of lanes meet others")
        elements = value.elements.copy()
        elements[(slice(None),) * place + (index,)] = other.elements
        return Lanes(elements, value.axes)

    def _slice_scatter(
        self, _: m.GraphNode, x: Any, source: Any, dim: int = 0, *bounds: Any
    ) -> Lanes:
        value, other = self._operand(x), self._operand(source)
        if value.axes[dim % value.rank] is not None:
            if value.axes == other.axes and value.elements.shape == other.elements.shape:
                return other
            raise UnsupportedError("it goes across lanes")
        elements = value.elements.copy()
        index = (slice(None),) * (dim % value.rank) + (slice(*(bounds or [None])),)
        elements[index] = other.elements
        return Lanes(elements, value.axes)

    def _copy(self, node: m.GraphNode, _x: Any, source: Any) -> Lanes:
        return self._expand(node, source)

    def _constant_pad_nd(
        self, _: m.GraphNode, x: Any, pads: Sequence[int], fill: float = 0.0
    ) -> Lanes:
        value = self._operand(x)
        widths = [(0, 0)] * value.rank
        for place in range(len(pads) // 2):
            widths[value.rank - 1 - place] = (pads[2 * place], pads[2 * place + 1])
        for dim, width in enumerate(widths):
            if width != (0, 0):
                value.small(dim)
                if min(width) < 0:
                    raise UnsupportedError("padding that cuts")
        padded = np.full(
            [s + sum(w) for s, w in zip(value.elements.shape, widths, strict=True)],
            float(fill), dtype=object,
        )  # fmt: skip
        inner = tuple(
            slice(low, low + size)
            for (low, _high), size in zip(widths, value.elements.shape, strict=True)
        )
        padded[inner] = value.elements
        return Lanes(padded, value.axes)

    def _pad(
        self, node: m.GraphNode, x: Any, pads: Sequence[int], mode: str = "constant", *fill: Any
    ) -> Lanes:
        if mode != "constant":
            raise UnsupportedError("padding of another mode")
        return self._constant_pad_nd(node, x, pads, *(value or 0.0 for value in fill))


def number_of(arg: Any) -> float:
    """An argument that is a number.

    Raises
    ------
    UnsupportedError
        It is something else.
    """
    number = fuse.number(float(arg) if isinstance(arg, bool) else arg)
    if number is None:
        raise UnsupportedError("an argument is no number")
    return number
