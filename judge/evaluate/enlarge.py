"""Larger shapes where the tested ones are too small for a kernel's blocks.

A kernel that processes a row in blocks of 1024 has a loop with one iteration on every row of a
reduced shape, or a grid of one program: what it carries between blocks, and where its second
program starts, is then never tested. Triton's interpreter counts the iterations of every loop over
blocks and the programs along every axis of a grid. Where a count never reached two, shapes are made
from the kernel's own constants, one dimension at a time.

The cost limit is a number of memory accesses by interpreted kernels, the same on every
machine.
"""

import ast
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from judge.evaluate.cases import PlannedShape, further_case
from judge.problem.source import ProblemFile
from judge.problem.syntax import integer, parse
from judge.problem.variants import SMALL, Sizes, Variant, partial_blocks
from judge.worker.messages import Called, ValueKind

# Two blocks of 32,768 beside another dimension of a few; the interpreter takes a block at once.
LIMIT_ELEMENTS = 1 << 18
# A block beyond this is none that a kernel takes at a time.
_LARGEST_BLOCK = 1 << 15
# Seconds after which no further shape is begun for the sake of a loop.
_SECONDS = 60.0
# The longest that one call may take; more is the interpreter's fault and not the kernel's.
CALL_SECONDS = 30.0
_LONG_SECONDS = 2.0
_ENOUGH = 2
# Beyond two blocks of 1024, odd: where a kernel's blocks are not known, and for the last dimension
# wherever that is cheap.
_LONG = 2253
# Where a size is given beside which neither that nor two blocks are long.
_LONGEST = 9011
# What kernels that take no parts of a block may want sizes to be multiples of.
_WHOLE = 256
# How many dimensions are long in turn.
_MOST_LONG = 4
# An access with the arithmetic around it takes about 0.1 ms. So one call at a shape that no loop
# asks for takes a quarter of a second at most, and all of them together a second.
MOST_ACCESSES = 2500
_ALL_ACCESSES = 10_000
_NO_CALL = Called(call=0, outputs=[], seconds=0.0)


@dataclass(frozen=True, slots=True)
class LoopCounts:
    """What the interpreter has counted so far."""

    last: Called = _NO_CALL
    """The last call."""
    fewest: int = 0
    """The fewest accesses to memory of any call."""
    constants: Mapping[str, int] = field(default_factory=dict)
    """Of the last call's shape."""
    calls: int = 0
    """Calls so far."""
    too_long: bool = False
    """The last call was ended for the number of its accesses."""
    judged: int = 0
    """Cases so far that count and that the kernel did not decline."""

    @property
    def short_loops(self) -> list[str]:
        """Lines of the loops over blocks that took fewer than `_ENOUGH`, in order."""
        few = (line for line, turns in self.last.loops.items() if turns < _ENOUGH)
        return sorted(few, key=int)

    @property
    def single_program_axes(self) -> list[str]:
        """Axes of grids along which there never were `_ENOUGH` programs."""
        return [axis for axis, programs in self.last.programs.items() if programs < _ENOUGH]


@dataclass(slots=True)
class Enlargement:
    """Shapes beyond the planned ones, as long as a loop wants them."""

    problem: ProblemFile
    text: str
    """The kernel file's."""
    progress: Callable[[], LoopCounts]
    given_shape_judged: bool
    """The given shape was judged."""
    why_not_all: str = ""
    """Why some shape that could have helped was not tried."""
    long: bool = False
    """Shapes are beyond what the loops want: a kernel may decline them."""
    _sizes: Sizes = field(init=False)
    _ineffective: set[str] = field(default_factory=set)
    """Constants on which neither a loop nor a block depends."""
    _used: set[int] = field(default_factory=set)
    """Sizes of constants, which are no blocks."""
    _tried: list[Mapping[str, int]] = field(default_factory=list)
    _spent: int = 0
    """Accesses at long shapes."""
    _start: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._sizes = Sizes(self.problem, LIMIT_ELEMENTS)

    def shapes(self, *, secret: int) -> Iterator[PlannedShape]:
        """Shapes to be judged: while there are loops with too few iterations, then long ones.

        `secret` seeds the values.
        """
        yield from self._loop_shapes(secret)
        yield from self._long_shapes(secret)

    def describe_untested(self) -> str | None:
        """What no shape tested, in a sentence; None where all loops ran two iterations."""
        lines = self.progress().short_loops
        if not lines:
            return None
        why = self.why_not_all or "its length does not depend on the problem's sizes"
        return (
            f"the loop in line {lines[0]} ran fewer than {_ENOUGH} iterations at every tested "
            f"size, so what it carries between iterations was not tested ({why})"
        )

    def _long_shapes(self, secret: int) -> Iterator[PlannedShape]:
        """The last dimension long, and others while an axis of a grid had one program."""
        self.long = True
        for index, name in enumerate(self._sizes.last_first[:_MOST_LONG]):
            if index and not self.progress().single_program_axes:
                return
            tried = len(self._tried)
            block = self._block()
            # Two blocks and a part among them.
            lengths = {_LONG, partial_blocks(block)} if block else {_LONG}
            for size in (*sorted(lengths, reverse=True), _LONGEST):
                if self._estimate(name, size) > MOST_ACCESSES or self._spent > _ALL_ACCESSES:
                    continue
                if size == _LONGEST and len(self._tried) > tried:
                    break
                yield from self._lengthen(name, size, secret, large=not index)
                if len(self._tried) > tried and not self.progress().too_long:
                    break

    def _estimate(self, name: str, size: int) -> float:
        """How many accesses a call may be expected to make where a dimension is so long.

        At least: where the blocks along it are smaller than the largest, it is more.
        """
        block = self._block() or 1
        given = self.problem.constants[name].value
        return self.progress().fewest * math.ceil(size / block) / math.ceil(given / block)

    def _lengthen(
        self, name: str, size: int, secret: int, *, large: bool
    ) -> Iterator[PlannedShape]:
        """Shapes with a dimension so long until the kernel takes one.

        Beside short ones first. Where the problem or the kernel has no such shape, beside those
        that are given; then a multiple of what blocks are.
        """
        before = self.progress().judged
        whole = max(size // _WHOLE, 1) * _WHOLE
        for length, given in ((size, False), (size, True), (whole, False), (whole, True)):
            variant = self._sizes.lengthen(name, length, beside_given=given)
            if variant is None or variant.constants in self._tried:
                continue
            yield self._plan_shape(variant, secret)
            counts = self.progress()
            self._spent += MOST_ACCESSES if counts.too_long else counts.last.accesses
            if counts.judged > before and large:
                # What overflows or cancels in a long sum shows on large values.
                yield self._plan_shape(variant, secret, ValueKind.LARGE)
                self._spent += counts.last.accesses
            if counts.judged > before or counts.too_long:
                return

    def _loop_shapes(self, secret: int) -> Iterator[PlannedShape]:
        """Blocks that grow with a shape are followed: the next shape is made from the larger."""
        fits = self._sizes.elements({}) <= LIMIT_ELEMENTS
        if not self.given_shape_judged and self.progress().short_loops and fits:
            yield self._plan_shape(Variant({}, "variant"), secret)
        largest = 0
        while (block := self._block()) > largest:
            largest = block
            candidates, left_out = self._sizes.enlarge(block)
            for name, candidate in candidates.items():
                if not self.progress().short_loops:
                    return
                now = self.progress()
                seconds, cost = now.last.seconds, self._cost(candidate.constants)
                # A short call is mostly what every call takes, whatever its shape.
                likely = (
                    seconds * cost / self._cost(now.constants) if seconds > _LONG_SECONDS else 0.0
                )
                if name in self._ineffective:
                    continue
                late = time.monotonic() > self._start + _SECONDS
                if late or likely > CALL_SECONDS / 2:
                    self.why_not_all = f"running two blocks of {block} would take too long"
                    return
                before = self.progress()
                yield self._plan_shape(candidate, secret)
                now = self.progress()
                if now.calls == before.calls:  # the problem has no such shape
                    left_out.append(name)
                elif (now.last.loops, now.last.blocks) == (before.last.loops, before.last.blocks):
                    self._ineffective.add(name)
                if now.judged == before.judged:
                    whole = self._sizes.whole_blocks(block)
                    if whole is not None and whole.constants not in self._tried:
                        yield self._plan_shape(whole, secret)

            if unspanned := [name for name in left_out if name not in self._ineffective]:
                self.why_not_all = (
                    f"{unspanned[0]} cannot span two blocks of {block} in this problem, or is "
                    "too large for the interpreter then"
                )

    def _plan_shape(
        self, variant: Variant, secret: int, kind: ValueKind = ValueKind.NORMAL
    ) -> PlannedShape:
        constants = dict(variant.constants)
        self._tried.append(constants)
        self._used |= set(constants.values())
        source = self.problem.with_constants(constants)
        case = further_case(secret + sum(constants.values()), kind)
        return PlannedShape("variant", source, constants, (case,))

    def _cost(self, constants: Mapping[str, int]) -> float:
        """What the interpreter's time grows with, roughly."""
        sizes = {name: constant.value for name, constant in self.problem.constants.items()}
        return float(math.prod(max(size, 1) for size in (sizes | dict(constants)).values()))

    def _block(self) -> int:
        """The largest size of a block; integers of the file where launches give none."""
        sizes = [block for block in self.progress().last.blocks if self._is_block(block)]
        if not sizes:
            nodes = ast.walk(parse(self.text, "kernel"))
            values = (integer(n, {}) for n in nodes if isinstance(n, ast.Constant | ast.BinOp))
            sizes = [value for value in values if value is not None and self._is_block(value)]
        return max(sizes, default=0)

    def _is_block(self, value: int) -> bool:
        return SMALL <= value <= _LARGEST_BLOCK and value not in self._used
