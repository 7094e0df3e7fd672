"""The models of a technique entry and a kernel entry, as their front matter declares them."""

import datetime
import operator
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from kb.architectures import checked_architecture
from kb.errors import InvalidInputError
from kb.patterns import MAX_PATTERN_CHARS, linear_pattern
from kb.vocabulary import find_metric, taxonomy

Slug = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)]
Text = Annotated[str, Field(min_length=1)]
BOTTLENECKS = ("memory", "latency", "utilization")
Bottleneck = Literal["memory", "latency", "utilization"]
Language = Literal["triton", "cuda"]
Dtype = Literal[
    "float64", "float32", "tf32", "float16", "bfloat16", "float8_e4m3", "float8_e5m2",
    "float4_e2m1", "mxfp8", "mxfp4", "nvfp4", "int64", "int32", "int8", "uint8", "bool",
]  # fmt: skip

# The first section of a technique: what to do, and the code that shows it.
IN_SHORT = "In short"
# How much of a pattern an error about it shows.
_QUOTED = 120
# The body of a technique entry holds exactly these level-2 headings, in this order.
TECHNIQUE_SECTIONS = (
    IN_SHORT,
    "What it is",
    "When it helps",
    "When it does not",
    "How (Triton)",
    "How (CUDA)",
    "Pitfalls",
    "Before and after",
)


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, str_strip_whitespace=True, allow_inf_nan=False
    )


class Source(_Model):
    """Where a fact or a method comes from."""

    title: Text
    url: Annotated[str, Field(pattern=r"^https?://\S+$")]
    licence: Text
    """SPDX identifier, or `proprietary` for a page that may be read but not copied."""


_COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class Gate(_Model):
    """One condition on a profiler metric, and why it speaks for or against the technique."""

    metric: str
    """Nsight Compute metric name; an alias is stored under the full name."""
    op: Literal["<", "<=", ">", ">="]
    value: float
    because: Text

    @field_validator("metric")
    @classmethod
    def _known_metric(cls, value: str) -> str:
        metric = find_metric(value)
        if metric is None:
            raise ValueError(f"unknown metric '{value}': kb/data/metrics.yaml lists the known ones")
        return metric.name

    def holds(self, measured: float) -> bool:
        """Whether a measured value meets the condition."""
        return bool(_COMPARISONS[self.op](measured, self.value))


class Verified(_Model):
    """One measurement of the entry against a baseline, on named hardware and versions."""

    gpu: Text
    driver: str | None = None
    toolkit: str | None = None
    torch: str | None = None
    triton: str | None = None
    date: datetime.date
    shape: Text
    dtype: Text
    baseline: Text
    """What was measured against: a kernel slug, `eager` or `torch.compile`."""
    baseline_ms: Annotated[float, Field(gt=0)]
    measured_ms: Annotated[float, Field(gt=0)]
    speedup: Annotated[float, Field(gt=0)]
    """`baseline_ms / measured_ms`; below 1 means that it was slower."""
    floor_fraction: Annotated[float, Field(gt=0)] | None = None
    """The floor's time over `measured_ms`: 1 means that nothing is left to gain."""

    @model_validator(mode="after")
    def _speedup_is_the_ratio(self) -> "Verified":
        ratio = self.baseline_ms / self.measured_ms
        if abs(ratio - self.speedup) > 0.02 * ratio:
            raise ValueError(
                f"speedup {self.speedup} is not baseline_ms / measured_ms = {ratio:.3f}"
            )
        return self


def _compiles(pattern: str) -> str:
    try:
        linear_pattern(pattern)
    except InvalidInputError as error:
        raise ValueError(f"detect pattern '{pattern[:_QUOTED]}' cannot be used: {error}") from error
    return pattern


Pattern = Annotated[str, Field(max_length=MAX_PATTERN_CHARS), AfterValidator(_compiles)]
# Nobody writes so many for one technique, and every one is looked for in every piece of code.
_MAX_PATTERNS = 100
Patterns = Annotated[tuple[Pattern, ...], Field(max_length=_MAX_PATTERNS)]


class Detect(_Model):
    """Regular expressions that recognise the technique in code, by language; see `kb.patterns`."""

    triton: Patterns = ()
    cuda: Patterns = ()


def _check_architectures(value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(checked_architecture(name) for name in value)


class _Entry(_Model):
    slug: Slug
    title: Annotated[str, Field(min_length=1, max_length=120)]
    architectures: Annotated[tuple[str, ...], Field(min_length=1)]
    """Oldest targets that have it; an `a` or `f` suffix as in nvcc's `-arch`."""
    sources: Annotated[tuple[Source, ...], Field(min_length=1)]
    verified: tuple[Verified, ...] = ()
    """Empty means not measured, and every surface says so."""

    _architectures = field_validator("architectures")(_check_architectures)


class Technique(_Entry):
    """A technique: what it does, when it applies and when not, and how to recognise it."""

    bottlenecks: Annotated[tuple[Bottleneck, ...], Field(min_length=1)]
    """What it relieves, most important first."""
    languages: Annotated[tuple[Language, ...], Field(min_length=1)]
    aliases: tuple[Text, ...] = ()
    questions: tuple[Text, ...] = ()
    """What engineers ask, see or read when this is the answer: searched, but not shown."""
    when: Annotated[tuple[Gate, ...], Field(min_length=1)]
    avoid_when: tuple[Gate, ...] = ()
    effect: Text
    """The expected effect, with figures only where a source or a measurement gives them."""
    risks: Annotated[tuple[Text, ...], Field(min_length=1)]
    detect: Detect
    examples: tuple[Slug, ...] = ()
    """Kernel slugs, the best one first."""

    @model_validator(mode="after")
    def _stands_where_the_taxonomy_puts_it(self) -> "Technique":
        homes = {name for name, slugs in taxonomy().items() if self.slug in slugs}
        if homes and not homes <= set(self.bottlenecks):
            raise ValueError(
                f"the taxonomy puts '{self.slug}' under {', '.join(sorted(homes))}: "
                "add it to bottlenecks"
            )
        return self


class Sizes(_Model):
    """Problem sizes, each a list of integers whose meaning the kernel's `make_inputs` gives."""

    check: Annotated[tuple[tuple[int, ...], ...], Field(min_length=2)]
    """Small sizes for the checks; at least one is not a multiple of any tile."""
    bench: tuple[int, ...]
    """A size that fills a large GPU, for measurements."""


class Kernel(_Entry):
    """A runnable kernel: its operator, language, techniques and what it improves on."""

    op: Slug
    """Operator family, such as `matmul`, `elementwise-add`, `quantize`."""
    language: Language
    techniques: tuple[Slug, ...] = ()
    """Techniques that the kernel shows; a plain version shows none."""
    dtypes: Annotated[tuple[Dtype, ...], Field(min_length=1)]
    derived_from: Slug | None = None
    """The plain version it improves on."""
    sizes: Sizes
    check_params: dict[str, int | float | str | bool] = {}
    """Tunable values for the checks, small enough for the interpreter."""
    expect_sass: dict[str, Patterns] = {}
    """CUDA only: architecture → regular expressions that its SASS must match."""
    interpretable: bool = True
    """Triton only: whether the CPU interpreter can run it (inline assembly cannot)."""
