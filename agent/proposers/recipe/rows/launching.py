"""The file around a kernel for rows: what its launcher checks, makes and returns."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agent.proposers.recipe import fuse
from agent.proposers.recipe.lanes.elements import UnsupportedError

_CHUNKS: Final = (1024, 2048, 4096)
_ROWS: Final = (1, 2, 4, 8, 16, 32, 64)
_WARPS: Final = (1, 2, 4, 8, 16)
_PROGRAMS: Final = (132, 264, 528, 1056)
# Blocks of which loads are under way at a time.
_STAGES: Final = (1, 2, 3)
# Elements of one tensor that a thread has: of short rows, of long ones.
_A_THREAD: Final = (8, 16)
# Elements of one tensor that a program has at once: by default, and at most.
_USUAL: Final = 2048
_MOST: Final = 16384
# Of a reduction over rows: what a block of programs' results is added to, and how.
_MERGE: Final = """\
@triton.jit
def _rows_{kind}(parts, out, programs, width, BLOCK: tl.constexpr):
    # What programs found of their rows, put together.
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = {first}
    for start in range(0, programs, 32):
        program = start + tl.arange(0, 32)[:, None]
        mask = (program < programs) & (at < width)
        part = tl.load(parts + program.to(tl.int64) * width + at, mask=mask, other={other})
        total = {both}
    found = tl.{kind}(total, 0)[None, :]
    tl.store(out + at, found.to(out.dtype.element_ty), mask=at < width)"""
IDENTITY: Final[Mapping[str, str]] = {
    "sum": "0.0", "max": 'float("-inf")', "min": 'float("inf")',
}  # fmt: skip
"""What a reduction begins with, and puts in the place of what is not there."""
BOTH: Final[Mapping[str, str]] = {
    "sum": "{0} + {1}", "max": "tl.maximum({0}, {1})", "min": "tl.minimum({0}, {1})",
}  # fmt: skip
"""A reduction of two."""


@dataclass(frozen=True)
class Tensor:
    """A tensor that the kernel reads or writes, as an array of these dimensions."""

    sizes: tuple[int, ...]
    """Of small dimensions; 1 where an axis says it."""
    axes: tuple[int | None, ...]
    groups: tuple[int, ...]
    """How many of these each dimension of the tensor is."""
    dtype: str
    kind: str = ""
    """How programs' results are put together; empty: they are parts of the tensor."""


@dataclass(frozen=True)
class Kernel:
    """A kernel's lines, and what they need."""

    tensors: tuple[Tensor, ...]
    """Number N is `pN`, its strides `sN_0` …, and `bN` is where a row begins in it."""
    inputs: int
    """How many of these, the first ones, are read."""
    sizes: tuple[int, ...]
    """Of the lanes' dimensions in the problem; the last are the columns."""
    strides: frozenset[tuple[int, int]]
    """Number and dimension."""
    head: tuple[str, ...]
    """Before the first block of rows."""
    body: tuple[str, ...]
    tail: tuple[str, ...]
    is_long: bool
    """Whether rows are read by chunks."""
    is_looped: bool
    """Whether a program has several blocks of rows, of which it sums something."""
    widest: int
    """As many columns can be held in registers."""


def first_of(kind: str, shape: str) -> str:
    """What a reduction of blocks of a shape begins with."""
    if kind == "sum":
        return f"tl.zeros({shape}, tl.float32)"
    return f"tl.full({shape}, {IDENTITY[kind]}, tl.float32)"


class File:
    """Writes the file of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._inputs = kernel.inputs
        self._columns = len(kernel.sizes) - 1

    def text(self) -> str:
        """The kernel and `kernel_function`, which takes the inputs in their order.

        Raises
        ------
        UnsupportedError
            Sizes do not follow from the inputs.
        """
        kernel = self._kernel
        names = [f"p{number}" for number in range(len(kernel.tensors))]
        sizes = [self._size(axis) for axis in range(len(kernel.sizes))]
        bases, strides = self._bases()
        strides = {
            f"s{n}_{dim}": self._stride(n, dim) for n, dim in sorted(kernel.strides)
        } | strides
        numbers = {**{size: size for size in sizes}, **strides, "total": "total"}
        if kernel.is_looped:
            numbers["blocks"] = "blocks"
        tunables = self._tunables()
        defaults = ", ".join(f"{name}={default}" for name, (default, _) in tunables.items())
        width = "COLUMNS" if kernel.is_long else "triton.next_power_of_2(columns)"
        returned = [self._returned(name, n) for n, name in enumerate(names[self._inputs :])]
        stages = ", STAGES: tl.constexpr" * ("STAGES" in tunables)
        given = ", STAGES=STAGES" * ("STAGES" in tunables)
        text = f"""@triton.jit
def _rows_kernel(
    {", ".join([*names, *numbers])},
    ROWS: tl.constexpr, COLUMNS: tl.constexpr{stages},
):
    # A program has blocks of rows; a row's columns lie across its threads.
{self._lines(bases)}


{self._merges()}def kernel_function({", ".join(names[: self._inputs])}, {defaults}):
    {self._guards()}
    total = {" * ".join(sizes[:-1])}
    blocks = triton.cdiv(total, ROWS)
    programs = {"min(PROGRAMS, blocks)" if kernel.is_looped else "blocks"}
    {self._made()}
    _rows_kernel[(programs,)](
        {", ".join([*names, *numbers.values()])},
        ROWS=ROWS, COLUMNS={width}{given}, num_warps=WARPS,
    )
    {self._merged()}return {", ".join(returned)}


TUNABLES = {{{", ".join(f'"{name}": {list(of)}' for name, (_, of) in tunables.items())}}}
"""
        imports = "import torch\nimport triton\nimport triton.language as tl"
        return "\n\n\n".join([imports, *fuse.helpers(text), text])

    def _bases(self) -> tuple[list[str], dict[str, str]]:
        """Lines that say where a row begins in each tensor, and the strides that they need."""
        bases: list[str] = []
        strides: dict[str, str] = {}
        for number, tensor in enumerate(self._kernel.tensors):
            if tensor.kind:
                strides[f"s{number}_all"] = f"p{number}.stride(0)"
                continue
            terms = []
            for dim, axis in enumerate(tensor.axes):
                if axis is not None and axis != self._columns:
                    strides[f"s{number}_{dim}"] = self._stride(number, dim)
                    terms.append(f"lane_{axis} * s{number}_{dim}")
            if terms:
                bases.append(f"b{number} = {' + '.join(terms)}")
        return bases, strides

    def _lines(self, bases: Sequence[str]) -> str:
        """The kernel's body."""
        kernel = self._kernel
        lanes, rest = list[str](), "row"
        for axis in range(self._columns - 1, 0, -1):
            lanes += [f"lane_{axis} = {rest} % size_{axis}", f"rest = {rest} // size_{axis}"]
            rest = "rest"
        lanes.append(f"lane_0 = {rest}")
        whole = ["column = tl.arange(0, COLUMNS)[None, :]", "in_column = column < columns"]
        head = [*([] if kernel.is_long else whole), "zero = tl.zeros((1, 1), tl.float32)"]
        block = "block" if kernel.is_looped else "tl.program_id(0)"
        start = [
            f"row = ({block} * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)",
            "in_row = row < total",
            *([] if kernel.is_long else ["inside = in_row & in_column"]),
            *lanes,
            *bases,
        ]
        lines = [*head, *kernel.head]
        indent = ""
        if kernel.is_looped:
            blocks = "tl.program_id(0), blocks, tl.num_programs(0), num_stages=STAGES"
            lines.append(f"for block in tl.range({blocks}):")
            indent = "    "
        lines += [indent + line for line in [*start, *kernel.body]]
        return "\n".join(f"    {line}" for line in [*lines, *kernel.tail])

    def _merges(self) -> str:
        """Kernels that put together what programs found."""
        kinds = sorted({tensor.kind for tensor in self._kernel.tensors} - {""})
        texts = []
        for kind in kinds:
            first, both = first_of(kind, "(32, BLOCK)"), BOTH[kind].format("total", "part")
            texts.append(_MERGE.format(kind=kind, first=first, other=IDENTITY[kind], both=both))
        return "".join(f"{text}\n\n\n" for text in texts)

    def _merged(self) -> str:
        """Lines that launch these."""
        lines = []
        for number, tensor in enumerate(self._kernel.tensors):
            if tensor.kind:
                shape = "".join(f"{size}, " for size in self._own_sizes(tensor))
                made = f"torch.empty(({shape}), dtype=torch.{tensor.dtype}, device=p0.device)"
                launch = f"_rows_{tensor.kind}[(triton.cdiv(width, 64),)]"
                given = f"p{number}, r{number}, programs, width, BLOCK=64"
                lines += [
                    f"r{number} = {made}",
                    f"width = r{number}.numel()",
                    f"{launch}({given})",
                ]
        return "".join(f"{line}\n    " for line in lines)

    def _own_sizes(self, tensor: Tensor) -> list[str]:
        return [
            self._size(axis) if axis is not None else str(size)
            for size, axis in zip(tensor.sizes, tensor.axes, strict=True)
        ]

    def _size(self, axis: int) -> str:
        return "columns" if axis == self._columns else f"size_{axis}"

    def _tunables(self) -> dict[str, tuple[int, Sequence[int]]]:
        """By name: the default, and values that make sense."""
        kernel = self._kernel
        span = _CHUNKS[1] if kernel.is_long else 1 << max(kernel.sizes[-1] - 1, 0).bit_length()
        wide = [tensor for tensor in kernel.tensors if self._columns in tensor.axes]
        row = span * max((math.prod(tensor.sizes) for tensor in wide), default=1)
        total = math.prod(kernel.sizes[:-1])
        usual = max([1, *(n for n in _ROWS if n * row <= _USUAL and n <= total)])
        rows = [n for n in _ROWS if usual <= 2 * n <= 8 * usual and (n == 1 or n * row <= _MOST)]
        a_thread = _A_THREAD[0] if usual * row <= _USUAL else _A_THREAD[1]
        warp = min(_WARPS, key=lambda n: abs(n * 32 * a_thread - usual * row))
        warps = [n for n in _WARPS if warp <= 2 * n <= 4 * warp]
        found: dict[str, tuple[int, Sequence[int]]] = {
            "ROWS": (usual, rows),
            "WARPS": (warp, warps),
        }
        if kernel.is_long:
            found["COLUMNS"] = (span, _CHUNKS)
        if kernel.is_looped:
            found["PROGRAMS"] = (_PROGRAMS[1], _PROGRAMS)
        if kernel.is_long or kernel.is_looped:
            found["STAGES"] = (_STAGES[1], _STAGES)
        return found

    def _stride(self, number: int, dim: int) -> str:
        """Of an array's dimension, from the tensor's own."""
        tensor = self._kernel.tensors[number]
        if number >= self._inputs:
            return f"p{number}.stride({dim + bool(tensor.kind)})"
        start = 0
        for own, count in enumerate(tensor.groups):
            if dim < start + count:
                inner = self._own_sizes(tensor)[dim + 1 : start + count]
                return " * ".join([f"p{number}.stride({own})", *inner])
            start += count
        raise AssertionError

    def _guards(self) -> str:
        """Lines that take sizes from the inputs and refuse others."""
        sizes: dict[int, str] = {}
        lines: list[str] = []
        inputs = self._kernel.tensors[: self._inputs]
        pending: list[tuple[int, int, list[int | None], list[int]]] = []
        for number, tensor in enumerate(inputs):
            start = 0
            for dim, count in enumerate(tensor.groups):
                axes = list(tensor.axes[start : start + count])
                small = list(tensor.sizes[start : start + count])
                start += count
                if count == 1 and axes[0] is not None and axes[0] not in sizes:
                    sizes[axes[0]] = f"p{number}.shape[{dim}]"
                else:
                    pending.append((number, dim, axes, small))
        for _, _, axes, _ in pending:
            missing = [axis for axis in axes if axis is not None and axis not in sizes]
            if len(missing) == 1:  # which of its factors is the model's own is not known
                sizes[missing[0]] = str(self._kernel.sizes[missing[0]])
        if len(sizes) < len(self._kernel.sizes):
            raise UnsupportedError("inputs do not tell how many rows and columns there are")
        heads = [f"{self._size(axis)} = {sizes[axis]}" for axis in sorted(sizes)]
        by_tensor: dict[int, list[str]] = {}
        for number, dim, axes, small in pending:
            names = [self._size(axis) for axis in axes if axis is not None]
            rest = math.prod(small)
            product = " * ".join([*names, *([str(rest)] if rest > 1 or not names else [])])
            by_tensor.setdefault(number, []).append(f"p{number}.shape[{dim}] != {product}")
        for number, conditions in by_tensor.items():
            lines += [
                f"if {' or '.join(conditions)}:",
                f'    raise ValueError("p{number}: this kernel is for other sizes")',
            ]
        if not self._kernel.is_long:
            lines += [
                f"if columns > {self._kernel.widest}:",
                '    raise ValueError("this kernel is for shorter rows")',
            ]
        return "\n    ".join([*heads, *lines])

    def _made(self) -> str:
        lines = []
        for number, tensor in enumerate(self._kernel.tensors[self._inputs :], self._inputs):
            shape = ["programs"] if tensor.kind else []
            shape += self._own_sizes(tensor)
            dtype = "float32" if tensor.kind else tensor.dtype
            lines.append(
                f"p{number} = torch.empty(({', '.join(shape)},), dtype=torch.{dtype},"
                " device=p0.device)"
            )
        return "\n    ".join(lines)

    def _returned(self, name: str, number: int) -> str:
        """What is returned of an output, in the tensor's own dimensions."""
        tensor = self._kernel.tensors[self._inputs + number]
        text = name.replace("p", "r") if tensor.kind else name
        for dim, count in reversed([*enumerate(tensor.groups)]):
            if count > 1:
                place = sum(tensor.groups[:dim])
                text += f".flatten({place}, {place + count - 1})"
        return text
