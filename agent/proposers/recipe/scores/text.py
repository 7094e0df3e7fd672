"""Writes attention with the scores of a problem as a Triton kernel and its launcher.

A program has a block of queries and goes through the keys by blocks. Scores stay on chip; weights
are summed with the largest score so far as the exponents' base (FlashAttention, arXiv:2205.14135).
Where a mask hides a whole block, it is passed over. Where there are few queries, several programs
have a part of the keys each (`splitting`).
"""

import math
from collections.abc import Collection, Mapping, Sequence

from agent.proposers.recipe import fuse
from agent.proposers.recipe.patterns import require
from agent.proposers.recipe.scores import launching, splitting
from agent.proposers.recipe.scores.reading import LOW, PAGE, WIDTH, Read
from agent.proposers.recipe.scores.values import Attention, Index, Product, Step

# Of heads: a program holds a block of queries and of results in registers.
_WIDEST = 512
_LAUNCH = {"WARPS": "num_warps", "STAGES": "num_stages"}
# Blocks are counted in int64, as tensors may have more than 2**31 elements; what is within a block
# in int32.
_KERNEL = """\
@triton.jit
def _scores_kernel(
    {parameters},
    {constants}
):
    # A program has a block of queries and goes through the keys: scores stay on chip.
    {head}
    for start in range({span}, BLOCK_N):
        {body}
    {tail}


{merge}def kernel_function(
    {tensors}, {defaults}
):
    {setup}
    blocks = triton.cdiv({rows}, BLOCK_M)
    {before}_scores_kernel[({programs})](
        {given},
        {settings}
    )
    {after}return {outputs}


TUNABLES = {{
    {choices}
}}
"""


def kernel_text(attention: Attention, dtypes: Mapping[str, str], rows: int, has_logs: bool) -> str:
    """The kernel and `kernel_function`, which takes the tensors in the order of `reads`.

    Parameters
    ----------
    dtypes
        Of the tensors, by their values of the graph.
    rows
        The axis of which a program has a block.
    has_logs
        Whether the logarithm of the sum of exponentials is returned as well.

    Raises
    ------
    NoMatchError
        Heads are too wide, or sizes do not follow from the tensors.
    """
    return _Writer(attention, dtypes, rows, has_logs).text()


class _Writer:
    """Writes one kernel. Names in it: tensor N is `tN`, its strides `sN_0` …; the place along axis
    A is `iA`, and whether it is within, `in_A`; value V is `vV`; a product's width is `widthV`."""

    def __init__(
        self, attention: Attention, dtypes: Mapping[str, str], rows: int, has_logs: bool
    ) -> None:
        self._attention = attention
        self._dtypes = dtypes
        self._has_logs = has_logs
        self._values = attention.values
        self._reads = attention.reads()
        self._rows, self._keys = rows, len(self._values.sizes) - 1
        self._others = [a for a in range(self._keys) if a != rows]
        """Axes of which a program has one place."""
        self._widths: dict[str, tuple[int, int, int]] = {}
        """By name: number and dimension of its tensor, and its size in the problem."""
        self._strides: dict[str, str] = {}
        """Name → expression of the launcher; so `roots`, which are of widths."""
        self._roots: dict[str, str] = {}

    # Tensors

    def _place(self, axis: int) -> str:
        column = {self._rows: "[:, None]", self._keys: "[None, :]"}
        return f"i{axis}{column.get(axis, '')}"

    def _mask(self, axes: Collection[int | None], *more: str) -> str:
        column = {self._rows: "[:, None]", self._keys: "[None, :]"}
        within = [f"in_{axis}{column[axis]}" for axis in column if axis in axes]
        return " & ".join([*within, *more])

    def _pointer(self, tensor: Read, width: str = "", keys: str = "") -> str:
        """Where elements of a tensor are: `width` is the index along its width, `keys` along the
        keys where these are no columns."""
        number = self._reads.index(tensor)
        whole, within = [f"t{number}"], list[str]()
        for dim, axis in enumerate(tensor.axes):
            if axis is None:
                continue
            stride = f"s{number}_{dim}"
            self._strides[stride] = f"t{number}.stride({dim})"
            place = {WIDTH: width, self._keys: keys}.get(axis) or self._place(axis)
            if tensor.table is not None and axis == PAGE:
                place = self._page(tensor.table, number, keys)
            elif tensor.table is not None and axis == self._keys:
                place = f"{place} % page_{number}"
            if tensor.shared and tensor.shared[dim] > 1:
                share = f"g{number}_{dim}"
                self._strides[share] = f"size_{axis} // t{number}.shape[{dim}]"
                place = f"{place} // {share}"
            term = f"{place} * {stride}"
            (whole if axis in self._others else within).append(term)
        return " + ".join([*whole, *within])

    def _page(self, table: Read, number: int, keys: str) -> str:
        """The pages of a block of keys of tensor `number`."""
        place = keys or self._place(self._keys)
        self._strides[f"page_{number}"] = f"t{number}.shape[1]"
        pointer = self._pointer(table, keys=f"({place} // page_{number})")
        return self._load(pointer, place.replace(f"i{self._keys}", f"in_{self._keys}"), widen=False)

    def _load(self, pointer: str, mask: str, *, widen: bool) -> str:
        masked = f", mask={mask}, other=0" if mask else ""
        return f"tl.load({pointer}{masked})" + ".to(tl.float32)" * widen

    def _width(self, tensor: Read, name: str) -> str:
        """The name of a width that a program has whole."""
        dim = tensor.axes.index(WIDTH)
        size = self._values.graph.shape(tensor.name)[dim]
        require(size <= _WIDEST)
        self._widths.setdefault(name, (self._reads.index(tensor), dim, size))
        return name

    def _is_narrow(self, *tensors: Read) -> bool:
        """Whether tensor cores take them, all of one dtype, as they are."""
        dtypes = {self._dtypes[tensor.name] for tensor in tensors}
        return len(dtypes) == 1 and dtypes <= LOW

    # Values

    def _lines(self, numbers: Sequence[int]) -> list[str]:
        return [f"v{number} = {self._expression(number)}" for number in numbers]

    def _expression(self, number: int) -> str:
        value = self._values.found[number]
        match value:
            case Read():
                widen = "int" not in self._dtypes[value.name]
                return self._load(self._pointer(value), self._mask(value.axes), widen=widen)
            case Index():
                return self._place(value.axis)
            case Product():
                name = self._width(value.rows, f"width{number}")
                pointer = self._pointer(value.keys, f"d_{name}[:, None]")
                mask = self._mask({self._keys}, f"(d_{name}[:, None] < {name})")
                widen = not self._is_narrow(value.rows, value.keys)
                loaded = self._load(pointer, mask, widen=widen)
                return f'tl.dot(q{number}, {loaded}, input_precision="ieee")'
            case Step():
                args = [f"v{a}" if isinstance(a, int) else self._constant(a) for a in value.args]
                return value.template.format(*args)

    def _queries(self) -> list[str]:
        """Lines that load a program's block of queries for each product."""
        lines = []
        for number, product in self._attention.products().items():
            name = self._width(product.rows, f"width{number}")
            pointer = self._pointer(product.rows, f"d_{name}[None, :]")
            if self._rows not in product.rows.axes:  # one query, in a block of more
                pointer += f" + 0 * {self._place(self._rows)}"
            mask = self._mask({self._rows}, f"(d_{name}[None, :] < {name})")
            widen = not self._is_narrow(product.rows, product.keys)
            lines.append(f"q{number} = {self._load(pointer, mask, widen=widen)}")
        return lines

    def _constant(self, number: float) -> str:
        """A number; what follows from the width of heads is written so."""
        for product in self._attention.products():
            name = f"width{product}"
            root = math.sqrt(self._widths[name][2])
            for value, text in ((root, f"root_{name}"), (1 / root, f"(1.0 / root_{name})")):
                if math.isclose(number, value, rel_tol=1e-6):
                    self._roots[f"root_{name}"] = f"{name} ** 0.5"
                    return text
        return f"({number!r})" if math.isfinite(number) else f'float("{number}")'

    # The kernel

    def text(self) -> str:
        """The file."""
        attention, values = self._attention, self._values
        every = attention.needed()
        before = [number for number in every if self._keys not in values.axes(number)]
        masks = [n for n in values.needed(attention.hidden) if n not in before]
        rest = [n for n in values.needed(attention.score) if n not in {*before, *masks}]
        queries = self._queries()
        lines = self._lines(before)
        body = [
            f"i{self._keys} = start + tl.arange(0, BLOCK_N)",
            f"in_{self._keys} = i{self._keys} < size_{self._keys}",
            *self._lines(masks),
        ]
        block = [*self._lines(rest), *self._update()]
        if attention.hidden is not None:
            both = self._mask({self._rows, self._keys}, f"(v{attention.hidden} == 0.0)")
            body += [
                "visible = True",
                "if SKIP:",
                f"    visible = tl.max(tl.where({both}, 1, 0)) > 0",
                "if visible:",
            ]
            block = [f"    {line}" for line in block]
        return self._file([*queries, *lines], [*body, *block])

    def _update(self) -> list[str]:
        """Lines that take a block of scores into the sums."""
        attention, keys = self._attention, f"i{self._keys}[:, None]"
        values = attention.of_values
        name = self._width(values, "width")
        pointer = self._pointer(values, f"d_{name}[None, :]", keys)
        mask = f"in_{self._keys}[:, None] & (d_{name}[None, :] < {name})"
        is_narrow = self._is_narrow(values)
        sums = ['sums = tl.dot(weights, values, sums, input_precision="ieee")']
        if is_narrow:
            sums = ["sums = tl.dot(weights.to(values.dtype), values, sums)"]
        if is_narrow and attention.is_exact:  # what rounding leaves is multiplied as well
            sums = [
                "rounded = weights.to(values.dtype)",
                "sums = tl.dot(rounded, values, sums)",
                "left = (weights - rounded.to(tl.float32)).to(values.dtype)",
                "sums = tl.dot(left, values, sums)",
            ]
        return [
            f'score = tl.where({self._mask({self._keys})}, v{attention.score}, float("-inf"))',
            "upper = tl.maximum(top, tl.max(score, 1))",
            'base = tl.where(upper == float("-inf"), 0.0, upper)',
            "weights = tl.exp(score - base[:, None])",
            "shrink = tl.exp(top - base)",
            "total = total * shrink + tl.sum(weights, 1)",
            "sums = sums * shrink[:, None]",
            f"values = {self._load(pointer, mask, widen=not is_narrow)}",
            *sums,
            "top = upper",
        ]

    def _file(self, head: Sequence[str], body: Sequence[str]) -> str:
        attention, sizes = self._attention, self._values.sizes
        rows, keys = f"size_{self._rows}", f"size_{self._keys}"
        tensors = [f"t{number}" for number in range(len(self._reads))]
        log_axes = [*range(self._keys)] if self._has_logs else []
        outputs = {"out": attention.out} | ({"logs": log_axes} if log_axes else {})
        steps = {
            f"s_{name}_{dim}": f"{name}.stride({dim})"
            for name, axes in outputs.items()
            for dim in range(len(axes))
        }
        size_names = [f"size_{axis}" for axis in range(len(sizes))]
        widths = {name: f"WIDTH_{place}" for place, name in enumerate(self._widths)}
        numbers = {name: name for name in (*size_names, "blocks", *widths)}
        numbers |= self._roots | self._strides | steps
        widest = max(size for _, _, size in self._widths.values())
        tunables = launching.tunables(attention, self._rows, widest)
        is_split = "SPLITS" in tunables
        buffers = [*tensors, *outputs, *(["parts", "stats"] if is_split else [])]
        constants = [*widths.values(), *(name for name in tunables if name not in _LAUNCH)]
        spans = {
            name: f"{block}=max({launching.BLOCKS[0]}, triton.next_power_of_2({name}))"
            for name, block in widths.items()
        }
        made = launching.allocations(outputs, attention.out_dtype)
        programs = " * ".join(["blocks", *(f"size_{axis}" for axis in self._others)])
        first, stores = self._first(widths["width"]), self._stores(log_axes)
        around = dict.fromkeys(("merge", "before", "after"), "")
        if is_split:
            names = {name: name for name in (*outputs, *size_names[:-1], "width")}
            around = splitting.around(
                names | {"blocks": "blocks"} | steps,
                (self._rows, self._others),
                (widths["width"], spans["width"]),
                [*self._start({"width": widths["width"]}), splitting.query(self._rows)],
                stores,
            )
            first += splitting.keys_of_part(keys, has_sink=attention.sink is not None)
            stores = splitting.stores(self._rows, stores)
        text = _KERNEL.format(
            parameters=", ".join([*buffers, *numbers]),
            constants=", ".join(f"{name}: tl.constexpr" for name in constants),
            head="\n    ".join([*self._start(widths), *head, *first]),
            span="first, last" if is_split else f"0, {keys}",
            body="\n        ".join(body),
            tail="\n    ".join(stores),
            rows=rows,
            tensors=", ".join(tensors),
            defaults=", ".join(f"{name}={value}" for name, (value, _) in tunables.items()),
            setup="\n    ".join([*launching.guards(attention, self._widths), *made]),
            programs=f"{programs}, SPLITS" if is_split else f"{programs},",
            given=", ".join([*buffers, *numbers.values()]),
            settings=", ".join(
                [*spans.values(), *(f"{_LAUNCH.get(name, name)}={name}" for name in tunables)]
            ),
            outputs=", ".join(outputs),
            choices="\n    ".join(f'"{name}": {of},' for name, (_, of) in tunables.items()),
            **around,
        )
        imports = "import torch\nimport triton\nimport triton.language as tl"
        return "\n\n\n".join([imports, *fuse.helpers(text), text])

    def _start(self, widths: Mapping[str, str]) -> list[str]:
        """Lines that say which block a program has."""
        lines = ["rest = tl.program_id(0).to(tl.int64) // blocks"]
        for axis in reversed(self._others):
            lines += [f"i{axis} = rest % size_{axis}", f"rest = rest // size_{axis}"]
        return [
            *lines,
            f"i{self._rows} = tl.program_id(0) % blocks * BLOCK_M + tl.arange(0, BLOCK_M)",
            f"in_{self._rows} = i{self._rows} < size_{self._rows}",
            *(f"d_{name} = tl.arange(0, {block})" for name, block in widths.items()),
        ]

    def _first(self, width: str) -> list[str]:
        """Lines before the first block of keys: of all scores only the sink is there."""
        sink, zero = self._attention.sink, "tl.zeros((BLOCK_M,), tl.float32)"
        top = f'{zero} - float("inf")'
        if sink is not None:
            has_rows = self._rows in self._values.axes(sink)
            top = f"{zero} + {f'tl.sum(v{sink}, 1)' if has_rows else f'v{sink}'}"
        return [
            f"top = {top}",
            f"total = {zero}{' + 1.0' if sink is not None else ''}",
            f"sums = tl.zeros((BLOCK_M, {width}), tl.float32)",
        ]

    def _stores(self, log_axes: Sequence[int]) -> list[str]:
        """Lines after the last block of keys."""
        attention = self._attention
        places = [
            f"{'d_width[None, :]' if axis == WIDTH else self._place(axis or 0)} * s_out_{dim}"
            for dim, axis in enumerate(attention.out)
        ]
        places.sort(key=lambda place: "[" in place)
        share = "* tl.exp(top - log)[:, None]" if attention.by_logs else "/ total[:, None]"
        if attention.has_empty_rows:
            share = "/ tl.where(total > 0.0, total, 1.0)[:, None]"
        lines = ["log = top + tl.log(total)"] if log_axes or attention.by_logs else []
        lines += [
            f"mask = in_{self._rows}[:, None] & (d_width[None, :] < width)",
            f"result = sums {share}",
            f"tl.store(out + {' + '.join(places)}, result.to(out.dtype.element_ty), mask=mask)",
        ]
        if log_axes:
            at = " + ".join(f"i{axis} * s_logs_{dim}" for dim, axis in enumerate(log_axes))
            lines.append(f"tl.store(logs + {at}, log, mask=in_{self._rows})")
        return lines
