"""Exact rewrites of a graph: sums and means move before the linear map whose results they reduce,
poolings become one with the convolution before them.

The mean over a product's columns is a product with the mean of the weights' columns, a matrix times
a vector; that over its rows is the product of the rows' mean; that over the positions of a
convolution is a small product with means of its input. Each is the same function of the inputs by
the rules of arithmetic; rounding differs, as between any two kernels, and the judge decides.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from agent.proposers.recipe.operands import operand
from agent.proposers.recipe.patterns import require, unwrap
from agent.proposers.recipe.rewrites_windows import Attention, Pooling
from agent.proposers.recipe.rewriting import ADDING, Rewriting, ref
from agent.proposers.recipe.windows import TRANSPOSED, numbers, read_convolution
from judge.graph import Graph
from judge.worker import messages as m

# What the rules are called in a proposal's note.
_COLUMNS: Final = "a product's columns are reduced in its weights"
_ROWS: Final = "a product's rows are reduced before it"
_POSITIONS: Final = "a convolution's positions are averaged before it"
_MEAN, _SUM = "aten.mean.dim", "aten.sum.dim_IntList"
_WHOLE: Final = {"aten.mean.default": _MEAN, "aten.sum.default": _SUM}
# Of one element, each of these is that element.
_OF_ONE: Final = frozenset({_MEAN, _SUM, "aten.logsumexp.default", "aten.amax.default",
                            "aten.amin.default"})  # fmt: skip
_PAIRS: Final = ("aten.max.dim", "aten.min.dim")


def rewrite_graph(graph: Graph) -> tuple[Graph, tuple[str, ...]] | None:
    """The graph with reductions moved before linear maps, and which rules were used; None where
    none of them applies."""
    used: list[str] = []
    changed = True
    while changed:
        changed = False
        for name in graph.computed:
            results = (
                kind(graph, name).apply_first_rule() for kind in (_Reduction, Pooling, Attention)
            )
            rewrite = next((result for result in results if result is not None), None)
            if rewrite is not None:
                graph, rule = rewrite
                used += [rule] if rule else []
                changed = True
                break
    return (graph, tuple(dict.fromkeys(used))) if used else None


class _Reduction(Rewriting):
    """A sum, a mean, or a reduction of one element."""

    # Rules: each writes the nodes in place of the reduction, and returns what it is called

    def _single_element(self) -> str:
        """A reduction of dimensions of one element."""
        node = self._node
        if node.op == "getitem":
            require(node.args[1] == 0)
            node = self._graph[unwrap(operand(node))]
            require(node.op in _PAIRS)
        else:
            require(node.op in _OF_ONE)
        x = unwrap(operand(node))
        dims = _dims(node, len(self._shape(x)))
        require(not node.kwargs and bool(dims))
        require(self._graph.dtype(x) == self._graph.dtype(self._node.name))
        require(all(self._shape(x)[dim] == 1 for dim in dims))
        self._emit(x)
        return ""

    def _source(self) -> tuple[m.GraphNode, list[int]]:
        """What a sum or a mean alone reads, and over which of its dimensions."""
        node = self._node
        require(self._op in (_MEAN, _SUM) and not node.kwargs)
        x = unwrap(operand(node))
        dims = _dims(node, len(self._shape(x)))
        require(self._has_one_user(x) and bool(dims) and not self._graph[x].kwargs)
        return self._graph[x], dims

    def _past_affine(self) -> str:
        """What is added or multiplied elementwise comes after the reduction, if a linear map is
        before it."""
        x, dims = self._source()
        place, inner, side = self._affine(x)
        adds, rank = x.op in ADDING, len(self._shape(x.name))
        other: Any = x.args[1 - place]
        if side is None or {*self._along(side, rank, dims)} == {1}:
            require(not (adds and self._sums))
        else:
            # Reduced as well, and added after that.
            shape, whole = self._shape(side), self._shape(x.name)
            require(adds and self._along(side, rank, dims) == [whole[dim] for dim in dims])
            require(math.prod(shape) < math.prod(whole))
            lead = rank - len(shape)
            other = ref(self._add_reduction(side, [dim - lead for dim in dims]))
        args: list[Any] = [ref(self._add_reduction(inner, dims)), other]
        self._emit(self._add(x.op, args[::-1] if place else args, self._out_sizes(x.name, dims)))
        return ""

    def _columns(self) -> str:
        x, dims = self._source()
        last = len(self._shape(x.name)) - 1
        require(last in dims and self._shape(x.name)[last] > 1)
        left, weight, along, bias = self._product(x)
        vector = self._add_reduction(weight, [along])
        # [1, K] as a linear map has it, [K, 1] as a product has.
        name = "aten.matmul.default" if along else "aten.linear.default"
        shape = [*self._shape(x.name)[:-1], 1]
        y = self._add(name, [ref(left), ref(vector)], shape)
        if bias is not None:
            args = [ref(y), ref(self._add_reduction(bias, [0]))]
            y = self._add("aten.add.Tensor", args, shape)
        rest = [dim for dim in dims if dim != last]
        self._emit(self._add_reduction(y, rest) if rest else y)
        return _COLUMNS

    def _rows(self) -> str:
        x, dims = self._source()
        left, _, _, bias = self._product(x)
        require(len(self._shape(x.name)) - 1 not in dims and not (bias is not None and self._sums))
        require(len(self._shape(left)) == len(self._shape(x.name)))
        reduced = ref(self._add_reduction(left, dims))
        args: list[Any] = [*x.args]
        args[x.op == "aten.addmm.default"] = reduced
        self._emit(self._add(x.op, args, self._out_sizes(x.name, dims)))
        return _ROWS

    def _positions(self) -> str:
        """Each tap of the window meets one stretch of the input along each dimension: the results'
        mean is the product of the weights with the means of these."""
        x, dims = self._source()
        transposed = x.op in TRANSPOSED
        tensors, settings, axes = read_convolution(self._graph, x.name, transposed=transposed)
        image, weight, bias = (tensors.get(name) for name in ("x", "weight", "bias"))
        image, weight = unwrap(image), unwrap(weight)
        taps = [*range(2, 2 + axes)]
        require(self._op == _MEAN and dims == taps and len(self._shape(image)) == 2 + axes)
        batch, channels, *sizes = self._shape(image)
        out, window = self._shape(x.name), self._shape(weight)[2:]
        stretches = _stretches(settings, sizes, window, out[2:], transposed=transposed)
        whole = all(
            {*stretch} == {(0, size)} for stretch, size in zip(stretches, sizes, strict=True)
        )
        if whole:
            means = self._add(_MEAN, [ref(image), taps], [batch, channels])
            kernel = self._add(_SUM, [ref(weight), taps], self._shape(weight)[:2])
        else:
            means = image
            for axis in reversed(range(axes)):
                means = self._add_means(means, 2 + axis, stretches[axis])
            count = channels * math.prod(window)
            kernel = weight
            if transposed:  # [in, out, window] as [out, in, window]
                order, swapped = [1, 0, *taps], [out[1], channels, *window]
                kernel = self._add("aten.permute.default", [ref(weight), order], swapped)
            means, kernel = (
                self._add("aten.reshape.default", [ref(tensor), [rows, count]], [rows, count])
                for tensor, rows in ((means, batch), (kernel, out[1]))
            )
        shape = [batch, out[1]]
        by_rows = whole and transposed
        name = "aten.matmul.default" if by_rows else "aten.linear.default"
        y = self._add(name, [ref(means), ref(kernel)], shape)
        share = math.prod(sizes) / math.prod(out[2:])
        y = self._add("aten.mul.Tensor", [ref(y), share], shape)
        if bias is not None:
            y = self._add("aten.add.Tensor", [ref(y), ref(bias)], shape)
        self._emit(y)
        self._sized = True
        return _POSITIONS

    rules: ClassVar = (_single_element, _past_affine, _columns, _rows, _positions)

    # Parts of the rules

    def _add_means(self, x: str, dim: int, stretches: Sequence[tuple[int, int]]) -> str:
        """Sums along `dim` over each stretch, divided by all of its elements; one for each."""
        size = self._shape(x)[dim]
        whole = self._add_reduction(x, [dim], _MEAN)
        shape = self._out_sizes(x, [dim])
        means: dict[tuple[int, int], str] = {}
        for stretch in dict.fromkeys(stretches):
            name = whole
            for first, end in ((0, stretch[0]), (stretch[1], size)):
                if first < end:
                    part = [*self._shape(x)]
                    part[dim] = end - first
                    edge = self._add("aten.slice.Tensor", [ref(x), dim, first, end], part)
                    edge = self._add_reduction(edge, [dim], _SUM)
                    edge = self._add("aten.mul.Tensor", [ref(edge), 1.0 / size], shape)
                    name = self._add("aten.sub.Tensor", [ref(name), ref(edge)], shape)
            means[stretch] = name
        shape[dim] = len(stretches)
        return self._add("aten.cat.default", [[ref(means[span]) for span in stretches], dim], shape)

    @property
    def _op(self) -> str:
        return _WHOLE.get(self._node.op, self._node.op)

    @property
    def _sums(self) -> bool:
        return self._op == _SUM

    def _add_reduction(self, x: str, dims: Sequence[int], op: str = "") -> str:
        return self._add(op or self._op, [ref(x), [*dims], True], self._out_sizes(x, dims))


def _dims(node: m.GraphNode, rank: int) -> list[int]:
    dims: Any = node.args[1] if len(node.args) > 1 else None
    if dims is None or dims == []:
        return [*range(rank)]
    return sorted(int(dim) % rank for dim in (dims if isinstance(dims, list) else [dims]))


def _stretches(
    settings: Mapping[str, Any],
    sizes: Sequence[int],
    window: Sequence[int],
    results: Sequence[int],
    *,
    transposed: bool,
) -> list[list[tuple[int, int]]]:
    """By axis and tap: where the stretch of the input that it meets begins and ends."""
    require(settings["groups"] == 1 and not isinstance(settings["padding"], str))
    by_axis = (numbers(settings[name], len(sizes)) for name in ("stride", "padding", "dilation"))
    stretches: list[list[tuple[int, int]]] = []
    for stride, padding, dilation, size, taps, count in zip(
        *by_axis, sizes, window, results, strict=True
    ):
        require(transposed or stride == 1)
        ranges = []
        for tap in range(taps):
            reach = tap * dilation - padding
            if transposed:  # element i is in result i * stride + reach
                first, last = -(reach // stride), (count - 1 - reach) // stride
            else:  # result i has element i + reach
                first, last = reach, count - 1 + reach
            ranges.append((max(0, first), min(size, last + 1)))
        require(all(first < end for first, end in ranges))
        stretches.append(ranges)
    return stretches
