"""Arrays whose elements are expressions: what each lane computes, one element at a time.

A lane is one index into the large dimensions that all of a graph's tensors share, such as the
batch. The other dimensions are small (coordinates, states, time steps), and each of their elements
is an expression of its own, so that NumPy's own views and stacks do what PyTorch's do.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Objects = npt.NDArray[np.object_]


class UnsupportedError(Exception):
    """An operator that a lane cannot compute by itself."""


class Load(NamedTuple):
    """An element of a tensor in memory."""

    name: str
    """Value of the graph."""
    at: tuple[int | None, ...]
    """By dimension; None where the lane says which."""


class Ref(NamedTuple):
    """The result of a step."""

    step: int


Element = float | Load | Ref


class Step(NamedTuple):
    """A Triton expression, with `{0}`, `{1}` … for its arguments, in float32."""

    template: str
    args: tuple[Element, ...]


class Steps:
    """Steps in the order in which they were asked for, each once.

    Parameters
    ----------
    most
        How many there may be.
    """

    def __init__(self, most: int) -> None:
        self.all: list[Step] = []
        self.origins: list[int] = []
        """By step: `origin` when it was first asked for."""
        self.origin = 0
        self._known: dict[Step, Ref] = {}
        self._most = most

    def add(self, template: str, *args: Element) -> Element:
        """The result of a step.

        Raises
        ------
        UnsupportedError
            There are too many.
        """
        if template == "{0}":
            return args[0]
        step = Step(template, args)
        if step not in self._known:
            if len(self.all) >= self._most:
                raise UnsupportedError("a lane has too much to compute")
            self._known[step] = Ref(len(self.all))
            self.all.append(step)
            self.origins.append(self.origin)
        return self._known[step]


def needed(steps: Sequence[Step], elements: Iterable[Element]) -> list[int]:
    """Numbers of the steps that elements are made of, in order."""
    found: set[int] = set()
    pending = [element.step for element in elements if isinstance(element, Ref)]
    while pending:
        step = pending.pop()
        if step not in found:
            found.add(step)
            pending += [arg.step for arg in steps[step].args if isinstance(arg, Ref)]
    return sorted(found)


class Lanes(NamedTuple):
    """A tensor as each lane sees it."""

    elements: Objects
    """[...]: an `Element` each; a dimension of lanes has length 1."""
    axes: tuple[int | None, ...]
    """By dimension: which dimension of the lanes it is, None where it is a small one."""
    groups: tuple[int, ...] | None = None
    """How many of these each dimension of the tensor is; None: each is one."""

    @property
    def rank(self) -> int:
        """How many dimensions there are."""
        return len(self.axes)

    def small(self, dim: int) -> int:
        """A dimension, counted from the front, that must be no lanes'."""
        place = dim % self.rank if self.rank else 0
        if not self.rank or self.axes[place] is not None:
            raise UnsupportedError("it goes across lanes")
        return place

    def viewed(self, view: Callable[[Any], Any], axes: Sequence[int | None]) -> "Lanes":
        """A view of the elements, with the dimensions that it has."""
        return Lanes(view(self.elements), tuple(axes))


def array(elements: Sequence[Element], shape: Sequence[int]) -> Objects:
    """Elements as an array of objects: named tuples would become dimensions otherwise."""
    made = np.empty(len(elements), dtype=object)
    for place, element in enumerate(elements):
        made[place] = element
    return made.reshape(tuple(shape))


def constant(value: float) -> Lanes:
    """A number."""
    return Lanes(array([value], ()), ())


def aligned(operands: Sequence[Lanes]) -> tuple[list[Objects], tuple[int | None, ...]]:
    """Operands broadcast to one shape, and the dimensions of that.

    Raises
    ------
    UnsupportedError
        A dimension is lanes' in one of them and a small one in another.
    """
    rank = max(operand.rank for operand in operands)
    padded = [
        Lanes(
            operand.elements.reshape((1,) * (rank - operand.rank) + operand.elements.shape),
            (None,) * (rank - operand.rank) + operand.axes,
        )
        for operand in operands
    ]
    axes: list[int | None] = []
    for dim in range(rank):
        lanes = {operand.axes[dim] for operand in padded} - {None}
        longest = max(operand.elements.shape[dim] for operand in padded)
        if len(lanes) > 1 or (lanes and longest > 1):
            raise UnsupportedError("dimensions of lanes meet others")
        axes.append(next(iter(lanes), None))
    if len({axis for axis in axes if axis is not None}) < sum(axis is not None for axis in axes):
        raise UnsupportedError("a dimension of lanes meets itself")
    return list(np.broadcast_arrays(*(operand.elements for operand in padded))), tuple(axes)


def pointwise(steps: Steps, template: str, operands: Sequence[Lanes]) -> Lanes:
    """One step for each element."""
    arrays, axes = aligned(operands)
    flat = [each.reshape(-1) for each in arrays]
    made = [steps.add(template, *row) for row in zip(*flat, strict=True)]
    return Lanes(array(made, arrays[0].shape), axes)


def reduced(
    value: Lanes, dims: Sequence[int], keep: bool, function: Callable[[list[Element]], Element]
) -> Lanes:
    """One element for all those along small dimensions."""
    places = sorted({value.small(dim) for dim in dims})
    rest = [dim for dim in range(value.rank) if dim not in places]
    shape = [value.elements.shape[dim] for dim in rest]
    rows = value.elements.transpose([*rest, *places]).reshape(int(np.prod(shape, dtype=int)), -1)
    made = array([function(list(row)) for row in rows], shape)
    axes = [value.axes[dim] for dim in rest]
    if keep:
        for place in places:
            made = np.expand_dims(made, place)
            axes.insert(place, None)
    return Lanes(made, tuple(axes))


def contracted(steps: Steps, operands: Sequence[tuple[Lanes, str]], out: str, most: int) -> Lanes:
    """Products of two operands, or the elements of one, summed over the labels that `out` lacks.

    Each operand comes with a label for each of its dimensions.
    """
    sizes: dict[str, int] = {}
    axes: dict[str, int | None] = {}
    for value, labels in operands:
        for label, size, axis in zip(labels, value.elements.shape, value.axes, strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
            if axes.get(label) is None:
                axes[label] = axis
            elif axis is not None and axis != axes[label]:
                raise UnsupportedError("dimensions of lanes meet others")
    summed = [label for label in sizes if label not in out]
    if any(axes[label] is not None for label in summed):
        raise UnsupportedError("it sums across lanes")
    if any(axes[label] is not None and sizes[label] > 1 for label in sizes):
        raise UnsupportedError("dimensions of lanes meet others")
    counts = [sizes[label] for label in out], [sizes[label] for label in summed]
    if np.prod([*counts[0], *counts[1]], dtype=float) > most:
        raise UnsupportedError("a lane has too much to compute")
    made: list[Element] = []
    for outer in np.ndindex(*counts[0]):
        total: Element | None = None
        for inner in np.ndindex(*counts[1]):
            at = dict(zip([*out, *summed], [*outer, *inner], strict=True))
            factors = [
                value.elements[
                    tuple(
                        at[label] if value.elements.shape[place] > 1 else 0
                        for place, label in enumerate(labels)
                    )
                ]
                for value, labels in operands
            ]
            total = _plus_product(steps, total, factors)
        made.append(0.0 if total is None else total)
    return Lanes(array(made, counts[0]), tuple(axes[label] for label in out))


def _plus_product(steps: Steps, total: Element | None, factors: Sequence[Element]) -> Element:
    if len(factors) == 1:
        return factors[0] if total is None else steps.add("{0} + {1}", total, factors[0])
    if total is None:
        return steps.add("{0} * {1}", *factors)
    return steps.add("{0} * {1} + {2}", *factors, total)
