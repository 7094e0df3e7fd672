"""PyTorch's operators over arrays of expressions: views as NumPy's, arithmetic as steps."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from agent.proposers.recipe import fuse
from agent.proposers.recipe.lanes.elements import (
    Element,
    Lanes,
    UnsupportedError,
    array,
    contracted,
    pointwise,
    reduced,
)  # fmt: skip
from agent.proposers.recipe.lanes.templates import BOTH, EITHER, template_of
from agent.proposers.recipe.lanes.views import Views, number_of
from agent.proposers.recipe.operands import COPIES, base_of, einsum_letters, matmul_letters
from judge.graph import reference
from judge.worker import messages as m

RESHAPES: Final = frozenset({"view", "reshape", "_unsafe_view", "flatten", "unflatten"})
"""Operators that give a tensor other dimensions, by `base_of`."""
_FILLED: Final[Mapping[str, float]] = {"zeros": 0.0, "ones": 1.0, "zeros_like": 0.0,
    "ones_like": 1.0, "new_zeros": 0.0, "new_ones": 1.0}  # fmt: skip
# The number is their last argument.
_GIVEN: Final = frozenset({"full", "full_like", "new_full", "scalar_tensor"})
# Each has a method.
_OPERATORS: Final = frozenset({
    "addmm", "all", "amax", "amin", "any", "bmm", "cat", "chunk", "constant_pad_nd", "copy",
    "cumprod", "cumsum", "dot", "einsum", "expand", "flip", "linalg_cross", "linalg_vector_norm",
    "linear", "log_softmax", "logsumexp", "matmul", "mean", "mm", "mv", "pad", "permute", "prod",
    "select", "select_scatter", "slice", "slice_scatter", "softmax", "split", "split_with_sizes",
    "squeeze", "stack", "std", "sum", "t", "transpose", "unbind", "unfold", "unsqueeze", "var",
})  # fmt: skip
# Beside a dtype.
_NAMED_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "var": ("correction", "keepdim"), "std": ("correction", "keepdim"), "linalg_cross": ("dim",),
}  # fmt: skip
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


class Operators(Views):
    """What operators of a graph are in each lane."""

    def evaluate(self, node: m.GraphNode) -> Lanes | list[Lanes]:
        """The results of an operator whose operands are among the values.

        Raises
        ------
        UnsupportedError
            Lanes cannot compute it by themselves.
        """
        value = self._evaluate(node)
        results = value if isinstance(value, list) else [value]
        for result, tensor in zip(results, node.tensors, strict=True):
            sizes = self._sizes_of(result)
            if sizes != list(tensor.shape) or result.elements.size > self._most:
                raise UnsupportedError("an operator of another form, or too much of it")
        return value

    def _sizes_of(self, value: Lanes) -> list[int]:
        """Of the tensor's dimensions."""
        return self._own_sizes(value)

    def _evaluate(self, node: m.GraphNode) -> Lanes | list[Lanes]:
        base = base_of(node.op)
        if node.op == "getitem":
            source = self.values[cast("str", reference(node.args[0]))]
            if not isinstance(source, list):
                raise UnsupportedError("one of several values")
            return source[cast("int", node.args[1])]
        made = self._made(node, base)
        if made is not None:
            return made
        template = template_of(node)
        if template is not None:
            return self._pointwise(template, [self._operand(arg) for arg in node.args])
        if base in COPIES and not node.kwargs:
            return self._operand(node.args[0])
        if base in RESHAPES:
            return self._reshape(self._operand(node.args[0]), self._shape(node))
        known = {"dtype", *_NAMED_ARGUMENTS.get(base, ())}
        if base not in _OPERATORS or not node.kwargs.keys() <= known:
            raise UnsupportedError(f"{base} is no operator of lanes")
        method = getattr(self, f"_{base}")
        try:
            inspect.signature(method).bind(node, *node.args)
        except TypeError:
            raise UnsupportedError("an overload with other arguments") from None
        return cast("Lanes | list[Lanes]", method(node, *node.args))

    def _pointwise(self, template: str, operands: Sequence[Lanes]) -> Lanes:
        return pointwise(self._steps, template, operands)

    # What is made

    def _made(self, node: m.GraphNode, base: str) -> Lanes | None:
        """A tensor of the same number everywhere, or of the first integers."""
        filling = _FILLED.get(base, node.args[-1] if base in _GIVEN and node.args else None)
        is_range = node.op == "aten.arange.default"
        if filling is None and not is_range:
            return None
        axes = self.axes_of(self._shape(node))
        shape = [1 if a is not None else s for s, a in zip(self._shape(node), axes, strict=True)]
        if math.prod(shape) > self._most or (is_range and axes != (None,)):
            raise UnsupportedError("numbers of lanes, or too many")
        value = (
            [float(i) for i in range(*shape)]
            if is_range
            else [number_of(filling)] * math.prod(shape)
        )
        return Lanes(array(value, shape), axes)

    # Reductions over small dimensions

    def _reduce(
        self, x: Any, dims: Any, keep: Any, function: Callable[[list[Element]], Element]
    ) -> Lanes:
        value = self._operand(x)
        places = range(value.rank) if dims in (None, []) else dims
        places = [places] if isinstance(places, int) else places
        return self._reduced(value, places, bool(keep), function)

    def _reduced(
        self,
        value: Lanes,
        dims: Sequence[int],
        keep: bool,
        function: Callable[[list[Element]], Element],
    ) -> Lanes:
        return reduced(value, dims, keep, function)

    def _across(self, _kind: str, element: Element) -> Element:
        """What was reduced over small dimensions, over those of lanes that are reduced as well."""
        return element

    def _divided(self, total: Element, count: int, correction: float) -> Element:
        """A sum of `count` elements of each lane over their number less a correction."""
        if not correction:
            return self._steps.add("{0} * {1}", total, 1.0 / count)
        return self._steps.add("{0} / {1}", total, max(count - correction, 0.0))

    def _fold(self, template: str) -> Callable[[list[Element]], Element]:
        def fold(row: list[Element]) -> Element:
            total = row[0]
            for element in row[1:]:
                total = self._steps.add(template, total, element)
            return total

        return fold

    def _folded(self, template: str, kind: str) -> Callable[[list[Element]], Element]:
        fold = self._fold(template)
        return lambda row: self._across(kind, fold(row))

    def _total(self, row: list[Element]) -> Element:
        return self._across("sum", self._fold("{0} + {1}")(row))

    def _mean_of(self, row: list[Element]) -> Element:
        return self._divided(self._total(row), len(row), 0.0)

    def _variance_of(self, row: list[Element], correction: float) -> Element:
        mean = self._mean_of(row)
        squares = [self._steps.add("({0} - {1}) * ({0} - {1})", each, mean) for each in row]
        return self._divided(self._total(squares), len(row), correction)

    def _top(self, row: list[Element]) -> Element:
        """What exponents are taken from: the largest element, where it is finite."""
        top = self._across("max", self._fold("tl.maximum({0}, {1})")(row))
        return self._steps.add('tl.where(tl.abs({0}) < float("inf"), {0}, 0.0)', top)

    def _log_sum_exp(self, row: list[Element]) -> Element:
        top = self._top(row)
        powers = [self._steps.add("tl.exp({0} - {1})", each, top) for each in row]
        return self._steps.add("tl.log({0}) + {1}", self._total(powers), top)

    def _sum(self, _: m.GraphNode, x: Any, dims: Any = None, keep: Any = False) -> Lanes:
        return self._reduce(x, dims, keep, self._total)

    def _mean(self, _: m.GraphNode, x: Any, dims: Any = None, keep: Any = False) -> Lanes:
        return self._reduce(x, dims, keep, self._mean_of)

    def _prod(self, _: m.GraphNode, x: Any, dims: Any = None, keep: Any = False) -> Lanes:
        return self._reduce(x, dims, keep, self._folded("{0} * {1}", "prod"))

    def _amax(self, _: m.GraphNode, x: Any, dims: Any = None, keep: Any = False) -> Lanes:
        return self._reduce(x, dims, keep, self._folded(fuse.MAXIMUM, "max"))

    def _amin(self, _: m.GraphNode, x: Any, dims: Any = None, keep: Any = False) -> Lanes:
        return self._reduce(x, dims, keep, self._folded(fuse.MINIMUM, "min"))

    def _any(self, _: m.GraphNode, x: Any, dims: Any = None, keep: Any = False) -> Lanes:
        return self._reduce(x, dims, keep, self._folded(EITHER, "max"))

    def _all(self, _: m.GraphNode, x: Any, dims: Any = None, keep: Any = False) -> Lanes:
        return self._reduce(x, dims, keep, self._folded(BOTH, "min"))

    def _logsumexp(self, _: m.GraphNode, x: Any, dims: Any, keep: Any = False) -> Lanes:
        return self._reduce(x, dims, keep, self._log_sum_exp)

    def _var(self, node: m.GraphNode, x: Any, dims: Any = None, *more: Any) -> Lanes:
        correction: Any = node.kwargs.get("correction", 1 if not more or more[0] is True else 0)
        keep = node.kwargs.get("keepdim", more[1] if len(more) > 1 else False)
        return self._reduce(x, dims, keep, lambda row: self._variance_of(row, correction or 0))

    def _std(self, node: m.GraphNode, x: Any, dims: Any = None, *more: Any) -> Lanes:
        variance = self._var(node, x, dims, *more)
        return self._pointwise("tl.sqrt({0})", [variance])

    def _linalg_vector_norm(
        self, _: m.GraphNode, x: Any, order: Any = 2, dims: Any = None, keep: Any = False
    ) -> Lanes:
        if order != 2:
            raise UnsupportedError("a norm of another order")

        def norm(row: list[Element]) -> Element:
            squares = [self._steps.add("{0} * {0}", each) for each in row]
            return self._steps.add("tl.sqrt({0})", self._total(squares))

        return self._reduce(x, dims, keep, norm)

    def _softmax(self, _: m.GraphNode, x: Any, dim: int, *_dtype: Any) -> Lanes:
        powers = self._pointwise("tl.exp({0})", [self._below_top(x, dim)])
        total = self._reduced(powers, [dim], True, self._total)
        return self._pointwise("{0} / {1}", [powers, total])

    def _log_softmax(self, _: m.GraphNode, x: Any, dim: int, *_dtype: Any) -> Lanes:
        below = self._below_top(x, dim)
        powers = self._pointwise("tl.exp({0})", [below])
        total = self._reduced(powers, [dim], True, self._total)
        return self._pointwise("{0} - tl.log({1})", [below, total])

    def _below_top(self, x: Any, dim: int) -> Lanes:
        """Less the largest element; large ones would take the sum's digits otherwise."""
        top = self._reduce(x, [dim], True, self._top)
        return self._pointwise("{0} - {1}", [self._operand(x), top])

    def _cumsum(self, _: m.GraphNode, x: Any, dim: int) -> Lanes:
        return self._scan(x, dim, "{0} + {1}")

    def _cumprod(self, _: m.GraphNode, x: Any, dim: int) -> Lanes:
        return self._scan(x, dim, "{0} * {1}")

    def _scan(self, x: Any, dim: int, template: str) -> Lanes:
        value = self._operand(x)
        place = value.small(dim)
        elements = value.elements.copy()
        rows = np.moveaxis(elements, place, 0)
        for row in range(1, rows.shape[0]):
            for at in np.ndindex(*rows.shape[1:]):
                rows[(row, *at)] = self._steps.add(template, rows[(row - 1, *at)], rows[(row, *at)])
        return Lanes(elements, value.axes)

    def _linalg_cross(self, node: m.GraphNode, x: Any, y: Any, *dims: Any) -> Lanes:
        dim: Any = node.kwargs.get("dim", dims[0] if dims else -1)
        rank = len(self._shape(node))
        place = dim % rank
        parts = []
        for first, second in ((1, 2), (2, 0), (0, 1)):
            factors = [
                self._select(node, factor, place - rank, index)
                for factor, index in ((x, first), (y, second), (x, second), (y, first))
            ]
            parts.append(pointwise(self._steps, "{0} * {1} - {2} * {3}", factors))
        axes = [*parts[0].axes[:place], None, *parts[0].axes[place:]]
        return Lanes(np.stack([part.elements for part in parts], place), tuple(axes))

    # Products

    def _matmul(self, _: m.GraphNode, x: Any, y: Any) -> Lanes:
        a, b = self._operand(x), self._operand(y)
        (left, right), out = matmul_letters(a.rank, b.rank)
        return self._contract([(a, left), (b, right)], out)

    _mm = _bmm = _mv = _dot = _matmul

    def _linear(self, _: m.GraphNode, x: Any, weight: Any, bias: Any = None) -> Lanes:
        a = self._operand(x)
        lead = _LETTERS[: a.rank - 1]
        made = self._contract([(a, lead + "y"), (self._operand(weight), "zy")], lead + "z")
        if bias is None:
            return made
        return pointwise(self._steps, "{0} + {1}", [made, self._operand(bias)])

    def _addmm(self, node: m.GraphNode, bias: Any, x: Any, y: Any) -> Lanes:
        if node.kwargs:
            raise UnsupportedError("a scaled product")
        return pointwise(self._steps, "{0} + {1}", [self._matmul(node, x, y), self._operand(bias)])

    def _einsum(self, _: m.GraphNode, text: str, parts: Sequence[Any], *_path: Any) -> Lanes:
        letters = einsum_letters(text)
        if letters is None:
            raise UnsupportedError("an einsum of another form")
        labels, out = letters
        rest = [(self._operand(part), each) for part, each in zip(parts, labels, strict=True)]
        while len(rest) > 2:  # the first two, with what the others need
            later = {*out}.union(*(each for _, each in rest[2:]))
            kept = "".join(dict.fromkeys(x for _, each in rest[:2] for x in each if x in later))
            rest = [(self._contract(rest[:2], kept), kept), *rest[2:]]
        return self._contract(rest, out)

    def _contract(self, operands: Sequence[tuple[Lanes, str]], out: str) -> Lanes:
        return contracted(self._steps, operands, out, self._most)
