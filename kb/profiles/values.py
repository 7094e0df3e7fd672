"""Values of metrics in words: with their units, as every surface shows them."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from kb.vocabulary import Metric, find_metric

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
# Up to here a count of bytes is exact and short.
_FEW_BYTES = 10_000


class MetricValue(BaseModel):
    """A metric that was understood, and the value that it was given."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """Nsight Compute's name."""
    label: str
    value: float
    """In `unit`."""
    unit: str

    @property
    def words(self) -> str:
        """`L2 hit rate 30 % (lts__t_sector_hit_rate.pct)`."""
        return f"{self.label} {quantity(self.value, self.unit)} ({self.name})"


def metric_values(metrics: Mapping[str, float]) -> list[MetricValue]:
    """Metrics under their full names, each with its label and unit."""
    values = []
    for name, value in metrics.items():
        metric = find_metric(name) or Metric(name, "", name, "")
        values.append(
            MetricValue(name=metric.name, label=metric.label, value=value, unit=metric.unit)
        )
    return values


def metrics_line(metrics: Sequence[MetricValue]) -> str:
    """What was understood, as one line above an answer; empty where there are no numbers."""
    return f"Understood: {'; '.join(metric.words for metric in metrics)}." if metrics else ""


def quantity(value: float, unit: str) -> str:
    """A value with its unit: `30 %`, `1.2 TB/s`, `12.4 µs`."""
    if unit == "%":
        return f"{value:.4g} %"
    if unit in {"byte/s", "Hz"} or (unit == "byte" and abs(value) >= _FEW_BYTES):
        return f"{si(value)}{unit.replace('byte', 'B')}"
    if unit == "ns":
        return f"{value / 1000:.4g} µs"
    number = f"{value:,.0f}" if value == int(value) else f"{value:.4g}"
    return f"{number} {unit}".strip()


def si(value: float) -> str:
    """A value with a decimal prefix and three digits: `4.27 T`."""
    for scale, prefix in _PREFIXES:
        if abs(value) >= scale:
            return f"{value / scale:.3g} {prefix}"
    return f"{value:.3g} "
