"""Draws other sizes and settings for an operator's problem file, of about as much work."""

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from agent.problem.shapes import input_shapes
from agent.problem.source import ProblemFile

# Constants that are no sizes: windows and how they move.
SETTINGS = ("WINDOW", "KERNEL_SIZE", "STRIDE", "PADDING", "DILATION")
# Sizes up to this are left alone, but for settings.
_SMALL = 8
# Of the elements at benchmark size, what is comparable.
_LEAST, _MOST = 0.5, 2.0
# Beyond this, 32 bits do not count elements.
_LARGE = 1 << 31
_ATTEMPTS = 50


@dataclass(frozen=True, slots=True)
class Drawn:
    """A problem at other sizes."""

    label: str
    """odd, one, settings, large."""
    constants: Mapping[str, int]
    """Those that changed."""
    source: str


def draws(text: str, name: str, seed: int, *, large: bool) -> Iterator[Drawn]:
    """Shapes in turn, without end: odd ones, with a size of 1, with other settings.

    Parameters
    ----------
    large
        Begin with one of more than 2**31 elements.
    """
    generator = random.Random(seed)
    sizes = _Sizes(ProblemFile.parse(text, name))
    if large:
        found = sizes.large(generator)
        if found is not None:
            yield found
    kinds: list[Callable[[random.Random], Drawn | None]] = [sizes.odd, sizes.one]
    if sizes.settings:
        kinds.append(sizes.other_settings)
    for number in range(_ATTEMPTS):
        found = kinds[number % len(kinds)](generator)
        if found is not None:
            yield found


class _Sizes:
    def __init__(self, problem: ProblemFile) -> None:
        self._problem = problem
        self._rules = problem.judge.constants
        self.values = {
            found[1]: int(found[2])
            for found in re.finditer(r"^([A-Z_]+) = (\d+)$", problem.text, re.MULTILINE)
        }
        self.settings = [each for each in SETTINGS if each in self.values]
        self._names = [
            name
            for name, each in problem.constants.items()
            if name in self.values and name not in SETTINGS and each.value > _SMALL
        ]
        self._given = self.elements(self.values)

    def elements(self, values: Mapping[str, int]) -> int:
        """Of all inputs together."""
        shapes = input_shapes(self._text(values), self._problem.name)
        return sum(math.prod(each) for each in shapes) if shapes else 0

    def odd(self, generator: random.Random) -> Drawn | None:
        """All sizes odd, as far as the operator has them."""
        values = dict(self.values)
        for name in self._names:
            if not self._problem.constants[name].structural:
                values[name] = self._ruled(
                    name, int(values[name] * generator.uniform(0.7, 1.4)) | 1
                )
        return self._drawn("odd", values)

    def one(self, generator: random.Random) -> Drawn | None:
        """One size is 1, another one makes up for it."""
        free = [each for each in self._names if not self._problem.constants[each].structural]
        if len(free) < 2:
            return None
        chosen = generator.choice(free)
        other = generator.choice([each for each in free if each != chosen])
        values = dict(self.values)
        values[other] = self._ruled(other, values[other] * values[chosen])
        values[chosen] = self._ruled(chosen, 1)
        return self._drawn("one", values)

    def other_settings(self, generator: random.Random) -> Drawn | None:
        """Another window, stride, padding, dilation."""
        values = dict(self.values)
        window = next((each for each in ("WINDOW", "KERNEL_SIZE") if each in values), None)
        if window is not None:
            values[window] = generator.randint(2, 5)
        for name, most in (("STRIDE", 3), ("DILATION", 2)):
            if name in values:
                values[name] = generator.randint(1, most)
        if "PADDING" in values:
            values["PADDING"] = generator.randint(0, values.get(window or "", 2) // 2)
        return self._drawn("settings", values)

    def large(self, generator: random.Random) -> Drawn | None:
        """More than 2**31 elements in one input."""
        shapes = input_shapes(self._problem.text, self._problem.name) or []
        free = [each for each in self._names if not self._problem.constants[each].structural]
        if not free or not shapes:
            return None
        name = free[0]
        most = max(math.prod(each) for each in shapes)
        values = dict(self.values)
        values[name] = self._ruled(
            name, values[name] * (_LARGE // most + 1) + generator.randint(1, 9)
        )
        return Drawn("large", self._changed(values), self._text(values))

    def _drawn(self, label: str, values: dict[str, int]) -> Drawn | None:
        changed = self._changed(values)
        share = self.elements(values) / max(1, self._given)
        return (
            Drawn(label, changed, self._text(values))
            if changed and _LEAST <= share <= _MOST
            else None
        )

    def _ruled(self, name: str, value: int) -> int:
        rule = self._rules.get(name)
        return max(1, value) if rule is None else rule.nearest(value)

    def _changed(self, values: Mapping[str, int]) -> dict[str, int]:
        return {name: value for name, value in values.items() if value != self.values[name]}

    def _text(self, values: Mapping[str, int]) -> str:
        def put(found: re.Match[str]) -> str:
            return f"{found[1]} = {values.get(found[1], int(found[2]))}"

        return re.sub(r"^([A-Z_]+) = (\d+)$", put, self._problem.text, flags=re.MULTILINE)
