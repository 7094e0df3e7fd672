"""Launches of a profile, and what they say together."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

DURATION = "gpu__time_duration.sum"


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel under the profiler."""

    index: int
    kernel: str
    device: str = ""
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    """Metric → value in base units."""
    unknown: tuple[str, ...] = ()
    """Columns and rows that name no known metric."""


def is_total(metric: str) -> bool:
    """Whether a metric is an amount of one launch (`.sum`, `.avg`, `.max` alone) and no rate."""
    return not metric.startswith("launch__") and metric.endswith((".sum", ".avg", ".max"))


def mean_of(metric: str, launches: Sequence[Launch]) -> float:
    """Mean of a metric over launches that all have it.

    Totals (bytes, instructions, cycles, durations) are plain means, so that bytes over duration is
    the rate over all of them. Everything else is weighted by each launch's duration.
    """
    weights = [1.0 if is_total(metric) else launch.values.get(DURATION, 0.0) for launch in launches]
    if not sum(weights):  # no durations: every launch counts the same
        weights = [1.0] * len(launches)
    products = (w * each.values[metric] for w, each in zip(weights, launches, strict=True))
    return math.fsum(products) / math.fsum(weights)


def means(launches: Sequence[Launch]) -> dict[str, float]:
    """Every metric that any of the launches has, as `mean_of` over those that have it."""
    names = dict.fromkeys(name for launch in launches for name in launch.values)
    return {
        name: mean_of(name, [launch for launch in launches if name in launch.values])
        for name in names
    }


def by_kernel(launches: Sequence[Launch]) -> dict[str, list[Launch]]:
    """Launches by the name of their kernel, in the order of first launches."""
    groups: dict[str, list[Launch]] = {}
    for launch in launches:
        groups.setdefault(launch.kernel, []).append(launch)
    return groups
