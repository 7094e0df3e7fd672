"""Names of metrics: what a spelling may stand for, in a profile's keys and in running text."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from kb.index.tokens import stem
from kb.profiles.units import Unit
from kb.vocabulary import Metric, all_metrics, find_metric

WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")
# What may stand between two words of one name: `L1/TEX`, `Compute (SM)`, `lts__t_sector`.
_JOINER = re.compile(r" ?(?:[/.()-]|_{1,2})? ?|\) ")
# Short and other forms of words that names have.
_SYNONYMS = {
    "util": "utilization", "utilisation": "utilization", "utilized": "utilization",
    "regs": "registers", "reg": "registers", "bw": "bandwidth", "mem": "memory",
    "tput": "throughput", "occ": "occupancy", "smem": "shared memory", "sb": "scoreboard",
    "multiprocessor": "sm", "sms": "sm", "hitrate": "hit rate", "tensorcore": "tensor core",
    "tensorcores": "tensor core", "globalmem": "global memory",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Name:
    """One way to call a metric."""

    metric: Metric
    loose: bool = False
    """Whether it is said of other things as well."""
    complement: bool = False
    """Whether it names 100 % less the value."""
    exact: str | None = None
    """The only letters in which it is meant, where those matter."""
    listed: bool = False
    """Whether it is meant only beside metrics that are named as code names them."""

    def value(self, stated: float) -> float:
        """The metric's value for what was stated under this name."""
        return 100.0 - stated if self.complement else stated


@dataclass(frozen=True, slots=True)
class NamePlace:
    """Where names stand in a text, and what they may mean, the first meant unless a unit tells."""

    start: int
    end: int
    names: tuple[Name, ...]


class _Node(dict[str, "_Node"]):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[Name] = []


def _spellings_of(metric: Metric) -> Iterator[tuple[str, Name]]:
    plain = Name(metric)
    for spelling in (metric.name, metric.label, *metric.said):
        yield spelling, plain
    for spelling in metric.aliases:
        unsaid = spelling in metric.unsaid
        yield spelling, Name(metric, exact=spelling, listed=True) if unsaid else plain
    for spelling in metric.shown:
        # Nsight Compute's own writing: `Block Size` is its, `block size` anybody's.
        yield spelling, Name(metric, exact=spelling if metric.unsaid else None)
    for spelling in metric.loose:
        yield spelling, Name(metric, loose=True)
    for spelling in metric.complement:
        yield spelling, Name(metric, complement=True)


@lru_cache(maxsize=1 << 14)
def _keys(word: str) -> tuple[str, ...]:
    """A word as names are compared."""
    lowered = word.lower()
    return tuple(stem(part) for part in _SYNONYMS.get(lowered, lowered).split())


@cache
def _names() -> _Node:
    root = _Node()
    for metric in all_metrics():
        for spelling, name in _spellings_of(metric):
            node = root
            for word in WORD.findall(spelling):
                for key in _keys(word):
                    node = node.setdefault(key, _Node())
            if name.exact or all(other.metric != metric for other in node.names):
                node.names.append(name)
    return root


def find_names(text: str) -> list[NamePlace]:
    """Every name of a metric in a text, the longest at each place; in order, none within another.

    Takes time in proportion to the text: no name has more than some twenty words.
    """
    words = list(WORD.finditer(text))
    places: list[NamePlace] = []
    place = 0
    while place < len(words):
        longest = _longest(text, words, place)
        if longest is None:
            place += 1
            continue
        last, names = longest
        start, end = words[place].start(), words[last].end()
        meanings = tuple(name for name in names if name.exact in (None, text[start:end]))
        if meanings and not _in_identifier(text, start, end):
            places.append(NamePlace(start, end, meanings))
        place = last + 1
    return places


def is_spelled(metric: Metric, text: str, place: NamePlace) -> bool:
    """Whether a name stands there as it is written, plurals aside: `stalled waiting` is not."""
    stated = _normalized(text[place.start : place.end])
    return any(_normalized(spelling) == stated for spelling, _ in _spellings_of(metric))


def _normalized(spelling: str) -> list[str]:
    return [word.lower().rstrip("s") for word in WORD.findall(spelling)]


def _in_identifier(text: str, start: int, end: int) -> bool:
    """Whether what stands there is a part of a longer identifier, which names something else."""
    before, after = text[max(start - 1, 0) : start], text[end : end + 2]
    return before == "_" or after[:1] == "_" or (after[:1] == "." and after[1:].isalnum())


def _longest(
    text: str, words: Sequence[re.Match[str]], first: int
) -> tuple[int, list[Name]] | None:
    node = _names()
    best: tuple[int, list[Name]] | None = None
    for place in range(first, len(words)):
        word = words[place]
        if place > first and not _JOINER.fullmatch(text, words[place - 1].end(), word.start()):
            break
        for key in _keys(word.group()):
            child = node.get(key)
            if child is None:
                return best
            node = child
        if node.names:
            best = place, node.names
    return best


def metrics_called(key: str) -> tuple[Name, ...]:
    """What a key of a profile may mean: a metric's name, an alias, or Nsight Compute's words.

    `Memory Throughput` is one metric in % and another in byte/s: the unit tells.
    """
    metric = find_metric(key)
    if metric is not None:
        return (Name(metric),)
    spelling = " ".join(key.strip().lower().replace("_", " ").split())
    return _displayed().get(spelling, ())


def named_with_unit(names: Sequence[Name], unit: Unit | None) -> tuple[Name, float] | None:
    """Which of these a value in this unit is of, and the factor to its base unit; None if none is.

    A unit that is not known tells nothing: the first is meant.
    """
    for name in names:
        if unit is None or unit.dimension in (name.metric.unit, "other"):
            return name, unit.factor if unit is not None else 1.0
    return None


@cache
def _displayed() -> dict[str, tuple[Name, ...]]:
    table: dict[str, tuple[Name, ...]] = {}
    for metric in all_metrics():
        names = [(text, Name(metric)) for text in (*metric.shown, metric.label)]
        names += [(text, Name(metric, complement=True)) for text in metric.complement]
        for spelling, name in names:
            key = spelling.lower()
            if all(other.metric != metric for other in table.get(key, ())):
                table[key] = (*table.get(key, ()), name)
    return table
