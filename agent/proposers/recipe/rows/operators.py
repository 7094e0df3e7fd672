"""PyTorch's operators over blocks of rows: as over lanes, and reductions along and across rows.

The last dimension of the lanes are the *columns*: a program has all of them, for some rows. An
element of a value is then a block [rows, columns], [rows, 1], [1, columns] or [1, 1] in Triton.
A dimension of a tensor may be several of such an array: 7,168 columns are 56 times 128 where scales
are shared by 128 neighbours.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from agent.proposers.recipe import fuse
from agent.proposers.recipe.lanes.elements import (
    Element,
    Lanes,
    Load,
    Ref,
    Steps,
    UnsupportedError,
    aligned,
    array,
    constant,
    pointwise,
    reduced,
)  # fmt: skip
from agent.proposers.recipe.lanes.operators import RESHAPES
from agent.proposers.recipe.lanes.templates import template_of
from agent.proposers.recipe.lanes.views import number_of
from agent.proposers.recipe.operands import base_of
from agent.proposers.recipe.rows.views import ALONG, COLUMN, RUNNING, RowViews, grouped, spans_of
from judge.graph import Graph, operands, reference
from judge.worker import messages as m

INTEGERS: Final = frozenset({"int8", "uint8", "int16", "int32", "int64"})
ACROSS: Final[Mapping[str, str]] = {kind: f"{kind} of rows: {{0}}" for kind in ALONG}
"""Reductions over all rows: what each program has found of them is a result of the kernel."""
EXPONENTIALS: Final = ("tl.exp({0} - {1})", "{0} - {1}", "tl.exp({0})")
FINITE: Final = 'tl.where(tl.abs({0}) < float("inf"), {0}, 0.0)'
"""What exponents are taken from, of the largest element."""
# To the nearest, halves to even: what is added leaves no bits for a fraction.
_ROUNDED: Final = "tl.where(tl.abs({0}) < 4194304.0, ({0} + 12582912.0) - 12582912.0, {0})"
_EIGHT_BITS: Final[Mapping[str, str]] = {
    "float8_e4m3fn": "tl.float8e4nv", "float8_e5m2": "tl.float8e5", "int8": "tl.int8",
    "uint8": "tl.uint8", "int16": "tl.int16",
}  # fmt: skip
# How many arguments operators have whose forms are looked at.
_ARGUMENTS: Final[Mapping[str, tuple[int, ...]]] = {
    "gather": (3, 4), "scatter": (4,), "scatter_add": (4,), "index_put": (3, 4), "cumsum": (2,),
    "layer_norm": (2, 3, 4, 5, 6), "rms_norm": (2, 3, 4),
}  # fmt: skip
_ON_INTEGERS: Final[Mapping[str, str]] = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "neg": "-{0}",
    "abs": "tl.abs({0})", "maximum": "tl.maximum({0}, {1})", "minimum": "tl.minimum({0}, {1})",
    "clamp_min": "tl.maximum({0}, {1})", "clamp_max": "tl.minimum({0}, {1})",
    "clamp": "tl.minimum(tl.maximum({0}, {1}), {2})", "where": "tl.where({0} != 0.0, {1}, {2})",
    "masked_fill": "tl.where({1} != 0.0, {2}, {0})", "bitwise_and": "{0} & {1}",
    "bitwise_or": "{0} | {1}", "bitwise_xor": "{0} ^ {1}", "__and__": "{0} & {1}",
    "__or__": "{0} | {1}", "__lshift__": "{0} << {1}", "__rshift__": "{0} >> {1}",
    "bitwise_left_shift": "{0} << {1}", "bitwise_right_shift": "{0} >> {1}",
}  # fmt: skip


class RowOperators(RowViews):
    """What operators of a graph are in each block of rows."""

    def __init__(self, graph: Graph, steps: Steps, sizes: Sequence[int], most: int) -> None:
        super().__init__(graph, steps, sizes, most)
        self._along = self._of_rows = False
        """Whether what is reduced are columns, and rows."""

    # Operators

    def _evaluate(self, node: m.GraphNode) -> Lanes | list[Lanes]:
        base = base_of(node.op)
        made = self._own_form(node, base)
        if made is not None:
            return made
        if len(node.tensors) == 1:
            template = self._template(node, base)
            if template is not None:
                return self._pointwise(template, [self._argument(node, arg) for arg in node.args])
        value = super()._evaluate(node)
        if not isinstance(value, list) and node.tensors[0].dtype in INTEGERS:
            return self._as_integers(value)
        return value

    def _own_form(self, node: m.GraphNode, base: str) -> Lanes | list[Lanes] | None:
        """What operators are that lanes do not have, or have in another way."""
        made: Lanes | list[Lanes] | None = None
        args: list[Any] = node.args
        if base in RESHAPES or base == "squeeze":
            made = self._reshape(self._own(args[0]), self._shape(node))
        elif node.op == "aten.bucketize.Tensor":
            made = self._bucketize(node)
        elif node.op == "aten.aminmax.default":
            made = self._extremes(node)
        elif node.kwargs or len(args) not in _ARGUMENTS.get(base, (len(args),)):
            return None
        elif base in {"slice", "chunk", "split", "split_with_sizes", "cat"}:
            made = self._along_columns(node, base)
        elif base == "layer_norm":
            made = self._layer_norm(*args)
        elif base == "rms_norm":
            made = self._rms_norm(*args)
        elif base == "gather":
            made = self._gather(*args[:3])
        elif base in {"scatter", "scatter_add"}:
            made = self._scatter(node, *args)
        elif base == "index_put":
            made = self._put(node, *args)
        elif base == "cumsum":
            made = self._running(node)
        elif node.op == "aten.round.default":
            made = self._pointwise(_ROUNDED, [self._own(args[0])])
        return made

    def _made(self, node: m.GraphNode, base: str) -> Lanes | None:
        if node.op == "aten.arange.default" and len(node.args) == 1:
            axes = self.axes_of(self._shape(node))
            if axes[0] is not None:
                name = COLUMN if axes[0] == self._columns else f"lane_{axes[0]}"
                return Lanes(array([self._steps.add(name)], (1,)), axes)
        return super()._made(node, base)

    def _template(self, node: m.GraphNode, base: str) -> str | None:
        """An elementwise operator as an expression of its operands."""
        dtype = node.tensors[0].dtype
        if base == "_to_copy" and node.args:
            source = reference(node.args[0])
            was = None if source is None else self._graph.dtype(source)
            if dtype in INTEGERS:
                cast_text = "({0}).to(tl.int32)"
                if dtype in _EIGHT_BITS:
                    cast_text += f".to({_EIGHT_BITS[dtype]}).to(tl.int32)"
                return "{0}" if was == dtype else cast_text
            if dtype in _EIGHT_BITS:
                return f"({{0}}).to({_EIGHT_BITS[dtype]}).to(tl.float32)"
            if was in INTEGERS:
                return "({0}).to(tl.float32)"
        if dtype in INTEGERS:
            is_scaled = bool(node.kwargs) or any(
                reference(arg) is None and fuse.number(arg) is None for arg in node.args
            )
            return None if is_scaled else _ON_INTEGERS.get(base)
        return template_of(node)

    def _argument(self, node: m.GraphNode, arg: Any) -> Lanes:
        """An operand; a number beside integers is one."""
        if reference(arg) is not None:
            return self._own(arg)
        number = number_of(arg)
        dtypes = {self._graph.dtype(name) for name in operands(node)}
        is_integer = number.is_integer() and dtypes <= INTEGERS | {"bool"}
        if is_integer and (node.tensors[0].dtype in INTEGERS or dtypes & INTEGERS):
            return constant(int(number))
        return constant(number)

    def _as_integers(self, value: Lanes) -> Lanes:
        """Counts and the like, which are computed in float32."""
        if all(not isinstance(element, Load | Ref) for element in value.elements.flat):
            whole = [int(cast("float", element)) for element in value.elements.flat]
            return Lanes(array(whole, value.elements.shape), value.axes, value.groups)
        if any(map(self.is_across, value.elements.flat)):
            return value
        made = pointwise(self._steps, "({0}).to(tl.int32)", [value._replace(groups=None)])
        return made._replace(groups=value.groups)

    # Reductions

    def _reduce(
        self, x: Any, dims: Any, keep: Any, function: Callable[[list[Element]], Element]
    ) -> Lanes:
        value = self._own(x)
        places = range(len(spans_of(value))) if dims in (None, []) else dims
        places = [places] if isinstance(places, int) else places
        return self._reduced(value, places, bool(keep), function)

    def _reduced(
        self,
        value: Lanes,
        dims: Sequence[int],
        keep: bool,
        function: Callable[[list[Element]], Element],
    ) -> Lanes:
        spans = spans_of(value)
        chosen = {dim % len(spans) for dim in dims} if spans else set[int]()
        places = [place for dim in sorted(chosen) for place in range(*spans[dim])]
        axes = {value.axes[place] for place in places} - {None}
        rows = axes - {self._columns}
        if rows and rows != {*range(self._columns)}:
            raise UnsupportedError("it goes across some rows")
        if rows and self.is_long and self._columns in {*value.axes} - axes:
            raise UnsupportedError("sums over long rows")
        own = [None if place in places else axis for place, axis in enumerate(value.axes)]
        self._along, self._of_rows = self._columns in axes, bool(rows)
        try:
            made = reduced(Lanes(value.elements, tuple(own)), places, keep, function)
        finally:
            self._along = self._of_rows = False
        if rows and not all(map(self.is_across, made.elements.flat)):
            raise UnsupportedError("no program knows what all rows are")
        if keep:
            return made._replace(groups=value.groups)
        if value.groups is None:
            return made
        return grouped(made, [n for dim, n in enumerate(value.groups) if dim not in chosen])

    def _across(self, kind: str, element: Element) -> Element:
        if (self._along or self._of_rows) and kind not in ALONG:
            raise UnsupportedError("a product goes across lanes")
        if self._along:
            element = self._steps.add(ALONG[kind], element)
        if self._of_rows:
            element = self._steps.add(ACROSS[kind], element)
        return element

    def is_across(self, element: object) -> bool:
        """Whether an element is reduced over rows."""
        return isinstance(element, Ref) and self._steps.all[element.step].template in {
            *ACROSS.values()
        }

    def _mean_of(self, row: list[Element]) -> Element:
        if not self._of_rows:
            return super()._mean_of(row)
        count = f"(total * {len(row)})" + " * columns" * self._along
        return self._total([self._steps.add(f"{{0}} / ({count})", each) for each in row])

    def _divided(self, total: Element, count: int, correction: float) -> Element:
        if not self._along:
            return super()._divided(total, count, correction)
        less = f" - {correction!r}" if correction else ""
        number = f"(columns * {count}{less})" if count > 1 or less else "columns"
        return self._steps.add(f"{{0}} / {number}", total)

    def _running(self, node: m.GraphNode) -> Lanes | None:
        """Running sums along rows."""
        value = self._operand(node.args[0])
        place = cast("int", node.args[1]) % max(value.rank, 1)
        if not value.rank or value.axes[place] != self._columns:
            return None
        return pointwise(self._steps, RUNNING, [value])

    def _extremes(self, node: m.GraphNode) -> list[Lanes]:
        """The smallest and the largest element."""
        dim, keep = node.kwargs.get("dim"), node.kwargs.get("keepdim", False)
        kinds = ((fuse.MINIMUM, "min"), (fuse.MAXIMUM, "max"))
        return [self._reduce(node.args[0], dim, keep, self._folded(*kind)) for kind in kinds]

    def _gather(self, x: Any, dim: int, index: Any) -> Lanes:
        """The element of each row at a place that a tensor says."""
        value, places = self._operand(x), self._operand(index)
        place = dim % max(value.rank, 1)
        is_one = value.rank == places.rank and places.axes[place] is None
        if not is_one or value.axes[place] != self._columns or places.elements.shape[place] != 1:
            raise UnsupportedError("a gather of another form")
        own = [None if at == place else axis for at, axis in enumerate(value.axes)]
        (parts, indices), axes = aligned([Lanes(value.elements, tuple(own)), places])
        made = [
            self._at(cast("Element", element), cast("Element", column))
            for element, column in zip(parts.flat, indices.flat, strict=True)
        ]
        return Lanes(array(made, parts.shape), axes)

    def _scatter(self, node: m.GraphNode, x: Any, dim: int, index: Any, given: Any) -> Lanes:
        """A row with one element set, or added to."""
        value = self._operand(x)
        others = [self._operand(index), self._argument(node, given)]
        last = value.rank - 1
        if not value.rank or dim % value.rank != last or value.axes[last] != self._columns:
            raise UnsupportedError("a scatter of another form")
        if any(
            each.rank and (each.axes[-1] is not None or each.elements.shape[-1] != 1)
            for each in others
        ):
            raise UnsupportedError("a scatter of another form")
        changed = "{0} + {2}" if base_of(node.op) == "scatter_add" else "{2}"
        column = Lanes(array([self._steps.add(COLUMN)], (1,)), (self._columns,))
        template = f"tl.where({{3}} == {{1}}, {changed}, {{0}})"
        return self._pointwise(template, [value, *others, column])

    def _put(self, node: m.GraphNode, x: Any, index: Any, value: Any, *more: Any) -> Lanes:
        """A number where a condition of the same shape holds."""
        if len(index) != 1 or any(more):
            raise UnsupportedError("places of another form")
        name = reference(index[0])
        given = self._argument(node, value)
        if name is None or self._graph.dtype(name) != "bool" or given.rank:
            raise UnsupportedError("places of another form")
        values = [self._own(index[0]), given, self._own(x)]
        if self._sizes_of(values[0]) != self._sizes_of(values[2]):
            raise UnsupportedError("places of another form")
        return self._pointwise("tl.where({0} != 0.0, {1}, {2})", values)

    def _bucketize(self, node: m.GraphNode) -> Lanes:
        """How many of a few sorted bounds are below (`right`: at most) an element."""
        value, bounds = self._own(node.args[0]), self._operand(node.args[1])
        is_right = node.kwargs.get("right") is True
        if bounds.rank != 1 or not node.kwargs.keys() <= {"right", "out_int32"}:
            raise UnsupportedError("a bucketize of another form")
        bounds.small(0)
        sign = "<" if is_right else "<="
        total: Lanes | None = None
        for bound in bounds.elements:
            one = self._pointwise(
                f"tl.where({{0}} {sign} {{1}}, 0, 1)", [value, Lanes(array([bound], ()), ())]
            )
            total = one if total is None else self._pointwise("{0} + {1}", [total, one])
        if total is None:
            raise UnsupportedError("no bounds")
        return total

    # Norms

    def _layer_norm(self, x: Any, shape: Any, *more: Any) -> Lanes:
        weight, bias, eps = [*more, *(None, None, 1e-5)[len(more) :]][:3]
        self._require_one(shape)
        mean = self._reduce(x, [-1], True, self._mean_of)
        variance = self._reduce(x, [-1], True, lambda row: self._variance_of(row, 0.0))
        made = self._pointwise(
            f"({{0}} - {{1}}) * tl.rsqrt({{2}} + {float(eps)!r})", [self._own(x), mean, variance]
        )
        return self._scaled_by(made, weight, bias)

    def _rms_norm(self, x: Any, shape: Any, *more: Any) -> Lanes:
        weight, eps = [*more, *(None, None)[len(more) :]][:2]
        self._require_one(shape)
        value = self._own(x)
        squares = self._pointwise("{0} * {0}", [value])
        mean = self._reduced(squares, [-1], True, self._mean_of)
        eps = 1.1920929e-07 if eps is None else float(eps)
        return self._scaled_by(
            self._pointwise(f"{{0}} * tl.rsqrt({{1}} + {eps!r})", [value, mean]), weight, None
        )

    @staticmethod
    def _require_one(shape: Any) -> None:
        if not isinstance(shape, list) or len(shape) != 1:
            raise UnsupportedError("a norm over several dimensions")

    def _scaled_by(self, value: Lanes, weight: Any, bias: Any) -> Lanes:
        if weight is not None:
            value = self._pointwise("{0} * {1}", [value, self._own(weight)])
        if bias is not None:
            value = self._pointwise("{0} + {1}", [value, self._own(bias)])
        return value
