"""Writes the steps of a lane as a Triton kernel and its launcher."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from agent.proposers.recipe import fuse
from agent.proposers.recipe.lanes.elements import Element, Load, Ref, Step
from agent.proposers.recipe.lanes.loops import Carried, Inner, Item, Loop, Moving, Operand, Store

_BLOCKS: Final = (32, 64, 128, 256)


@dataclass(frozen=True)
class Tensor:
    """A tensor that the kernel reads or writes."""

    shape: tuple[int, ...]
    axes: tuple[int | None, ...]
    """By dimension: which of the lanes' it is."""
    dtype: str


@dataclass
class _Body:
    """Lines of one level, and what is known in it."""

    indent: str
    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        self.lines.append(self.indent + line)


class Writer:
    """Writes one kernel.

    Parameters
    ----------
    inputs
        By value of the graph: tensors that are read, in the order of the parameters.
    outputs
        Tensors that are written.
    lanes
        How many dimensions of lanes there are.
    """

    def __init__(self, inputs: Mapping[str, Tensor], outputs: Sequence[Tensor], lanes: int) -> None:
        self._tensors = [*inputs.values(), *outputs]
        """Number N is `pN`, its strides `sN_0` …, and `bN` is where a lane begins in it."""
        self._number = {name: number for number, name in enumerate(inputs)}
        self._lanes = lanes
        self._variables: dict[int, str] = {}
        """By place of a step in the sequence."""
        self._loads: dict[Load, str] = {}
        self._strides: set[tuple[int, int]] = set()
        """Number and dimension."""
        self._body = _Body("    ")

    def kernel(self, items: Sequence[Item], loops: Sequence[Loop]) -> str:
        """The kernel and `kernel_function`, which takes the inputs in their order."""
        place, pending = 0, list(loops)
        while place < len(items):
            if pending and pending[0].start == place:
                loop = pending.pop(0)
                self._loop(items, loop)
                place = loop.end
                continue
            item = items[place]
            args = [self._element(arg) for arg in item.args]
            if isinstance(item, Store):
                self._store(self._body, item, args[0])
            else:
                self._variables[place] = f"v{place}"
                self._step(self._body, f"v{place}", item, args)
            place += 1
        return self._text()

    @staticmethod
    def _step(body: _Body, name: str, step: Step, args: Sequence[str]) -> None:
        # Triton's functions take no plain numbers alone.
        if args and all(arg.startswith("(") for arg in args):
            args = [f"(zero + {args[0]})", *args[1:]]
        body.add(f"{name} = {step.template.format(*args)}")

    def _element(self, element: Element) -> str:
        """An element outside of loops, loaded where it was not yet."""
        if isinstance(element, Ref):
            return self._variables[element.step]
        if not isinstance(element, Load):
            return number_text(element)
        if element not in self._loads:
            self._loads[element] = f"x{len(self._loads)}"
            self._load(self._body, self._loads[element], element, (0,) * len(element.at))
        return self._loads[element]

    def _load(self, body: _Body, name: str, load: Load, deltas: Sequence[int]) -> None:
        number = self._number[load.name]
        pointer = self._pointer(number, load.at, deltas)
        if all(axis is None for axis in self._tensors[number].axes):
            body.add(f"{name} = zero + tl.load({pointer}).to(tl.float32)")
        else:
            body.add(f"{name} = tl.load({pointer}, mask=mask).to(tl.float32)")

    def _store(
        self, body: _Body, store: Store, value: str, deltas: Sequence[int] | None = None
    ) -> None:
        number = len(self._number) + store.out
        pointer = self._pointer(number, store.at, deltas or (0,) * len(store.at))
        # A number as well is written in all lanes.
        value = f"(zero + {value})" if value.startswith("(") else value
        body.add(f"tl.store({pointer}, {value}.to(p{number}.dtype.element_ty), mask=mask)")

    def _pointer(self, number: int, index: Sequence[int | None], deltas: Sequence[int]) -> str:
        """Where an element is: `p0 + 2 * s0_1 + b0`."""
        terms = [f"p{number}"]
        for dim, (place, delta) in enumerate(zip(index, deltas, strict=True)):
            if place is None or (place == 0 and delta == 0):
                continue
            self._strides.add((number, dim))
            at = f"{place}" if not delta else f"({place} + step * {delta})"
            terms.append(f"{at} * s{number}_{dim}")
        if any(axis is not None for axis in self._tensors[number].axes):
            terms.append(f"b{number}")
        return " + ".join(terms)

    def _loop(self, items: Sequence[Item], loop: Loop) -> None:
        """A loop: what it carries, also to what comes after it, is set before."""
        head, used = f"l{loop.start}", _used_after(items, loop)
        operands = [operand for each in loop.operands for operand in each]
        carried = self._carried(head, operands, used)
        for operand in operands:
            if isinstance(operand, Load | Ref):
                self._element(operand)
        self._body.add(f"for step in range({loop.count}):")
        body = _Body(self._body.indent + "    ")
        moving = self._moving(head, body, operands)

        def text(operand: Operand) -> str:
            match operand:
                case Moving():
                    return moving[operand]
                case Inner(place=place):
                    return f"{head}_v{place}"
                case Carried(place=place, first=first):
                    return carried[place, first]
                case _:
                    return self._element(operand)

        for place, forms in enumerate(loop.operands):
            item = items[loop.start + place]
            if isinstance(item, Store):
                self._store(body, item, text(forms[0]), loop.stores[place])
            else:
                self._step(body, f"{head}_v{place}", item, [text(form) for form in forms])
        for (place, _), name in carried.items():
            body.add(f"{name} = {head}_v{place}")
        self._body.lines += body.lines
        last = loop.end - loop.period
        for place in used:
            self._variables[last + place] = carried[place, None]

    def _carried(
        self, head: str, operands: Iterable[Operand], used: Iterable[int]
    ) -> dict[tuple[int, Element | None], str]:
        """By place and first value: variables that a loop carries, set to their first values."""
        wanted: dict[tuple[int, Element | None], str] = {}
        for operand in operands:
            if isinstance(operand, Carried):
                wanted.setdefault((operand.place, operand.first), f"{head}_{len(wanted)}")
        for place in used:
            wanted.setdefault((place, None), f"{head}_{len(wanted)}")
        for (_, first), name in wanted.items():
            self._body.add(f"{name} = zero + {'0.0' if first is None else self._element(first)}")
        return wanted

    def _moving(self, head: str, body: _Body, operands: Iterable[Operand]) -> dict[Moving, str]:
        """Variables of loads and numbers that change from one iteration to the next."""
        moving: dict[Moving, str] = {}
        for operand in operands:
            if not isinstance(operand, Moving) or operand in moving:
                continue
            name = moving[operand] = f"{head}_x{len(moving)}"
            if isinstance(operand.first, Load) and isinstance(operand.delta, tuple):
                self._load(body, name, operand.first, operand.delta)
            else:
                body.add(f"{name} = zero + ({operand.first!r} + step * {operand.delta!r})")
        return moving

    def _text(self) -> str:
        """The kernel around its body, and the launcher."""
        names = [f"p{number}" for number in range(len(self._tensors))]
        inputs, outputs = names[: len(self._number)], names[len(self._number) :]
        bases = []
        for number, tensor in enumerate(self._tensors):
            dims = {dim: axis for dim, axis in enumerate(tensor.axes) if axis is not None}
            self._strides |= {(number, dim) for dim in dims}
            if dims:
                terms = [f"lane_{axis} * s{number}_{dim}" for dim, axis in dims.items()]
                bases.append(f"b{number} = {' + '.join(terms)}")
        sizes = [f"size_{axis}" for axis in range(self._lanes)]
        strides = sorted(self._strides)
        lanes = ["rest = lane"]
        for axis in range(self._lanes - 1, 0, -1):
            lanes += [f"lane_{axis} = rest % size_{axis}", f"rest = rest // size_{axis}"]
        lanes.append("lane_0 = rest")
        parameters = [*names, *sizes, *(f"s{number}_{dim}" for number, dim in strides), "total"]
        values = [*names, *sizes, *(f"p{n}.stride({dim})" for n, dim in strides), "total"]
        head = "\n    ".join([*lanes, *bases])
        body = "\n".join(self._body.lines)
        text = f"""@triton.jit
def _lanes_kernel(
    {", ".join(parameters)}, BLOCK: tl.constexpr
):
    # One lane a thread; its small dimensions are unrolled. Lanes are counted in int64.
    lane = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = lane < total
    {head}
    zero = tl.zeros((BLOCK,), tl.float32)
{body}


def kernel_function({", ".join(inputs)}, BLOCK={_BLOCKS[2]}):
    {self._guards()}
    {self._made()}
    total = {" * ".join(sizes)}
    grid = (triton.cdiv(total, BLOCK),)
    _lanes_kernel[grid](
        {", ".join(values)}, BLOCK=BLOCK, num_warps=max(BLOCK // 32, 1)
    )
    return {", ".join(outputs)}


TUNABLES = {{"BLOCK": {list(_BLOCKS)}}}
"""
        helpers = fuse.helpers(text)
        imports = "import torch\nimport triton\nimport triton.language as tl"
        return "\n\n\n".join([imports, *helpers, text])

    def _guards(self) -> str:
        """Lines that take the lanes' sizes from the inputs and refuse other small dimensions."""
        sizes: dict[int, str] = {}
        lines = []
        inputs = self._tensors[: len(self._number)]
        for number, tensor in enumerate(inputs):
            parameter = f"p{number}"
            small = []
            for dim, (size, axis) in enumerate(zip(tensor.shape, tensor.axes, strict=True)):
                if axis is None:
                    small.append(f"{parameter}.shape[{dim}] != {size}")
                elif axis not in sizes:
                    sizes[axis] = f"{parameter}.shape[{dim}]"
                else:
                    small.append(f"{parameter}.shape[{dim}] != size_{axis}")
            if small:
                lines += [
                    f"if {' or '.join(small)}:",
                    f'    raise ValueError("{parameter}: this kernel is for other sizes")',
                ]
        every = "".join(f"p{number}, " for number in range(len(inputs)))
        lines += [
            f"if any(tensor.numel() >= 2**31 for tensor in ({every})):",
            '    raise ValueError("this kernel counts elements in 32 bits")',
        ]
        heads = [f"size_{axis} = {sizes[axis]}" for axis in sorted(sizes)]
        return "\n    ".join([*heads, *lines])

    def _made(self) -> str:
        lines = []
        for number, tensor in enumerate(self._tensors[len(self._number) :], len(self._number)):
            shape = ", ".join(
                str(size) if axis is None else f"size_{axis}"
                for size, axis in zip(tensor.shape, tensor.axes, strict=True)
            )
            lines.append(
                f"p{number} = torch.empty(({shape},), dtype=torch.{tensor.dtype}, device=p0.device)"
            )
        return "\n    ".join(lines)


def number_text(value: float) -> str:
    """A number as Triton code; what begins with a parenthesis is one."""
    return f"({value!r})" if math.isfinite(value) else f'(float("{value}"))'


def _used_after(items: Sequence[Item], loop: Loop) -> list[int]:
    """Places of a loop's body of which the last result is read after it."""
    last = loop.end - loop.period
    later = [arg.step for item in items[loop.end :] for arg in item.args if isinstance(arg, Ref)]
    return sorted({place - last for place in later if last <= place < loop.end})
