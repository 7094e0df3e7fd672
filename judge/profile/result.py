"""What a profile found: the models that `kb profile --json` prints."""

from pydantic import Field

from judge.evaluate.result import Model
from judge.sandbox.layers import Layer


class StaticFacts(Model):
    """What the machine code of one kernel shows; no GPU is needed to see it."""

    function: str
    """Name of the function in the code object (mangled for CUDA C++)."""
    name: str
    """The same name as written in the source."""
    origin: str
    """`triton` or `nvcc`: what compiled it."""
    architecture: str
    """The target it was compiled for, such as sm_90a."""
    registers: int
    """Registers per thread."""
    spill_store_bytes: int
    """Bytes that spills write to local memory, per thread, in the code."""
    spill_load_bytes: int
    """Bytes that spills read from local memory, per thread, in the code."""
    stack_bytes: int
    """Stack frame per thread, in bytes: spills, and arrays indexed at run time."""
    shared_bytes: int
    """Shared memory per block that is known before the launch, in bytes."""
    threads_per_block: int | None = None
    """Where it is fixed at compilation (Triton: 32 × num_warps, and warps it adds); else None."""
    instructions: int
    """SASS instructions in the function, without padding NOPs."""
    mix: dict[str, int] = Field(default_factory=dict)
    """Instructions by class, for the classes that `kb/data/sass.yaml` defines; never 0."""
    widths: dict[str, dict[int, int]] = Field(default_factory=dict)
    """Class of memory access → bits per thread and instruction (8 to 256) → instructions."""
    opcodes: dict[str, int] = Field(default_factory=dict)
    """Full opcodes (with modifiers) of the tensor, conversion, copy and local classes."""


class LaunchProfile(Model):
    """One launch of a kernel under the profiler."""

    index: int
    """Its id in the report, in the order of launches."""
    time_ns: float | None
    """Duration as the profiler measured it; None where it did not."""
    grid: tuple[int, ...] = ()
    """Blocks by dimension."""
    block: tuple[int, ...] = ()
    """Threads per block by dimension."""
    metrics: dict[str, float] = Field(default_factory=dict)
    """Nsight Compute metric → value in base units."""


class KernelProfile(Model):
    """All launches of the kernels of one name."""

    name: str
    """The function's name as ncu prints it, without template arguments and parameters."""
    launches: int
    """How many launches were profiled."""
    time_ns: float
    """Total duration of these launches."""
    share: float
    """Part of the duration of all launches, 0 to 1."""
    metrics: dict[str, float] = Field(default_factory=dict)
    """Metric of `kb/data/metrics.yaml` → mean over the launches, each weighted by its time (the
    duration itself is their plain mean). Base units: byte, ns, %, byte/s."""
    missing: tuple[str, ...] = ()
    """Requested metrics that no launch of this kernel has on this GPU."""
    each: tuple[LaunchProfile, ...] = ()
    """The individual launches."""
    static: StaticFacts | None = None
    """Facts of its machine code, where the candidate's own code has a function of this name."""


class SanitizerReport(Model):
    """What compute-sanitizer said."""

    tool: str
    """memcheck or racecheck."""
    errors: int | None
    """How many errors it counted; None where it could not run."""
    findings: tuple[str, ...] = ()
    """The first findings, one line each."""
    detail: str = ""
    """Why it could not run, or its summary line."""


class Profile(Model):
    """One kernel file on one problem, as the profiler and its machine code show it."""

    problem: str
    """The problem file's name."""
    kernel: str
    """The kernel file's name."""
    gpu: str | None
    """Name of the GPU; None where nothing was run."""
    architecture: str | None = None
    """What the static facts were compiled for."""
    ncu_version: str | None = None
    """Version of Nsight Compute; None where it did not run."""
    calls: int = 0
    """Calls of the kernel inside the profiled range."""
    kernels: tuple[KernelProfile, ...] = ()
    """The kernels that were launched, most time first; empty where nothing was profiled."""
    static: tuple[StaticFacts, ...] = ()
    """All functions of the candidate's own code."""
    sanitizer: tuple[SanitizerReport, ...] = ()
    """Empty unless requested."""
    notes: tuple[str, ...] = ()
    """What could not run, and why."""
    layers: tuple[Layer, ...] = ()
    """The sandbox's layers that held the profiled process."""

    @property
    def dominant(self) -> KernelProfile | None:
        """The kernel with the most time."""
        return self.kernels[0] if self.kernels else None

    @property
    def metrics(self) -> dict[str, float]:
        """The dominant kernel's metrics, as `profile` of `POST /v1/context` takes them."""
        return dict(self.dominant.metrics) if self.dominant else {}
