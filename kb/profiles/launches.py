"""Launches of a profile, and what they say together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from kb.profiles.derived import source_called
from kb.profiles.device import Device
from kb.profiles.names import metrics_called, named_with_unit
from kb.profiles.ncu_rules import rule_figures, rule_remark
from kb.profiles.units import find_unit

DURATION = "gpu__time_duration.sum"


@dataclass(slots=True)
class Launch:
    """One launch of a kernel under the profiler."""

    index: int
    kernel: str
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    values: dict[str, float] = field(default_factory=dict)
    """Metric → value in base units."""
    unknown: list[str] = field(default_factory=list)
    """Columns and rows that name no known metric."""
    reported: dict[str, float] = field(default_factory=dict)
    """Values that sentences of the page give: they stand where none was measured."""
    remarks: list[str] = field(default_factory=list)
    """What the page says besides."""
    device: Device = field(default_factory=Device)
    """The card, as far as the page says."""

    def add(self, name: str, value: float | None, unit: str) -> None:
        """Add one metric; None is a missing value, which is not zero.

        The unit tells which of several metrics it is that go by the name.
        """
        metrics, source = metrics_called(name), source_called(name)
        if not metrics and source is None:
            self.unknown.append(name)
        elif value is None:
            return
        elif not metrics:
            self.values[source or name] = value
        elif (matched := named_with_unit(metrics, find_unit(unit))) is not None:
            self.values.setdefault(matched[0].metric.name, matched[0].value(value * matched[1]))

    def add_rule(self, text: str) -> None:
        """Take what a rule of Nsight Compute says about the launch."""
        for name, value in rule_figures(text).items():
            self.reported.setdefault(name, value)
        if (remark := rule_remark(text)) is not None and remark not in self.remarks:
            self.remarks.append(remark)

    def complete(self) -> None:
        """Fill in what was said where nothing was measured: at the end of a page."""
        self.values = self.reported | self.values


def is_total(metric: str) -> bool:
    """Whether a metric is an amount of one launch (`.sum`, `.avg`, `.max` alone) and no rate."""
    return not metric.startswith("launch__") and metric.endswith((".sum", ".avg", ".max"))


def _mean_of(metric: str, launches: Sequence[Launch]) -> float:
    """Mean of a metric over launches that all have it."""
    weights = [1.0 if is_total(metric) else launch.values.get(DURATION, 0.0) for launch in launches]
    if not sum(weights):  # no durations: every launch counts the same
        weights = [1.0] * len(launches)
    products = (w * launch.values[metric] for w, launch in zip(weights, launches, strict=True))
    return math.fsum(products) / math.fsum(weights)


def mean_metrics(launches: Sequence[Launch]) -> dict[str, float]:
    """Mean of every metric over the launches that have it.

    Totals (bytes, instructions, cycles, durations) are plain means, so that bytes over duration is
    the rate over all of them. Everything else is weighted by each launch's duration.
    """
    names = dict.fromkeys(name for launch in launches for name in launch.values)
    return {
        name: _mean_of(name, [launch for launch in launches if name in launch.values])
        for name in names
    }


def by_kernel(launches: Sequence[Launch]) -> dict[str, list[Launch]]:
    """Launches by the name of their kernel, in the order of first launches."""
    groups: dict[str, list[Launch]] = {}
    for launch in launches:
        groups.setdefault(launch.kernel, []).append(launch)
    return groups
