"""Exact rewrites of poolings after linear maps over windows, and of attention with wide heads."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from agent.proposers.recipe.attention import WIDEST_HEAD
from agent.proposers.recipe.operands import operand
from agent.proposers.recipe.patterns import require, unwrap
from agent.proposers.recipe.rewriting import Rewriting, ref
from agent.proposers.recipe.windows import POOLS, numbers, read_convolution, read_pooling
from judge.worker import messages as m

_MERGED: Final = "two poolings are one"
_POOLED: Final = "a convolution and the average pooling after it are one convolution"
_UNSTRIDED: Final = "a transposed convolution and the average pooling after it are one convolution"
_COLUMNS: Final = "a product's columns are averaged in its weights"
_WIDE: Final = "attention with wide heads as two products and a softmax"


class Pooling(Rewriting):
    """A pooling whose windows are side by side, and whole."""

    def _merge(self) -> str:
        """Pooling of poolings."""
        source, window = self._pooling(self._node)
        require(self._graph[source].op == self._node.op)
        inner, first = self._pooling(self._graph[source])
        both = [one * other for one, other in zip(window, first, strict=True)]
        self._emit(self._add(self._node.op, [ref(inner), both, both], self._out_shape))
        return _MERGED

    def _past_affine(self) -> str:
        """What is added to or multiplied with all elements of a channel comes after the pooling."""
        source, window = self._average()
        x = self._graph[source]
        place, inner, side = self._affine(x)
        spatial = range(2, 2 + len(window))
        require(side is None or {*self._along(side, 2 + len(window), spatial)} == {1})
        pooled = self._add(self._node.op, [ref(inner), window, window], self._out_shape)
        args: list[Any] = [ref(pooled), x.args[1 - place]]
        self._emit(self._add(x.op, args[::-1] if place else args, self._out_shape))
        return ""

    def _columns(self) -> str:
        """Averages of neighbouring columns of a product are columns of the product with averaged
        weights."""
        source, window = self._average()
        require(len(window) == 1)
        node = self._graph[source]
        unsqueezed = node.op == "aten.unsqueeze.default" and node.args[1] in (1, -2)
        if unsqueezed:
            source = unwrap(operand(node))
            require(self._has_one_user(source) and len(self._shape(source)) == 2)
        left, weight, along, bias = self._product(self._graph[source])
        inner, columns = self._shape(weight)[1 - along], self._out_shape[-1]
        if along == 0:
            transposed = [inner, self._shape(weight)[0]]
            weight = self._add("aten.permute.default", [ref(weight), [1, 0]], transposed)
        name = self._node.op
        weight = self._add(name, [ref(weight), window, window], [inner, columns])
        shape = [*self._shape(source)[:-1], columns]
        y = self._add("aten.matmul.default", [ref(left), ref(weight)], shape)
        if bias is not None:
            row = self._add("aten.unsqueeze.default", [ref(bias), 0], [1, *self._shape(bias)])
            row = self._add(name, [ref(row), window, window], [1, columns])
            y = self._add("aten.add.Tensor", [ref(y), ref(row)], shape)
        if unsqueezed:
            y = self._add("aten.unsqueeze.default", [ref(y), 1], self._out_shape)
        self._emit(y)
        return _COLUMNS

    def _after_convolution(self) -> str:
        """The window is as much longer as the pooling reaches, and its weights are sums of
        neighbouring ones: fewer products, and the results between are not made."""
        source, window = self._average()
        tensors, settings, axes = read_convolution(self._graph, source, transposed=False)
        require({*numbers(settings["stride"], axes), *numbers(settings["dilation"], axes)} == {1})
        require(not isinstance(settings["padding"], str))
        weight = tensors["weight"]
        taps = self._shape(weight)[2:]
        longer = [tap + reach - 1 for tap, reach in zip(taps, window, strict=True)]
        require(math.prod(longer) < math.prod(taps) * math.prod(window))
        kernel = self._averaged_weights(weight, window)
        arguments = [window, numbers(settings["padding"], axes), [1] * axes, settings["groups"]]
        self._emit(self._add_convolution(tensors, tensors["x"], kernel, arguments))
        return _POOLED

    def _after_transposed(self) -> str:
        """With a stride as long as the pooling's window each result meets a few elements, all at
        the same places of the window: a convolution without stride."""
        source, window = self._average()
        tensors, settings, axes = read_convolution(self._graph, source, transposed=True)
        require(numbers(settings["stride"], axes) == window and settings["groups"] == 1)
        require({*numbers(settings["dilation"], axes)} == {1})
        padding = numbers(settings["padding"], axes)
        x, weight = tensors["x"], tensors["weight"]
        inputs, outputs, *taps = self._shape(weight)
        # [in, out, window] as [out, in, window]
        order, shape = [1, 0, *range(2, 2 + axes)], [outputs, inputs, *taps]
        kernel = self._averaged_weights(
            self._add("aten.permute.default", [ref(weight), order], shape), window
        )
        before: list[int] = []
        after: list[int] = []
        for axis, step in enumerate(window):
            first = -((taps[axis] - 1 - padding[axis]) // step)
            last = (padding[axis] + step - 1) // step
            before.append(-first)
            after.append(self._out_shape[2 + axis] - self._shape(x)[2 + axis] + last)
            # Of the window's weights, counted from -(step - 1) on, weight t is that of element
            # (padding - t) / step.
            start, end = (padding[axis] - offset * step + step - 1 for offset in (last, first))
            cut = [*self._shape(kernel)]
            cut[2 + axis] = last - first + 1
            sliced = [ref(kernel), 2 + axis, start, end + 1, step]
            kernel = self._add("aten.slice.Tensor", sliced, cut)
        require(min(*before, *after) >= 0)
        kernel = self._add(
            "aten.flip.default", [ref(kernel), [*range(2, 2 + axes)]], self._shape(kernel)
        )
        sides = before
        if before != after:
            sizes = zip(self._shape(x)[2:], before, after, strict=True)
            padded = [*self._shape(x)[:2], *(sum(size) for size in sizes)]
            pairs = zip(reversed(before), reversed(after), strict=True)
            pads = [pad for pair in pairs for pad in pair]
            x = self._add("aten.constant_pad_nd.default", [ref(x), pads, 0], padded)
            sides = [0] * axes
        self._emit(self._add_convolution(tensors, x, kernel, [[1] * axes, sides]))
        return _UNSTRIDED

    rules: ClassVar = (_merge, _past_affine, _columns, _after_convolution, _after_transposed)

    @property
    def _out_shape(self) -> tuple[int, ...]:
        return self._graph.shape(self._node.name)

    def _pooling(self, node: m.GraphNode) -> tuple[str, list[int]]:
        """What a pooling alone reads, and its window."""
        family, axes = unwrap(POOLS.get(node.op))
        source, settings = read_pooling(node, family)
        window = numbers(settings["kernel_size"], axes)
        require(numbers(settings["stride"], axes) == window and settings["ceil_mode"] is False)
        require({*numbers(settings["padding"], axes)} == {0})
        require({*numbers(settings.get("dilation", 1), axes)} == {1})
        require(settings.get("count_include_pad", True) is True)
        require(settings.get("divisor_override") is None and self._has_one_user(source))
        return source, window

    def _average(self) -> tuple[str, list[int]]:
        """The same of an average pooling of a batch of images."""
        source, window = self._pooling(self._node)
        require(POOLS[self._node.op][0] == "avg-pool")
        require(len(self._graph.shape(source)) == 2 + len(window))
        return source, window

    def _add_convolution(
        self, tensors: Mapping[str, str], x: str, kernel: str, settings: Sequence[Any]
    ) -> str:
        bias = ref(tensors["bias"]) if "bias" in tensors else None
        name = f"aten.conv{len(self._out_shape) - 2}d.default"
        return self._add(name, [ref(x), ref(kernel), bias, *settings], self._out_shape)

    def _averaged_weights(self, weight: str, window: list[int]) -> str:
        """Weights averaged over every window that meets one of them."""
        axes = len(window)
        shape = [*self._shape(weight)]
        pads: list[int] = []
        for axis in reversed(range(axes)):
            pads += [window[axis] - 1] * 2
            shape[2 + axis] += 2 * (window[axis] - 1)
        padded = self._add("aten.constant_pad_nd.default", [ref(weight), pads, 0], shape)
        shape = [*shape[:2], *(shape[2 + axis] - window[axis] + 1 for axis in range(axes))]
        pooled = [ref(padded), window, [1] * axes]
        return self._add(f"aten.avg_pool{axes}d.default", pooled, shape)


class Attention(Rewriting):
    """Scaled dot product attention."""

    def _wide(self) -> str:
        node = self._node
        require(node.op == "aten.scaled_dot_product_attention.default" and not node.kwargs)
        require([*node.args[3:]] in ([], [None], [None, 0.0], [None, 0.0, False]))
        q, k, v = (unwrap(operand(node, place)) for place in range(3))
        *lead, queries, width = self._shape(q)
        keys = self._shape(k)[-2]
        require(width > WIDEST_HEAD and self._shape(k)[:-2] == self._shape(v)[:-2] == (*lead,))
        swapped = self._add("aten.transpose.int", [ref(k), -2, -1], [*lead, width, keys])
        score_shape = [*lead, queries, keys]
        scores = self._add("aten.matmul.default", [ref(q), ref(swapped)], score_shape)
        # Rounded to 16 bits, large scores would be off by too much.
        short = self._graph.dtype(node.name) in ("float16", "bfloat16")
        scores = self._cast(scores, "float32") if short else scores
        factor, dtype = 1.0 / math.sqrt(width), "float32" if short else ""
        scores = self._add("aten.mul.Tensor", [ref(scores), factor], score_shape, dtype)
        weights = self._add("aten.softmax.int", [ref(scores), -1], score_shape, dtype)
        weights = self._cast(weights, self._graph.dtype(node.name)) if short else weights
        shape = self._graph.shape(node.name)
        self._emit(self._add("aten.matmul.default", [ref(weights), ref(v)], shape))
        self._sized = True
        return _WIDE

    rules: ClassVar = (_wide,)

    def _cast(self, x: str, dtype: str) -> str:
        shape = self._shape(x)
        return self._add(
            "aten._to_copy.default", [ref(x)], shape, dtype, {"dtype": {"torch": dtype}}
        )
