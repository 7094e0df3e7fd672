"""The values that a kernel's parameters may take, which of them go together, and what is near."""

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from agent.proposers.tune.rewrite import Value
from agent.proposers.tune.tunable import Parameter, Role, Tunable

Point = tuple[Value, ...]
"""A value for every parameter, in the order of `Space.parameters`."""

# Triton refuses tensors of more elements (triton/language/core.py, TRITON_MAX_TENSOR_NUMEL).
MOST_ELEMENTS: Final = 1 << 20
# Elements of one block that a thread holds: 255 registers, shared with everything else. Beyond
# this the compiler spills and takes minutes.
_PER_THREAD: Final = 512
_PER_THREAD_DOTS: Final = 256
# What a side that is not in the text is taken for: a row of a softmax, the width of a head.
_HIDDEN: Final = 256
_HIDDEN_DOTS: Final = 64
# Longer sides of a tensor core's tile gain nothing: 256 is the longest of one instruction.
_LONGEST_DOT_SIDE: Final = 256
_LARGEST_TILE: Final = 1 << 16
_LARGEST_COUNT: Final = 1 << 12
# Steps of 2 that a block may go from where it starts, each way.
_FAR: Final = 7
_LISTED: Final[dict[Role, Sequence[int]]] = {
    Role.WARPS: (1, 2, 4, 8, 16, 32),
    Role.STAGES: (1, 2, 3, 4, 5, 6),
    Role.LOOP_STAGES: (1, 2, 3, 4, 5),
    Role.CTAS: (1, 2, 4),
}
_LANES: Final = 32
# Shared memory of one block: 227 KiB on compute capability 9.0 and 10.0 (CUDA C++ Programming
# Guide, table of technical specifications).
_SHARED_BYTES: Final = 232_448


# What usually is good for a start: elements of a block and warps; sides, depth, warps and stages of
# a product's tile. Every one is a multiple of what one instruction of a warp or warp group takes.
_FLAT: Final = ((1024, 4), (2048, 4), (4096, 8), (8192, 8))
_PRODUCTS: Final = (
    ((128, 128), 64, 8, 3),
    ((128, 256), 64, 8, 3),
    ((64, 64), 32, 4, 3),
    ((128, 64), 32, 4, 4),
    ((64, 128), 32, 4, 4),
    ((128, 128), 32, 4, 4),
)


class Hint(StrEnum):
    """A value that a diagnosis suggests to try first."""

    SMALLER = "smaller"
    """Smaller blocks, so more programs: the card is not full."""
    LARGER = "larger"
    """Larger blocks: more bytes in flight for each program, more reuse."""
    DEEPER = "deeper"
    """More stages: loads wait."""
    MORE_WARPS = "more_warps"
    """More warps: schedulers have nothing to issue."""


class Space:
    """All points of a file.

    Parameters
    ----------
    tunable
        The file and its parameters.
    item_bytes
        Bytes per item of the smallest floating-point input.
    hints
        Orders neighbours; nothing is left out for them.
    """

    def __init__(self, tunable: Tunable, item_bytes: int = 2, hints: Sequence[Hint] = ()) -> None:
        self.tunable = tunable
        self.parameters = tunable.parameters
        self.start: Point = tuple(parameter.value for parameter in self.parameters)
        self.domains = [_domain(parameter, dots=tunable.dots) for parameter in self.parameters]
        self._index = {parameter.name: i for i, parameter in enumerate(self.parameters)}
        self._item_bytes = item_bytes
        self._hints = tuple(hints)
        self._frozen: set[int] = set()
        self._most_per_thread = _PER_THREAD_DOTS if tunable.dots else _PER_THREAD
        self._load = self._loads(self.start)

    @property
    def size(self) -> int:
        """Points, allowed or not."""
        return math.prod(len(self._values(i)) for i in range(len(self.parameters)))

    def freeze(self, position: int) -> None:
        """Keep a parameter at its start: other values gave other results."""
        self._frozen.add(position)

    def exclude_slow(self, point: Point) -> None:
        """Leave out what asks as much of a thread as a point that takes too long to compile."""
        load = self._loads(point)[1]
        if load > self._load[1]:
            self._most_per_thread = min(self._most_per_thread, load - 1)

    def text(self, point: Point) -> str:
        """The file at a point."""
        return self.tunable.write(self.values(point))

    def values(self, point: Point) -> dict[str, Value]:
        """A point by names of parameters."""
        return {
            parameter.name: value for parameter, value in zip(self.parameters, point, strict=True)
        }

    def is_allowed(self, point: Point) -> bool:
        """Whether a point keeps within the limits, or is no further beyond than the start."""
        if point == self.start:
            return True
        if any(point[i] != self.start[i] for i in self._frozen):
            return False
        limits = (MOST_ELEMENTS, self._most_per_thread, _SHARED_BYTES)
        loads = zip(self._loads(point), self._load, limits, strict=True)
        return all(load <= max(limit, before) for load, before, limit in loads) and (
            self._largest(point) >= min(_LANES, self._largest(self.start))
        )

    def position(self, point: Point) -> tuple[float, ...]:
        """Coordinates in steps: one for each step of a domain."""
        return tuple(
            float(domain.index(value)) if value in domain else -1.0
            for domain, value in zip(self.domains, point, strict=True)
        )

    def neighbours(self, point: Point, reach: int = 2) -> list[Point]:
        """Points that differ in one parameter by up to `reach` steps, what hints say first."""
        candidates: list[tuple[float, int, Point]] = []
        for index, domain in enumerate(self.domains):
            if index in self._frozen:
                continue
            for value, step in _near(domain, point[index], reach):
                other = (*point[:index], value, *point[index + 1 :])
                if self.is_allowed(other):
                    weight = abs(step) - self._hint_bonus(self.parameters[index], step)
                    candidates.append((weight, len(candidates), other))
        return [other for _, _, other in sorted(candidates)]

    def presets(self) -> list[Point]:
        """Points that are good for many kernels, as far as this one has what they set."""
        tiles = [i for i, parameter in enumerate(self.parameters) if parameter.role is Role.TILE]
        inner = {name for tile in self.tunable.tiles if not tile.loaded for name in tile.names}
        presets: list[dict[int, int]] = []
        if self.tunable.dots:
            sides = [i for i in tiles if self.parameters[i].name in inner]
            for lengths, depth, warps, stages in _PRODUCTS:
                sizes = dict.fromkeys(tiles, depth)
                sizes |= {i: lengths[n % 2] for n, i in enumerate(sides)}
                presets.append(sizes | self._options(warps, stages))
        elif tiles:
            for elements, warps in _FLAT:
                presets.append(self._flat(tiles, elements) | self._options(warps, 0))
        points = []
        for values in presets:
            point = tuple(
                values[i] if values.get(i) in self.domains[i] else value
                for i, value in enumerate(self.start)
            )
            if self.is_allowed(point):
                points.append(point)
        return list(dict.fromkeys(points))

    def _flat(self, tiles: Sequence[int], elements: int) -> dict[int, int]:
        """Sizes with so many elements; of a block of several sides the last one is set."""
        values: dict[int, int] = {}
        for index in tiles:
            name = self.parameters[index].name
            blocks = [tile for tile in self.tunable.tiles if name in tile.names]
            mates = {i for i in tiles for block in blocks if self.parameters[i].name in block.names}
            if not mates or index == max(mates):
                others = self._elements(
                    frozenset(self.parameters[i].name for i in mates - {index}), self.start
                )
                hidden = _HIDDEN if any(block.hidden for block in blocks) else 1
                rest = max(1, elements // (others * hidden))
                values[index] = 1 << (rest.bit_length() - 1)
        return values

    def _options(self, warps: int, stages: int) -> dict[int, int]:
        roles = {Role.WARPS: warps, Role.STAGES: stages}
        return {i: roles[p.role] for i, p in enumerate(self.parameters) if p.role in roles}

    def pairs(self, point: Point) -> Iterator[Point]:
        """Points that differ in two parameters by one step each."""
        free = [i for i in range(len(self.parameters)) if i not in self._frozen]
        for one, two in itertools.combinations(free, 2):
            for first, _ in _near(self.domains[one], point[one], 1):
                for second, _ in _near(self.domains[two], point[two], 1):
                    other = list(point)
                    other[one], other[two] = first, second
                    if self.is_allowed(tuple(other)):
                        yield tuple(other)

    def crossover(self, one: Point, two: Point, generator: random.Random) -> Point | None:
        """A point with some values of each; None where they go together in no way."""
        point = tuple(generator.choice(pair) for pair in zip(one, two, strict=True))
        return point if point not in (one, two) and self.is_allowed(point) else None

    def random_point(self, generator: random.Random) -> Point | None:
        """An allowed point at random; None where 50 tries found none."""
        for _ in range(50):
            point = tuple(generator.choice(self._values(i)) for i in range(len(self.parameters)))
            if self.is_allowed(point):
                return point
        return None

    def _values(self, index: int) -> Sequence[Value]:
        return (self.start[index],) if index in self._frozen else self.domains[index]

    def _hint_bonus(self, parameter: Parameter, step: int) -> float:
        """How far the hints speak for a step."""
        direction = {
            Role.TILE: (Hint.LARGER in self._hints) - (Hint.SMALLER in self._hints),
            Role.STAGES: int(Hint.DEEPER in self._hints),
            Role.LOOP_STAGES: int(Hint.DEEPER in self._hints),
            Role.WARPS: int(Hint.MORE_WARPS in self._hints),
        }.get(parameter.role, 0)
        return 0.5 * direction * (1 if step > 0 else -1)

    def _elements(self, names: frozenset[str], point: Point) -> int:
        values = (point[self._index[name]] for name in names)
        return math.prod(value for value in values if isinstance(value, int))

    def _largest(self, point: Point) -> int:
        hidden = _HIDDEN_DOTS if self.tunable.dots else _HIDDEN
        return max(
            (
                self._elements(tile.names, point) * (hidden if tile.hidden else 1)
                for tile in self.tunable.tiles
            ),
            default=_LANES,
        )

    def _loads(self, point: Point) -> tuple[int, int, int]:
        """Elements of the largest block, of it in one thread, and bytes of shared memory."""
        largest = self._largest(point)
        threads = _LANES * max(self._values_of_role(Role.WARPS, point), default=4)
        shared = 0
        if self.tunable.dots:
            buffered = max(1, max(self._values_of_role(Role.STAGES, point), default=3) - 1)
            loaded = {tile.names for tile in self.tunable.tiles if tile.loaded and tile.in_loop}
            elements = sum(self._elements(names, point) for names in loaded if len(names) > 1)
            shared = buffered * elements * self._item_bytes
        return largest, largest // threads, shared

    def _values_of_role(self, role: Role, point: Point) -> list[int]:
        """What a point sets for the parameters of a role."""
        pairs = zip(self.parameters, point, strict=True)
        return [
            value for parameter, value in pairs if parameter.role is role and isinstance(value, int)
        ]


def _domain(parameter: Parameter, *, dots: bool) -> tuple[Value, ...]:
    if parameter.choices is not None:
        return tuple(dict.fromkeys((*parameter.choices, parameter.value)))
    value = parameter.value
    assert isinstance(value, int)
    if parameter.role is Role.TILE:
        most = _LONGEST_DOT_SIDE if dots and parameter.least > 1 else _LARGEST_TILE
        values = _powers(max(parameter.least, value >> _FAR), min(most, value << _FAR))
    else:
        values = _LISTED.get(parameter.role) or _powers(
            max(1, value >> _FAR), min(_LARGEST_COUNT, value << _FAR)
        )
    return tuple(sorted({*values, value}))


def _powers(low: int, high: int) -> Sequence[int]:
    return [1 << n for n in range(max(low, 1).bit_length() - 1, high.bit_length()) if 1 << n >= low]


def _near(domain: Sequence[Value], value: Value, reach: int) -> Iterator[tuple[Value, int]]:
    """Values of a domain up to `reach` steps away, the nearest first; all of an unordered one."""
    if value not in domain:
        return
    index = domain.index(value)
    for step in (s for n in range(1, reach + 1) for s in (n, -n)):
        if 0 <= index + step < len(domain):
            yield domain[index + step], step
