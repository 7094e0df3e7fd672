"""Numbers in running text, each with its unit; what is part of a word or a size is none."""

import re
from dataclasses import dataclass

from kb.profiles.units import Unit, find_unit

_NUMBER = re.compile(
    r"(?<![\w.,#$])(?<!\w-)(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?"
)
# `30-40 %`, `30 to 40%`: a range is read as its middle.
_RANGE_END = re.compile(r" ?(?:-|–|to|\.\.) ?(\d+(?:\.\d+)?)(?= ?(?:%|percent\b))")
_UNIT = re.compile(r"(?:%|[A-Za-zµμ]+(?:/[A-Za-z]+)?)(?![A-Za-z0-9_])|%")
_MAGNITUDES = {
    "thousand": 1e3, "million": 1e6, "millions": 1e6, "mio": 1e6, "billion": 1e9,
    "k": 1e3, "m": 1e6, "g": 1e9, "bn": 1e9,
}  # fmt: skip
# After a space a lone letter is a unit of something (30 m, 4 g): only words scale there.
_WORDED = frozenset({"thousand", "million", "millions", "mio", "billion"})
# Lone letters that are a unit after a space as well; `30 b`, `4 x` and `2 w` may be anything.
_LETTERS = frozenset({"%", "s"})
_JOINING = frozenset("-/:×*^–")


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a text."""

    start: int
    end: int
    """After its unit."""
    value: float
    """In the base unit of its dimension."""
    unit: Unit | None
    """None where the text gives none."""
    decimal: bool
    """Whether it was written with a point."""
    of: float | None = None
    """The number that it is said to be a part of."""


def find_numbers(text: str) -> list[Number]:
    """The numbers of a text, in order; `1,024` and `1e6` are one, `4096x4096` and `8-way` none."""
    numbers: list[Number] = []
    for match in _NUMBER.finditer(text):
        if numbers and match.start() < numbers[-1].end:
            continue  # the end of a range
        value, end = float(match.group().replace(",", "")), match.end()
        if (upper := _RANGE_END.match(text, end)) is not None:
            value, end = (value + float(upper[1])) / 2, upper.end()
        if (number := _with_unit(text, match.start(), end, value)) is not None:
            numbers.append(number)
    return numbers


def _with_unit(text: str, start: int, end: int, value: float) -> Number | None:
    """The number with the unit behind it; None where it is a part of something else."""
    decimal = "." in text[start:end]
    near = text[end : end + 3]
    spaces = len(near) - len(near.lstrip(" "))
    unit_at = _UNIT.match(text, end + spaces)
    if unit_at is not None:
        word = unit_at.group().lower()
        if word in _MAGNITUDES and (not spaces or word in _WORDED):
            return Number(start, unit_at.end(), value * _MAGNITUDES[word], None, decimal=False)
        unit = find_unit(word)
        if unit is not None and (not spaces or len(word) > 1 or word in _LETTERS):
            return Number(start, unit_at.end(), value * unit.factor, unit, decimal)
    following = text[end : end + 2]
    if following[:1].isalpha() or following[:1] == "_":
        return None  # 30gemm, 3x, 128x128
    if following[:1] in _JOINING and following[1:].isalnum():
        return None  # 8-way, 1/32, 10:30
    return Number(start, end, value, None, decimal)
