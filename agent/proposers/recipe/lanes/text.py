"""Writes the steps of a lane as a Triton kernel and its launcher."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from agent.proposers.recipe import fuse
from agent.proposers.recipe.lanes.elements import Element, Load, Ref, Steps
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

    def __init__(
        self, steps: Steps, inputs: Mapping[str, Tensor], outputs: Sequence[Tensor], lanes: int
    ) -> None:
        self._steps = steps
        self._inputs = dict(inputs)
        self._outputs = list(outputs)
        self._lanes = lanes
        self._number = {name: number for number, name in enumerate(inputs)}
        self._variables: dict[int, str] = {}
        """By place of a step in the sequence."""
        self._loads: dict[Load, str] = {}
        self._strides: set[str] = set()
        self._body = _Body("    ")

    def kernel(self, items: Sequence[Item], loops: Sequence[Loop]) -> str:
        """The kernel and `kernel_function`, which takes the inputs in their order."""
        places = {item: place for place, item in enumerate(items) if isinstance(item, int)}
        place, pending = 0, list(loops)
        while place < len(items):
            if pending and pending[0].start == place:
                loop = pending.pop(0)
                self._loop(items, loop, _used_after(self._steps, items, places, loop))
                place = loop.end
                continue
            item = items[place]
            if isinstance(item, Store):
                self._store(self._body, item, self._element(self._placed(item.value, places)))
            else:
                args = [self._placed(arg, places) for arg in self._steps.all[item].args]
                self._variables[place] = f"v{place}"
                self._step(self._body, f"v{place}", item, [self._element(arg) for arg in args])
            place += 1
        return self._text()

    @staticmethod
    def _placed(element: Element, places: Mapping[int, int]) -> Element:
        return Ref(places[element.step]) if isinstance(element, Ref) else element

    def _step(self, body: _Body, name: str, step: int, args: Sequence[str]) -> None:
        # Triton's functions take no plain numbers alone.
        if args and all(arg.startswith("(") for arg in args):
            args = [f"(zero + {args[0]})", *args[1:]]
        body.add(f"{name} = {self._steps.all[step].template.format(*args)}")

    def _element(self, element: Element) -> str:
        """An element outside of loops, loaded where it was not yet."""
        if isinstance(element, Ref):
            return self._variables[element.step]
        if not isinstance(element, Load):
            return _number(element)
        if element not in self._loads:
            self._loads[element] = f"x{len(self._loads)}"
            self._load(self._body, self._loads[element], element, (0,) * len(element.at))
        return self._loads[element]

    def _load(self, body: _Body, name: str, load: Load, deltas: Sequence[int]) -> None:
        number, tensor = self._number[load.name], self._inputs[load.name]
        offset = self._offset(f"s{number}", load.at, deltas)
        if any(axis is not None for axis in tensor.axes):
            body.add(f"{name} = tl.load(p{number} + {offset}b{number}, mask=mask).to(tl.float32)")
        else:
            one = f"tl.load(p{number}{offset and ' + ' + offset[:-3]})"
            body.add(f"{name} = zero + {one}.to(tl.float32)")

    def _store(
        self, body: _Body, store: Store, value: str, deltas: Sequence[int] | None = None
    ) -> None:
        offset = self._offset(f"t{store.out}", store.at, deltas or (0,) * len(store.at))
        element = f"q{store.out}.dtype.element_ty"
        # A number as well is written in all lanes.
        value = f"(zero + {value})" if value.startswith("(") else value
        at = f"q{store.out} + {offset}c{store.out}"
        body.add(f"tl.store({at}, {value}.to({element}), mask=mask)")

    def _offset(self, strides: str, index: Sequence[int | None], deltas: Sequence[int]) -> str:
        """`2 * s0_1 + `: the offset along small dimensions."""
        text = ""
        for dim, (place, delta) in enumerate(zip(index, deltas, strict=True)):
            if place is None or (place == 0 and delta == 0):
                continue
            self._strides.add(f"{strides}_{dim}")
            at = f"{place}" if not delta else f"({place} + step * {delta})"
            text += f"{at} * {strides}_{dim} + "
        return text

    def _loop(self, items: Sequence[Item], loop: Loop, used: Sequence[int]) -> None:
        """A loop: what it carries is set before; `used` are places of its body read after it."""
        head = f"l{loop.start}"
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
        inputs = [f"p{number}" for number in self._number.values()]
        outputs = [f"q{number}" for number in range(len(self._outputs))]
        every = [
            *zip(inputs, "s" * len(inputs), self._inputs.values(), strict=True),
            *zip(outputs, "t" * len(outputs), self._outputs, strict=True),
        ]
        bases = []
        for name, letter, tensor in every:
            number = name[1:]
            terms = [
                f"lane_{axis} * {letter}{number}_{dim}"
                for dim, axis in enumerate(tensor.axes)
                if axis is not None
            ]
            self._strides |= {term.split(" * ")[1] for term in terms}
            if terms:
                bases.append(f"{'b' if letter == 's' else 'c'}{number} = {' + '.join(terms)}")
        sizes = [f"size_{axis}" for axis in range(self._lanes)]
        strides = [
            (f"{letter}{name[1:]}_{dim}", f"{name}.stride({dim})")
            for name, letter, tensor in every
            for dim in range(len(tensor.shape))
            if f"{letter}{name[1:]}_{dim}" in self._strides
        ]
        lanes = ["rest = lane"]
        for axis in reversed(range(self._lanes)):
            lanes += [f"lane_{axis} = rest % size_{axis}"] if axis else ["lane_0 = rest"]
            lanes += [f"rest = rest // size_{axis}"] if axis else []
        parameters = [*inputs, *outputs, *sizes, *(name for name, _ in strides), "total"]
        values = [*inputs, *outputs, *sizes, *(value for _, value in strides), "total"]
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
        for name, tensor in self._inputs.items():
            parameter = f"p{self._number[name]}"
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
        every = ", ".join([*(f"p{number}" for number in self._number.values()), ""])
        lines += [
            f"if any(tensor.numel() >= 2**31 for tensor in ({every})):",
            '    raise ValueError("this kernel counts elements in 32 bits")',
        ]
        heads = [f"size_{axis} = {sizes[axis]}" for axis in sorted(sizes)]
        return "\n    ".join([*heads, *lines])

    def _made(self) -> str:
        device = f"p{next(iter(self._number.values()))}.device"
        lines = []
        for number, tensor in enumerate(self._outputs):
            shape = ", ".join(
                str(size) if axis is None else f"size_{axis}"
                for size, axis in zip(tensor.shape, tensor.axes, strict=True)
            )
            lines.append(
                f"q{number} = torch.empty(({shape},), dtype=torch.{tensor.dtype}, device={device})"
            )
        return "\n    ".join(lines)


def _number(value: float) -> str:
    return f"({value!r})" if math.isfinite(value) else f'(float("{value}"))'


def _used_after(
    steps: Steps, items: Sequence[Item], places: Mapping[int, int], loop: Loop
) -> list[int]:
    """Places of a loop's body of which the last result is read after it."""
    last = loop.end - loop.period
    used = set()
    for item in items[loop.end :]:
        for arg in (item.value,) if isinstance(item, Store) else steps.all[item].args:
            if isinstance(arg, Ref) and last <= places[arg.step] < loop.end:
                used.add(places[arg.step] - last)
    return sorted(used)
