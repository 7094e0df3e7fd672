"""What a diagnosis says: the models that `kb diagnose --json` prints."""

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from kb.docstrings import describe_fields


class Model(BaseModel):
    """Base of all results: frozen, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=describe_fields)


class Bottleneck(StrEnum):
    """What sets a kernel's time."""

    MEMORY = "memory"
    """Bytes: DRAM, a cache or shared memory runs near its limit, or moves more than it must."""
    COMPUTE = "compute"
    """Instructions: a pipe or the issue slots run near their limit."""
    LATENCY = "latency"
    """Waiting: warps are there, but stall, and neither bytes nor instructions are at a limit."""
    UNDERUTILIZED = "underutilized"
    """Emptiness: SMs, warp slots or lanes have nothing to run."""


class Evidence(Model):
    """One observed value and what it means here."""

    metric: str
    """Nsight Compute metric; `static.*` (machine code), `source.*` (the kernel's text),
    `evaluation.*` (a judged run) and `roofline.*` (computed from these) otherwise."""
    label: str
    """Name of the metric, in words."""
    value: float
    """As measured."""
    unit: str
    """Unit of the value; empty for a plain number."""
    meaning: str
    """Why it matters here."""


class Advice(Model):
    """A technique of the knowledge base, weighed against the measurements."""

    slug: str
    """For `kb show SLUG`."""
    title: str
    """The entry's title."""
    score: float
    """In [0, 1]; orders techniques, but does not predict the gain."""
    reasons: tuple[str, ...]
    """Gates that hold, and the finding that leads here."""
    against: tuple[str, ...] = ()
    """`avoid_when` gates that hold, gates that do not, and that the kernel already uses it."""
    examples: tuple[str, ...] = ()
    """Kernels that show it, the best first."""


class Finding(Model):
    """One cause of lost time, with its evidence."""

    rule: str
    """Name of the rule that found it."""
    cause: str
    """What is wrong, in one sentence."""
    category: Bottleneck
    """What it costs."""
    severity: float
    """In [0, 1]: the part of the time that this may be costing, as far as the values tell."""
    evidence: tuple[Evidence, ...]
    """Never empty."""
    techniques: tuple[Advice, ...] = ()
    """Techniques that address it, the best first."""


class Roof(Model):
    """One ceiling."""

    name: str
    """What it bounds, such as `DRAM copy` or `fp32`."""
    value: float
    """In bytes/s or FLOP/s."""
    source: Literal["measured", "data sheet"]
    """Measured on the GPU in the same session, or stated by its vendor (dense)."""


class Roofline(Model):
    """Where the kernel stands under its ceilings. What could not be computed is None."""

    seconds: float | None = None
    """Time of one launch."""
    bytes: float | None = None
    """Bytes that DRAM moved in it."""
    flops: float | None = None
    """Operations that the problem needs (matrix products and convolutions)."""
    intensity: float | None = None
    """flops / bytes."""
    attained_bps: float | None = None
    """DRAM bytes per second."""
    attained_flops: float | None = None
    """Operations per second."""
    memory_roof: Roof | None = None
    """The bandwidth ceiling."""
    compute_roof: Roof | None = None
    """The arithmetic ceiling."""
    ridge: float | None = None
    """Intensity at which the two ceilings meet."""
    memory_fraction: float | None = None
    """Attained bandwidth / memory roof."""
    compute_fraction: float | None = None
    """Attained FLOP/s / compute roof."""
    region: Literal["memory", "compute"] | None = None
    """On which side of the ridge the kernel is."""
    traffic_ratio: float | None = None
    """DRAM bytes / bytes that any kernel must move: above 1, the rest is moved again."""
    floor_fraction: float | None = None
    """Least time of the problem / time of the kernel: 1 leaves nothing to gain."""
    at_memory_roof: bool = False
    """Bandwidth is used up: only fewer bytes can make it faster."""


class Opinion(Model):
    """What a language model says over the same evidence; checked, and shown beside the rules."""

    model: str
    """Name at the endpoint."""
    bottleneck: Bottleneck
    """The dominant one, in the model's view."""
    summary: str
    """Its reading in a sentence or two."""
    findings: tuple[Finding, ...]
    """Two; every metric and value they cite is in the evidence."""
    techniques: tuple[str, ...]
    """Slugs that it recommends, of those it was offered."""


class Diagnosis(Model):
    """The whole answer."""

    headline: str
    """One sentence."""
    kernel: str | None
    """The kernel that was looked at, where the profile names it."""
    gpu: str | None
    """GPU whose ceilings were used."""
    bottleneck: Bottleneck | None
    """None if the values do not show it."""
    why: tuple[Evidence, ...] = ()
    """What decided the bottleneck."""
    roofline: Roofline
    """Position under the ceilings."""
    findings: tuple[Finding, ...]
    """Two distinct ones; fewer only where the evidence has no more, and then `notes` says so."""
    opinion: Opinion | None = None
    """Of a model, where one was asked."""
    notes: tuple[str, ...] = ()
    """What could not be judged and why."""
    ignored: tuple[str, ...] = ()
    """Keys of the profile that name no known metric."""

    @property
    def empty(self) -> bool:
        """Whether it says nothing of the kernel, as where nothing was measured."""
        is_placed = self.bottleneck is not None or self.roofline.floor_fraction is not None
        return not (is_placed or self.findings)
