"""What an evaluation found: the models that `kb evaluate --json` prints."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from judge.sandbox.layers import Layer
from kb.docstrings import describe_fields


def _describe(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Add to a JSON schema what fields mean, and strings for the numbers that JSON lacks."""
    describe_fields(schema, model)
    number = {"type": "number"}
    strings = {"type": "string", "enum": ["Infinity", "-Infinity", "NaN"]}
    for spec in schema.get("properties", {}).values():
        if spec.get("type") == "number":
            spec["anyOf"] = [{"type": spec.pop("type")}, strings]
        elif number in spec.get("anyOf", ()):
            spec["anyOf"] = [*spec["anyOf"], strings]
        elif spec.get("additionalProperties") == number:
            spec["additionalProperties"] = {"anyOf": [number, strings]}


class Model(BaseModel):
    """Base of all results: frozen, no unknown keys, infinities as strings in JSON."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        ser_json_inf_nan="strings",
        json_schema_extra=_describe,
    )


class Verdict(StrEnum):
    """The one word about a candidate. See `verdict.decide` for where several hold."""

    CORRECT = "correct"
    """Right in every counted case, and the judge could have told had it been wrong."""
    WRONG = "wrong"
    """Wrong in at least one counted case, or does not compile, load or run at the full shape."""
    CHEAT = "cheat"
    """There is evidence that the result or the time does not come from the work."""
    INCONCLUSIVE = "inconclusive"
    """The judge cannot tell: too few cases count, or wrong kernels would have passed as well."""
    LIBRARY = "library"
    """Right, and a library (cuBLAS, cuDNN, ATen) does the work: disclosed, not a cheat."""
    SPECIALISED = "specialised"
    """Right at the given shape; raises an error (instead of being wrong) at others."""


RIGHT = frozenset({Verdict.CORRECT, Verdict.LIBRARY, Verdict.SPECIALISED})
"""Verdicts of a kernel that may replace the problem's model."""

UNCHECKED = "times are unchecked claims: eager was not timed to calibrate the clock"
"""The note on times that are not `calibrated`."""


class Counterexample(Model):
    """One element where the candidate is wrong."""

    output: int
    """Which output, counted from 0."""
    index: tuple[int, ...]
    """Its index in that output."""
    got: float
    """The candidate's value (for packed codes the byte)."""
    expected: float
    """The oracle's value."""


class Fault(Model):
    """How a kernel failed to give a result."""

    compiling: bool
    """It could not be loaded, bound or compiled; else a call raised, or its process ended."""
    error: str | None = None
    """Class of the exception, as the process says; None where there was none."""


class Case(Model):
    """One comparison of the candidate with the oracle."""

    shape: Literal["full", "reduced", "variant"]
    """The given shape, a smaller one, or a non-default one made by changed constants."""
    kind: str
    """Values of the inputs: given, normal, large, tiny, zero, negative or inf."""
    seed_index: int
    """Which of the secret seeds; the seed itself is not disclosed."""
    constants: dict[str, int] = Field(default_factory=dict)
    """The problem's integer constants that were changed to make this shape."""
    counted: bool
    """False where eager itself fails, or the oracle cannot be computed."""
    why_not: str | None = None
    """Why the case does not count."""
    max_abs: float | None = None
    """max|got − expected| over all outputs; None if nothing could be compared."""
    max_rel: float | None = None
    """max |got − expected| / (|expected| + rms(expected)), the largest over the outputs: relative
    to the element, and defined where it is zero."""
    norm_ratio: float | None = None
    """‖got − expected‖₂ / ‖expected‖₂, the largest over the outputs. Where outputs are few, their
    sensitivity to the inputs stands for ‖expected‖₂ if it is more: they may cancel by chance."""
    tolerance: float | None = None
    """The bound on `norm_ratio` that held in this case (the loosest of the outputs)."""
    tolerance_max_rel: float | None = None
    """The bound on `max_rel` that held in this case (the loosest of the outputs)."""
    eager_norm_ratio: float | None = None
    """Eager's own `norm_ratio` in this case."""
    bit_exact_required: bool = False
    """Eager equals the rounded oracle bit for bit on this problem, so the candidate must too."""
    passed: bool
    """True only for a counted case without a problem."""
    refused: bool = False
    """The candidate raised an error instead of answering."""
    problem: str | None = None
    """What is wrong, in one line; None where the case passed."""
    fault: Fault | None = None
    """Why there is no result to compare; None where there is one."""
    counterexamples: tuple[Counterexample, ...] = ()
    """The first few elements that are wrong."""
    seconds: float = 0.0
    """How long the case took, everything included."""


class PowerCheck(Model):
    """One deliberately wrong answer that the counted cases have to refuse."""

    mutation: str
    """zeros, mean, or the name of a change to the oracle's computation (truncate, tap, sparse)."""
    detail: str = ""
    """Which input and dimension was changed, in words."""
    rejected_by: str | None = None
    """The first case that refuses it; None where every one would let it pass."""
    applies: bool = True
    """False where the change leaves the exact result as it is (a copy has nothing to truncate)."""

    @property
    def proven(self) -> bool:
        """Whether a kernel with this mistake would be found."""
        return self.rejected_by is not None or not self.applies


class Timing(Model):
    """The times of one contender."""

    contender: str
    """candidate, eager, compile, max-autotune, or the name of a further kernel file."""
    method: Literal["graph", "events", "clock"]
    """Graph replay of many launches, CUDA events, or (on a CPU, in tests) the clock."""
    median_ms: float
    """Median time of one launch, cold."""
    p10_ms: float
    """10th percentile."""
    p90_ms: float
    """90th percentile."""
    launches: int
    """How many launches were timed."""
    floor_fraction: float | None = None
    """Floor / median: 1 is the roof."""
    copy_floor_fraction: float | None = None
    """The same with the bytes at the measured copy bandwidth alone, as public tables give it."""
    flagged: tuple[str, ...] = ()
    """What is odd about this time, such as a fraction above 1."""


class Ratio(Model):
    """How much faster one contender is than another: time of `over` / time of `of`, paired."""

    of: str
    """The contender that is faster if the ratio is above 1."""
    over: str
    """The contender it is compared with."""
    ratio: float
    """Median of `over` / median of `of`; the interval draws rounds for both alike."""
    low: float
    """Lower end of the 95 % bootstrap interval."""
    high: float
    """Upper end of the 95 % bootstrap interval."""
    significant: bool
    """False where the difference is within the noise: then it is reported as none."""


class WallCheck(Model):
    """A reported event time compared with the judge's own clock over many launches."""

    contender: str
    """Whose time."""
    claimed_ms: float
    """Mean time of one launch as the contender's process reports it."""
    wall_ms: float
    """Mean time of one launch by the judge's clock."""
    gap_ms: float
    """What launching and waiting costs eager beyond its own event time."""
    passed: bool
    """False where the wall clock shows clearly more than the reported time and the gap."""
    detail: str = ""
    """What was compared, in words."""


class Floor(Model):
    """The least time for the problem's operations as its text has them. A kernel that computes
    the same by fewer takes less."""

    read_bytes: int
    """Bytes that must be read: every input and parameter once."""
    write_bytes: int
    """Bytes that must be written: every output once."""
    flops: float
    """Floating-point operations, of FlopCounterMode, without those that masks and triangles make
    needless; 0 where it counts none."""
    ms: float
    """The larger of the time for the bytes and the time for the operations."""
    bound: Literal["memory", "compute"]
    """Which of the two is larger."""
    notes: tuple[str, ...] = ()
    """Structural zeros and other caveats."""


class Ceilings(Model):
    """What the card reached in this session."""

    read_bps: float
    """Bytes read per second."""
    write_bps: float
    """Bytes written per second."""
    copy_bps: float
    """Bytes read plus written per second by a copy."""
    matmul_flops: dict[str, float] = Field(default_factory=dict)
    """Dense FLOP/s by dtype name."""
    measured_at: str
    """UTC time, ISO 8601."""


class ClockSample(Model):
    """Clocks and throttle state at one moment, as NVML gives them."""

    when: str
    """before, during or after the timing."""
    sm_mhz: int | None = None
    """SM clock."""
    memory_mhz: int | None = None
    """Memory clock."""
    temperature_c: int | None = None
    """Temperature of the GPU."""
    power_w: float | None = None
    """Power draw."""
    throttle: tuple[str, ...] = ()
    """Names of the active reasons for lower clocks; idle is none of them."""


class Clocks(Model):
    """Clocks over the timing."""

    samples: tuple[ClockSample, ...] = ()
    """In the order they were taken."""
    note: str = ""
    """Why nothing was read, or what limited the clocks."""


class TimingReport(Model):
    """Everything that the timing part found; `judge` unfolds it into the evaluation."""

    timings: tuple[Timing, ...]
    """One per contender, the candidate first."""
    ratios: tuple[Ratio, ...] = ()
    """Of the candidate over each other contender."""
    walls: tuple[WallCheck, ...] = ()
    """One per contender."""
    floor: Floor | None = None
    """None where it could not be computed."""
    ceilings: Ceilings | None = None
    """None without a GPU."""
    clocks: Clocks | None = None
    """None without a GPU."""
    cheats: tuple[str, ...] = ()
    """Evidence against the candidate: skipped launches, times below what the clock allows."""
    wrong: tuple[str, ...] = ()
    """Timed launches of the candidate whose outputs were wrong without a sign of intent."""
    notes: tuple[str, ...] = ()
    """Contenders that could not run, disturbed measurements and the like."""
    calibrated: bool = True
    """False where eager was not timed, so that the judge's clock could check nothing."""


class Evaluation(Model):
    """One problem, one kernel, one verdict."""

    problem: str
    """The problem file's name."""
    problem_sha256: str
    """Digest of the problem file."""
    kernel: str
    """The kernel file's name."""
    kernel_sha256: str
    """Digest of the kernel file."""
    language: str
    """triton, cuda, or python where no kernel of its own was seen."""
    dtype: str | None
    """What the floating-point inputs and parameters were converted to; None: as given."""
    precision: Literal["ieee", "tf32"]
    """Whether float32 products may use TF32: one setting for all contenders."""
    device: str
    """cuda:N or cpu."""
    interpreted: bool
    """True where Triton's interpreter ran the kernel, at reduced sizes."""
    gpu: str | None
    """Name of the GPU."""
    versions: dict[str, str]
    """kernel-kb, Python, torch, triton, CUDA, driver."""
    date: str
    """UTC time of the start, ISO 8601."""
    verdict: Verdict
    """The verdict."""
    reasons: tuple[str, ...]
    """Reasons for the verdict, the most important first; empty for a plain *correct*."""
    fault: Fault | None = None
    """Why a wrong kernel gave no result; a compiler error before other faults."""
    disclosures: tuple[str, ...] = ()
    """Caveats that do not affect the verdict."""
    calibrated: bool = True
    """As `TimingReport.calibrated`; True where nothing was timed."""
    oracle: str = ""
    """float64, float32, nvfp4: what the reference was computed in."""
    cases: tuple[Case, ...] = ()
    """All cases, counted or not."""
    power: tuple[PowerCheck, ...] = ()
    """Deliberate mistakes, and whether the judge would refuse them."""
    timings: tuple[Timing, ...] = ()
    """Empty where nothing was timed."""
    ratios: tuple[Ratio, ...] = ()
    """Of the candidate over each other contender."""
    walls: tuple[WallCheck, ...] = ()
    """Claimed times against the judge's clock."""
    floor: Floor | None = None
    """The least time."""
    ceilings: Ceilings | None = None
    """Measured roofs."""
    clocks: Clocks | None = None
    """Clocks over the timing."""
    sandbox: tuple[Layer, ...] = ()
    """The layers that held the workers."""
    seconds: float
    """How long the evaluation took."""
