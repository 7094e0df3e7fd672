"""What is known about one kernel run: metrics, machine code, source, a judged run, the card.

A value that was not measured is None everywhere and never zero, so a rule that needs it is silent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.diagnose.result import Evidence
from judge.evaluate.result import Ceilings, Floor
from judge.profile.result import StaticFacts
from kb.gpus import GpuSpec
from kb.pasted.source import SourceFacts
from kb.vocabulary import Metric, find_metric


def metric_of(alias: str) -> Metric:
    """The metric that goes by an alias of `kb/data/metrics.yaml`.

    Raises
    ------
    KeyError
        No metric goes by it: a mistake in a rule, not in a profile.
    """
    metric = find_metric(alias)
    if metric is None:
        raise KeyError(alias)
    return metric


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything the rules may look at."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    """Nsight Compute metric → value, in base units."""
    spec: GpuSpec | None = None
    static: StaticFacts | None = None
    """Machine code of the kernel."""
    source: SourceFacts | None = None
    """What its text shows."""
    floor: Floor | None = None
    """Least bytes, operations and time of the problem."""
    ceilings: Ceilings | None = None
    """Rates that the card reached in the session."""
    median_ms: float | None = None
    """Time of one call as judged."""
    dtype: str | None = None
    """Of the problem's floating-point inputs, where it was set."""
    tf32: bool = False
    """Whether float32 products may use TF32."""
    kernel: str | None = None
    """Name of the profiled kernel."""
    share: float = 1.0
    """Part of all launches' time that this kernel takes, 0 to 1."""
    words: str = ""
    """Names of problem, kernel file and functions: they tell what is computed."""

    def get(self, alias: str) -> float | None:
        """Value of the metric that goes by `alias`; None where it was not measured."""
        return self.metrics.get(metric_of(alias).name)

    def evidence(self, alias: str, meaning: str) -> Evidence:
        """The measured value of a metric as evidence.

        Raises
        ------
        KeyError
            It was not measured: a rule must not cite what it does not have.
        """
        metric = metric_of(alias)
        return fact(metric.name, metric.label, self.metrics[metric.name], metric.unit, meaning)

    @property
    def architecture(self) -> str | None:
        """The card's."""
        return self.spec.architecture if self.spec is not None else None

    @property
    def threads_per_block(self) -> int | None:
        """Threads of a block, as launched or as compiled."""
        block_size = self.get("block_size")
        if block_size is not None:
            return int(block_size)
        return self.static.threads_per_block if self.static else None

    @property
    def seconds(self) -> float | None:
        """Time of one launch: as judged where the kernel is the whole call, else as profiled."""
        if self.median_ms is not None and self.whole_call:
            return self.median_ms / 1e3
        duration = self.get("duration")
        return duration / 1e9 if duration else None

    @property
    def whole_call(self) -> bool:
        """Whether the problem's bytes and operations are this kernel's own."""
        return self.share >= _WHOLE_CALL

    @property
    def has_matrix_product(self) -> bool | None:
        """Whether the work is matrix products; None where nothing tells.

        FlopCounterMode counts matrix products, convolutions and attention only. Above
        `_MATRIX_INTENSITY` operations per byte there is reuse that a matrix unit can exploit; a
        matrix-vector product has about one per byte.
        """
        if self.floor is not None:
            moved = self.floor.read_bytes + self.floor.write_bytes
            return moved > 0 and self.floor.flops / moved >= _MATRIX_INTENSITY
        if self.source is not None and self.source.matrix_instructions:
            return True
        utilization = self.get("tensor_utilization")
        return True if utilization is not None and utilization >= _TENSOR_IN_USE else None


# The profiled kernel takes nearly all of the time: the rest is set-up that hardly moves bytes.
_WHOLE_CALL = 0.9
# A square fp16 product of size n has n/3 operations per byte; 16 is n = 48, below any useful tile.
_MATRIX_INTENSITY = 16.0
# Background of the counter is below 1 %.
_TENSOR_IN_USE = 2.0


def fact(metric: str, label: str, value: float, unit: str, meaning: str = "") -> Evidence:
    """Evidence by position; `metric` need not be a profiler metric."""
    return Evidence(metric=metric, label=label, value=value, unit=unit, meaning=meaning)


def percent(part: float) -> float:
    """A fraction in percent, rounded to a tenth."""
    return round(100 * part, 1)
