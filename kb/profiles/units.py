"""Units: what a spelling measures, and its factor to the base unit that `metrics.yaml` names."""

import re
from dataclasses import dataclass
from functools import cache, lru_cache

from kb.vocabulary import read_data

# Decimal prefixes, as Nsight Compute prints them (its Kbyte is 1,000 bytes), and binary ones.
_PREFIXES = {
    "": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15,
    "ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40,
}  # fmt: skip
_PREFIXED = re.compile(r"(ki|mi|gi|ti|[kmgtp])?(bytes|byte|b|hz|inst|cycle)")
_SECONDS = {"s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "ns": 1e-9, "nsecond": 1e-9}
# Nsight Compute's divisors that do not change what a metric of one launch means.
_NEUTRAL_DIVISORS = frozenset({"block", "thread", "request", "warp", "inst"})
_MAX_CHARS = 32


@dataclass(frozen=True, slots=True)
class Unit:
    """What a unit measures."""

    dimension: str
    """The base unit, as a metric names it; `other` for what no metric measures."""
    factor: float
    """Of a value in this unit to the base unit."""


@cache
def _units_by_spelling() -> dict[str, Unit]:
    return {
        str(spelling): Unit(str(dimension), float(factor))
        for dimension, spellings in read_data("units.yaml").items()
        for spelling, factor in spellings.items()
    }


@lru_cache(maxsize=1024)
def find_unit(spelling: str) -> Unit | None:
    """The unit that is written so, such as `TB/s`, `Kbyte/block` or `register/thread`; or None."""
    text = spelling.strip().lower()
    if not text or len(text) > _MAX_CHARS:
        return None
    return _units_by_spelling().get(text) or _compose(text)


def _compose(text: str) -> Unit | None:
    above, _, below = text.partition("/")
    prefixed = _PREFIXED.fullmatch(above)
    if prefixed is None:
        # Such as sector/request, in whichever it counts.
        return _units_by_spelling().get(above) if below in _NEUTRAL_DIVISORS else None
    factor = _PREFIXES[prefixed[1] or ""]
    if prefixed[2] in {"inst", "cycle"}:
        counted = {"inst": "inst", "cycle": "cycles"}[prefixed[2]]
        return None if below else Unit(counted, factor)
    if prefixed[2] == "hz":
        return None if below else Unit("Hz", factor)
    if (seconds := _SECONDS.get(below)) is not None:
        return Unit("byte/s", factor / seconds)
    return Unit("byte", factor) if not below or below in _NEUTRAL_DIVISORS else None
