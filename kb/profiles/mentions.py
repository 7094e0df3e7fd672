"""Metrics with their values in running text: `L2 hit rate is 30%`, `255 registers per thread`.

A number belongs to a name where nothing but linking words stands between them, and where its unit
is one that the metric has. What is not certain is left unread: a wrong number is worse than none.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from kb.profiles.derived import without_undefined
from kb.profiles.keys import with_derived
from kb.profiles.names import Name, NamePlace, find_names
from kb.profiles.ncu_rules import rule_figures
from kb.profiles.numbers import Number, find_numbers
from kb.profiles.units import Unit, find_unit
from kb.vocabulary import read_data

# Marks that may stand between a name and its value: of tables, JSON, CSV and brackets.
_MARKS = frozenset(":=~≈<>≤≥→()[]|'\"-*`,") | {"->"}
_FROM = "from"
# What part a number is of the next one: `25.1 of 30.8 cycles`.
_PART_OF = re.compile(r" {0,3}(?:(?:out )?of|/) {1,3}")
_NUMBER_NEXT = re.compile(r"[ :=]{0,3}\d")
# Statistics of a metric over its units or passes; its own is the average.
_AVERAGE = frozenset({"avg", "average", "mean"})
_EXTREME = frozenset({"min", "max", "minimum", "maximum"})
_ENDING = frozenset(";.!?\n")
_TOKEN = re.compile(r"[A-Za-zµμ][A-Za-z0-9µμ]*(?:/[A-Za-z]+)?|%|\d[\w.]*|->|[^\sA-Za-z0-9]|\n")
_SPACES = re.compile(r"[ \t\r]*")
# Tokens between a name and its value, at most; and words among them that no list has.
_MAX_DISTANCE, _UNKNOWN = 12, 6
# Counters may be a little over their peak; a larger share is some other number.
_MAX_PERCENT = 110.0
# In these a number without its unit says nothing, unless an identifier stands before it.
_NEED_UNIT = frozenset({"byte", "byte/s", "ns", "Hz"})


@cache
def _words(what: str) -> frozenset[str]:
    return frozenset(read_data("number_words.yaml")[what].split())


@cache
def _skippable_words() -> frozenset[str]:
    """What may stand between a name and the value behind it."""
    return _words("linking") | _words("onward") | _MARKS | _AVERAGE | _EXTREME | {_FROM}


_Mention = tuple[str, float]
"""A metric's full name and the value that a text gives it, in the metric's base unit."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text says in numbers."""

    metrics: dict[str, float]
    """Full metric name → value."""
    rest: str
    """The text with the names that have a value blanked: they name nothing else."""


def read_mentions(text: str) -> Reading:
    """The metrics that a text gives with a value, the first value of each.

    Takes time in proportion to the text.
    """
    numbers = find_numbers(text)
    if not numbers:
        return Reading({}, text)
    places = [name for name in find_names(text) if not _is_a_unit(text, name)]
    orders = ((_Pairing.behind, _Pairing.ahead), (_Pairing.ahead, _Pairing.behind))
    pairs = max((_Pairing(text, places, numbers).pairs(order) for order in orders), key=len)
    metrics: dict[str, float] = {}
    rest, end = [], 0
    for place, (name, value) in pairs:
        metrics.setdefault(name, value)
        rest += [text[end : place.start], " " * (place.end - place.start)]
        end = place.end
    # A sentence of ncu's rules has its figures in words of its own.
    metrics = with_derived(rule_figures(text)) | metrics
    return Reading(without_undefined(metrics), "".join([*rest, text[end:]]))


def _is_a_unit(text: str, place: NamePlace) -> bool:
    """Whether it stands in a table's column of units: `register/thread`."""
    token = _TOKEN.match(text, place.start)
    return token is not None and "/" in token.group() and find_unit(token.group()) is not None


_Look = Callable[["_Pairing", int], _Mention | None]


@dataclass(slots=True)
class _Pairing:
    """Gives each name its number; none is used twice."""

    text: str
    places: Sequence[NamePlace]
    numbers: Sequence[Number]
    used: set[int] = field(default_factory=set)
    as_code: bool = field(init=False)
    """Whether a metric is named as code names it: in such a list bare words are metrics."""

    def __post_init__(self) -> None:
        self.as_code = any("_" in self.text[place.start : place.end] for place in self.places)

    def pairs(self, order: tuple[_Look, _Look]) -> list[tuple[NamePlace, _Mention]]:
        """Names with what they are given, in order; each looks for its number in this order."""
        pairs = []
        for index, place in enumerate(self.places):
            if all(name.listed for name in place.names) and not self.as_code:
                continue
            mention = order[0](self, index) or order[1](self, index)
            if mention is not None:
                pairs.append((place, mention))
        return pairs

    def behind(self, index: int) -> _Mention | None:
        """What the number behind the name says: `L2 hit rate is only 30 %`."""
        text, place = self.text, self.places[index]
        bound = self.places[index + 1].start if index + 1 < len(self.places) else len(text)
        first = bisect_left(self.numbers, place.end, key=lambda n: n.start)
        starts = {n.start: first + at for at, n in enumerate(self.numbers[first : first + 4])}
        position, unknown = place.end, 0
        gap: list[str] = []
        column: Unit | None = None
        listing = False
        for _ in range(_MAX_DISTANCE):
            position = self._past_spaces(position)
            if position >= bound:
                return None
            if (at := starts.get(position)) is not None:
                number = self.numbers[at]
                if self._is_former_value(number, gap):
                    position = number.end
                    gap.clear()
                    continue
                if self._is_extreme(place, number, gap, bound):
                    position, listing = number.end, True
                    gap.clear()
                    continue
                stated = number.unit is not None and gap and gap[-1] in _words("stating")
                change = self._following(number) in _words("change")
                if at in self.used or (unknown and not stated) or change:
                    return None
                return self._take(at, _meaning(place, self._part(at), column, gap, self.as_code))
            token = _TOKEN.match(text, position)
            if token is None or (self._ends(token) and not (listing and token.group() == ",")):
                return None
            word = token.group().lower()
            if word not in _skippable_words():
                unit = None if unknown else find_unit(word)
                column = unit or column
                unknown += unit is None
                if unknown > _UNKNOWN or (unit is None and not word[0].isalpha()):
                    return None
            gap.append(word)
            position = token.end()
        return None

    def ahead(self, index: int) -> _Mention | None:
        """What the number before the name says: `30% L2 hit rate`, `255 registers per thread`."""
        place = self.places[index]
        at = bisect_left(self.numbers, place.start, key=lambda n: n.start) - 1
        since = self.places[index - 1].end if index else 0
        if at > 0 and self._part(at - 1).of is not None:
            at -= 1
        if at < 0 or at in self.used or self.numbers[at].start < since:
            return None
        number = self._part(at)
        tokens = _TOKEN.finditer(self.text[number.end : place.start])
        between = [token.group().lower() for token in tokens]
        if len(between) > _MAX_DISTANCE // 2 or not set(between) <= _words("of"):
            return None
        if number.unit is None and (between or place.names[0].metric.unit == "%"):
            return None
        return self._take(at, _meaning(place, number, None, (), self.as_code, counted=True))

    def _take(self, at: int, mention: _Mention | None) -> _Mention | None:
        if mention is not None:
            self.used.add(at)
            if self._part(at).of is not None:
                self.used.add(at + 1)
        return mention

    def _part(self, at: int) -> Number:
        """A number with what it is a part of, where that stands behind it in the same unit."""
        number, following = self.numbers[at], self.numbers[at + 1 : at + 2]
        if not following or not _PART_OF.fullmatch(self.text, number.end, following[0].start):
            return number
        (whole,) = following
        if number.unit not in (None, whole.unit) or find_unit("%") == whole.unit:
            return number
        unscaled = number.unit is None and whole.unit is not None
        value = number.value * (whole.unit.factor if unscaled and whole.unit else 1.0)
        if not 0 < value <= whole.value:
            return number
        return replace(number, end=whole.end, value=value, unit=whole.unit, of=whole.value)

    def _ends(self, token: re.Match[str]) -> bool:
        """Whether what follows is of another thing: another clause, line or item."""
        word = token.group().lower()
        spaced = self.text[token.end() : token.end() + 1].isspace()
        return word in _words("breaking") or word in _ENDING or (word == "," and spaced)

    def _past_spaces(self, position: int) -> int:
        match = _SPACES.match(self.text, position)
        return match.end() if match is not None else position

    def _following(self, number: Number) -> str:
        token = _TOKEN.match(self.text, self._past_spaces(number.end))
        return token.group().lower() if token is not None else ""

    def _is_extreme(self, place: NamePlace, number: Number, gap: Sequence[str], bound: int) -> bool:
        """Whether it is said to be the least or most of a metric that is an average."""
        if ".max" in place.names[0].metric.name:
            return False
        before = set(gap[-2:])
        if before & (_AVERAGE | _EXTREME):
            return not before & _AVERAGE
        if self._past_spaces(number.end) >= bound:
            return False
        # `271 min 198 max 3190`: what follows is the next number's.
        token = _TOKEN.match(self.text, self._past_spaces(number.end))
        if token is None or token.group().lower() not in _EXTREME:
            return False
        return _NUMBER_NEXT.match(self.text, token.end()) is None

    def _is_former_value(self, number: Number, gap: Sequence[str]) -> bool:
        """Whether it is the former value of `from 80% to 30%`."""
        return _FROM in gap[-2:] and self._following(number) in _words("onward")


def _meaning(
    place: NamePlace,
    number: Number,
    column: Unit | None,
    gap: Sequence[str],
    as_code: bool,
    *,
    counted: bool = False,
) -> _Mention | None:
    """The metric of this name that a number with this unit can be a value of.

    Parameters
    ----------
    column
        The unit that stands before the number, as in a table.
    gap
        What stands between the name and the number behind it.
    as_code
        Whether metrics are named as a profiler names them: their values are in base units.
    counted
        Whether the number stands before the name.
    """
    unit = number.unit or column
    share = None if number.of is None else 100 * number.value / number.of
    assigned = bool(set(gap[-1:]) & {":", "="})
    for name in place.names:
        metric = name.metric
        if unit is None:
            countable = counted and metric.unit not in _NEED_UNIT and metric.unit != "%"
            if name.loose and not (assigned or countable or (as_code and not gap)):
                continue
            if metric.unit in _NEED_UNIT and not as_code:
                continue
        elif unit.dimension != metric.unit and (share is None or metric.unit != "%"):
            continue
        value = number.value * (column.factor if column and number.unit is None else 1.0)
        if share is not None and metric.unit == "%":
            value = share
        # Counters give percent; who says `occupancy of 0.5` means a half.
        bare = unit is None and share is None
        if bare and not as_code and metric.unit == "%" and number.decimal and value < 1:
            value *= 100
        most = min(metric.most, _MAX_PERCENT) if metric.unit == "%" else metric.most
        if metric.least <= value <= most:
            return metric.name, _bounded(name, value, gap)
    return None


def _bounded(name: Name, stated: float, gap: Sequence[str]) -> float:
    """A value that is said to be below (above) a bound is not the bound itself."""
    value, last = name.value(stated), set(gap[-2:])
    below, above = last & _words("below"), last & _words("above")
    if name.complement:
        below, above = above, below
    if below:
        return math.nextafter(value, 0.0)
    return math.nextafter(value, math.inf) if above else value
