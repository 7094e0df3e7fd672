"""What a kernel computes for each pair of a query and a key: products, loads, and steps on them.

A score has axes, numbered as the dimensions of the scores in PyTorch; keys are along the last one.
A value within the kernel has some of these axes, and is repeated along the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from agent.proposers.recipe import fuse
from agent.proposers.recipe.lanes.templates import template_of
from agent.proposers.recipe.operands import COPIES, base_of, operand
from agent.proposers.recipe.patterns import NoMatchError, require, unwrap
from agent.proposers.recipe.scores.reading import (
    INTEGERS,
    LOW,
    PRODUCTS,
    READABLE,
    SHAPED,
    WIDTH,
    Axes,
    Read,
    contraction,
    permutation,
    read,
)  # fmt: skip
from judge.graph import Graph, operands, reference

# Operators whose expression holds for integers as well.
_ON_INTEGERS: Final = frozenset({
    "_to_copy", "abs", "add", "clamp", "clamp_max", "clamp_min", "eq", "ge", "gt", "le", "lt",
    "masked_fill", "maximum", "minimum", "mul", "ne", "neg", "rsub", "sub", "where",
})  # fmt: skip
# A larger expression is none of scores, and a deeper one would take too many calls to follow.
_MOST_VALUES: Final = 200
_DEEPEST: Final = 100


@dataclass(frozen=True)
class Product:
    """A sum over one dimension of two tensors."""

    rows: Read
    keys: Read


@dataclass(frozen=True)
class Index:
    """The place along an axis."""

    axis: int


@dataclass(frozen=True)
class Step:
    """An expression of values, by their numbers (int), and of plain numbers (float)."""

    template: str
    args: tuple["int | float", ...]


Value = Read | Product | Index | Step


@dataclass
class Values:
    """Values of a kernel, in order, of a graph whose scores have these sizes."""

    graph: Graph
    sizes: tuple[int, ...]
    found: list[Value] = field(default_factory=list)
    inside: set[str] = field(default_factory=set)
    """Values of the graph that are computed in the kernel from products."""
    _numbers: dict[tuple[str, Axes], int] = field(default_factory=dict)
    _depth: int = 0

    def add(self, value: Value) -> int:
        """A value's number; the same for the same value."""
        if value in self.found:
            return self.found.index(value)
        require(len(self.found) < _MOST_VALUES)
        self.found.append(value)
        return len(self.found) - 1

    def needed(self, number: int | None) -> list[int]:
        """Values that one is made of, and itself, in order."""
        parts = set() if number is None else {number}
        for place in range(number or 0, -1, -1):
            value = self.found[place]
            if place in parts and isinstance(value, Step):
                parts.update(arg for arg in value.args if isinstance(arg, int))
        return sorted(parts)

    def axes(self, number: int) -> set[int]:
        """The axes that a value has."""
        found: set[int] = set()
        for value in (self.found[part] for part in self.needed(number)):
            match value:
                case Read():
                    found |= value.along
                case Product(rows=rows, keys=keys):
                    found |= rows.along | keys.along
                case Index(axis=axis):
                    found.add(axis)
        return found - {WIDTH}

    def whole(self, name: str) -> int:
        """The number of a value that has the scores' shape, or can be broadcast to it."""
        rank = len(self.graph.shape(name))
        require(rank <= len(self.sizes))
        return self.of(name, tuple(range(len(self.sizes) - rank, len(self.sizes))))

    def of(self, name: str, axes: Axes) -> int:
        """The number of a value of the graph whose dimensions lie along these axes.

        Raises
        ------
        NoMatchError
            It depends on scores in a way that the kernel cannot compute.
        """
        shape = self.graph.shape(name)
        axes = tuple(None if size == 1 else a for size, a in zip(shape, axes, strict=True))
        key = name, axes
        if key not in self._numbers:
            self._depth += 1
            try:
                self._numbers[key] = self._of(name, axes)
            finally:
                self._depth -= 1
        return self._numbers[key]

    def _of(self, name: str, axes: Axes) -> int:
        scored = name in self._scored
        try:
            require(self._depth < _DEEPEST)
            number = self._computed(name, axes)
        except NoMatchError:
            require(not scored)
            return self.add(read(self.graph, name, axes, self.sizes))
        if scored:
            self.inside.add(name)
        return number

    @cached_property
    def _scored(self) -> set[str]:
        """Values that are made of products with all axes of the scores."""
        scored: set[str] = set()
        for name, node in self.graph.nodes.items():
            if _is_product(node.op):
                is_scored = self.graph.shape(name) == self.sizes
            else:
                is_scored = not scored.isdisjoint(operands(node))
            if is_scored:
                scored.add(name)
        return scored

    def _computed(self, name: str, axes: Axes) -> int:
        """The number of a value that the kernel computes."""
        node = self.graph[name]
        if name in self._scored and _is_product(node.op):
            return self._product(name, axes)
        if node.op == "aten.arange.default":
            require(len(node.args) == 1 and axes[0] is not None)
            return self.add(Index(unwrap(axes[0])))
        viewed = self._viewed(name, axes)
        if viewed is not None:
            return self.of(*viewed)
        template = template_of(node)
        require(template is not None and self._is_exact(name))
        args: list[int | float] = []
        for arg in node.args:
            part = reference(arg)
            if part is None:
                args.append(float(unwrap(fuse.number(arg))))
            else:
                args.append(self.of(part, axes[len(axes) - len(self.graph.shape(part)) :]))
        return self.add(Step(unwrap(template), tuple(args)))

    def _viewed(self, name: str, axes: Axes) -> tuple[str, Axes] | None:
        """Of what a value is a view, and along which axes that lies; None where it is none."""
        node = self.graph[name]
        base, source = base_of(node.op), operand(node)
        if source is None:
            return None
        rank = len(self.graph.shape(source))
        if base in COPIES:
            return source, axes
        if base in SHAPED:
            shapes = self.graph.shape(source), self.graph.shape(name)
            return source, _without_ones(*shapes, axes)
        if base == "expand":
            return source, axes[len(axes) - rank :]
        order = permutation(self.graph, name)
        return None if order is None else (source, tuple(axes[order.index(i)] for i in range(rank)))

    def _is_exact(self, name: str) -> bool:
        """Whether the expression of an operator holds for the dtypes at hand."""
        node, dtype = self.graph[name], self.graph.dtype(name)
        base = base_of(node.op)
        made_of = {self.graph.dtype(part) for part in operands(node)}
        if base == "_to_copy":  # not to fewer values: a mask, whole numbers
            if dtype in INTEGERS:
                return dtype in {*made_of, "int64"} and made_of <= INTEGERS
            return dtype in made_of | {"float32"} or (dtype in LOW and "float32" in made_of)
        return made_of <= READABLE and (base in _ON_INTEGERS or not made_of & INTEGERS)

    def _product(self, name: str, axes: Axes) -> int:
        found = contraction(self.graph, name)
        by_letter = dict(zip(found.out, axes, strict=True))
        last = len(self.sizes) - 1
        sides = [side for side in (0, 1) if last in {by_letter.get(x) for x in found.letters[side]}]
        require(len(sides) == 1)
        parts = [
            read(
                self.graph,
                part,
                [by_letter.get(letter, WIDTH) for letter in letters],
                self.sizes,
            )
            for part, letters in zip(found.parts, found.letters, strict=True)
        ]
        keys, rows = parts[sides[0]], parts[1 - sides[0]]
        return self.add(Product(rows, keys))


@dataclass(frozen=True)
class Attention:
    """Scores, what is made of them, and in which order results lie."""

    values: Values
    score: int
    """Number of the scores among the values."""
    of_values: Read
    """What the weights are multiplied with."""
    out: Axes
    out_dtype: str
    hidden: int | None = None
    """Number of a condition: where it is not zero, a score is minus infinity."""
    sink: int | None = None
    """Number of one more score for each query, which has no value."""
    by_logs: bool = False
    """Whether weights are exponentials of scores less the logarithm of their sum as it is rounded:
    where parts are merged by these logarithms, their errors cancel."""
    has_empty_rows: bool = False
    """Whether a query all of whose scores are hidden has zeros as its result, not NaN."""
    is_exact: bool = False
    """Whether weights are multiplied in float32, although values may be narrower."""

    def needed(self) -> list[int]:
        """Numbers of the values that the kernel computes, in order."""
        parts = [self.values.needed(each) for each in (self.score, self.hidden, self.sink)]
        return sorted({number for numbers in parts for number in numbers})

    def products(self) -> dict[int, Product]:
        """The products among these, by number."""
        values = {number: self.values.found[number] for number in self.needed()}
        return {number: value for number, value in values.items() if isinstance(value, Product)}

    def reads(self) -> list[Read]:
        """The tensors that the kernel reads, each once; tables of pages come last."""
        found: list[Read] = []
        for value in (self.values.found[number] for number in self.needed()):
            match value:
                case Product(rows=rows, keys=keys):
                    found += [rows, keys]
                case Read():
                    found.append(value)
        found.append(self.of_values)
        return list(dict.fromkeys([*found, *(read.table for read in found if read.table)]))


def _is_product(operator: str) -> bool:
    return operator == "aten.einsum.default" or operator in PRODUCTS


def _without_ones(source: Sequence[int], shape: Sequence[int], axes: Axes) -> Axes:
    """Axes of what a view is of, where it has the same dimensions but for those of one element."""
    large = [axis for size, axis in zip(shape, axes, strict=True) if size != 1]
    require([size for size in source if size != 1] == [size for size in shape if size != 1])
    pending = iter(large)
    return tuple(None if size == 1 else next(pending) for size in source)
