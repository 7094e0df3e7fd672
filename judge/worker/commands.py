"""Commands of the judge to a worker; imports no torch."""

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, TypeAdapter

from judge.problem.forms import ModelForm
from judge.worker.tensors import (
    Argument,
    Buffer,
    Device,
    Into,
    Message,
    Mutation,
    Name,
    Parameter,
    Precision,
    ValueKind,
)

# At 25 characters a launch time, a reply stays under messages.MAX_REPLY_BYTES.
MAX_LAUNCHES: Final = 20_000

# Sources of one `bench_sources`: with 100 times each and an error, a reply stays under 400 kB.
MAX_SOURCES: Final = 128
MAX_SOURCE_LAUNCHES: Final = 100


class Command(Message):
    """What every command carries."""

    id: int = 0


class Open(Command):
    """Map buffers and keep them by name; a name that is open is replaced."""

    do: Literal["open"] = "open"
    buffers: list[Buffer]


class Close(Command):
    """Unmap buffers."""

    do: Literal["close"] = "close"
    names: list[Name]


class Load(Command):
    """What a problem and a kernel are loaded with."""

    source: str
    device: Device
    dtype: str | None = None
    """Floating-point inputs, parameters and buffers are cast to this; None leaves them."""
    precision: Precision = "ieee"
    """Whether float32 products may use TF32: declared once for all contenders."""
    seed: int = 0
    """The one that the problem's model is built under."""


class LoadProblem(Load):
    """Execute a problem file and build its `Model` under `seed`; answers with `Problem`."""

    do: Literal["load_problem"] = "load_problem"
    module_name: str = "problem"


class UseVariant(Command):
    """Execute the problem again with module-level integers replaced; answers with `Problem`.

    `source` is the text with the integers replaced (`judge.problem.variants`), or the problem as
    it was written, to go back. Device, dtype and precision stay.
    """

    do: Literal["use_variant"] = "use_variant"
    source: str
    seed: int = 0


class DescribeInputs(Command):
    """What `make_inputs` of the same seed would write; answers with `Inputs`."""

    do: Literal["describe_inputs"] = "describe_inputs"
    seed: int


class MakeInputs(Command):
    """Write the problem's inputs for `seed` and `kind`; answers with `Done`."""

    do: Literal["make_inputs"] = "make_inputs"
    seed: int
    kind: ValueKind = ValueKind.GIVEN
    into: Into


class ExportParameters(Command):
    """Write the model's tensors in the order of `Problem.parameters`; answers with `Done`."""

    do: Literal["export_parameters"] = "export_parameters"
    into: Into


class Oracle(Command):
    """Run the model in float64 on these inputs; answers with `OracleOutputs`.

    `method` names the method of `Model` to run. A problem whose JUDGE rule is "nvfp4" has, beside
    `forward` (what contenders compute: codes and scales), a method that returns the values before
    quantization; the oracle of such a problem is that method, whose output is float64 (float32
    where an operator lacks float64), shaped like the quantized rows. `evaluate.nvfp4` quantizes
    it in the judge.

    With `into` None the outputs are only described, on fake tensors where the model allows it.
    """

    do: Literal["oracle"] = "oracle"
    inputs: list[Argument]
    into: Into | None = None
    method: str = "forward"
    mutate: Mutation | None = None


class Contender(Command):
    """Make the problem's own model callable in one form; answers with `Done`."""

    do: Literal["contender"] = "contender"
    form: ModelForm
    """`max-autotune` is torch.compile's mode "max-autotune-no-cudagraphs"."""


class LoadKernel(Load):
    """Execute a kernel file and make it callable; answers with `Kernel`."""

    do: Literal["load_kernel"] = "load_kernel"
    module_name: str = "kernel"
    form: Literal["ModelNew", "kernel_function", "cuda"]
    init_inputs: JsonValue = None
    """As `Problem.init_inputs` gave it."""
    parameters: list[Parameter] = Field(default_factory=list)
    """As `Problem.parameters` gave them."""
    buffers: list[Name] = Field(default_factory=list)
    """Open buffers that hold them, in their order."""
    attributes: dict[str, JsonValue] = Field(default_factory=dict)
    input_names: list[str] = Field(default_factory=list)


class Call(Command):
    """Call the contender once and hold its outputs; answers with `Called`."""

    do: Literal["call"] = "call"
    inputs: list[Argument]
    poison: bool = False
    """Fill free device memory and new uninitialized tensors with NaN bytes before and during."""
    observe: bool = False
    """Watch operators, launches and streams by the profiler; do not time in a worker after it."""
    hide: bool = False
    """Hide the inputs' values from all but interpreted kernels (`judge.worker.interpreted`)."""
    most_accesses: int | None = None
    """Fail after so many accesses of interpreted kernels to memory."""


class Fetch(Command):
    """Copy held outputs of a call or a kept timed launch into buffers; answers with `Done`."""

    do: Literal["fetch"] = "fetch"
    call: int | None = None
    launch: int | None = None
    into: Into


class Drop(Command):
    """Forget the outputs of calls, and with `launches` those of timed launches."""

    do: Literal["drop"] = "drop"
    calls: list[int] = Field(default_factory=list)
    launches: bool = False


class Time(Command):
    """Launch the contender on input sets in an order and time it; answers with `Times`."""

    do: Literal["time"] = "time"
    sets: list[list[Argument]] = Field(min_length=1)
    order: list[int] = Field(min_length=1, max_length=MAX_LAUNCHES)
    """Index into `sets`, one per launch."""
    method: Literal["events", "graph", "clock"]
    hold_cycles: int = Field(default=0, ge=0)
    """GPU clock cycles that the stream is held for while launches are queued."""
    per_replay: int = Field(default=1, ge=1)
    """Launches in one captured graph (method "graph")."""
    keep: bool = False
    """Hold the outputs of every launch for `fetch` (of the last replay, for graphs)."""
    copy_outputs: bool = False
    """With `keep` and method "events": hold copies that the stream makes right after each launch,
    and so what whoever uses the outputs on that stream would read."""


class BenchSources(Command):
    """Compile many versions of one kernel, time each a little; answers with `Benched`.

    All run in this one process, which is what makes it cheap; a version that is worth more is
    judged in a process of its own.
    """

    do: Literal["bench_sources"] = "bench_sources"
    kernel: LoadKernel
    """How to load them. Its `source` is the version whose outputs the others' are compared with,
    unless there is a `reference`."""
    reference: LoadKernel | None = None
    """A version of another form that the others are compared with; it may be among `sources`."""
    tolerance: float | None = None
    """A version that is further than this from `reference` is compared with what that gives in
    float32 as well, and the smaller difference counts."""
    stage: Literal["note", "compile", "time"] = "time"
    """`note`: load what is new and note what it would compile. `compile`: compile what was noted;
    that needs no turn on the card. `time`: load, compare and time; a source that was not compiled
    ahead is compiled at its first call."""
    refer: bool = True
    """Run the version to compare with first, where that was not done yet."""
    sources: list[str] = Field(min_length=1, max_length=MAX_SOURCES)
    sets: list[list[Argument]] = Field(min_length=1)
    """Launches take them in turn; outputs are compared on the first."""
    launches: int = Field(ge=1, le=MAX_SOURCE_LAUNCHES)
    """Per source, in each pass."""
    passes: int = Field(default=1, ge=1, le=MAX_SOURCE_LAUNCHES)
    """All sources are timed in turn this often, so that a drift of the clocks meets all of them;
    `launches` times `passes` is at most `MAX_SOURCE_LAUNCHES`."""
    method: Literal["events", "clock"]
    hold_cycles: int = Field(default=0, ge=0)
    """As for `time`."""
    seconds: float = Field(gt=0)
    """No source is begun after so long."""
    compile_seconds: float = Field(gt=0)
    """The longest that one source may compile."""
    processes: int = Field(default=1, ge=1, le=128)
    """Processes that compile at a time, in stage `compile`."""
    cutoff: float | None = Field(default=None, gt=1)
    """A source whose first launches take so many times the best median yet is not launched on."""


class Probe(Command):
    """Can the contender be captured in a CUDA graph? answers with `Capturable`."""

    do: Literal["probe"] = "probe"
    inputs: list[Argument]


class Flops(Command):
    """Count the model's floating-point operations without running it; answers with `Operations`."""

    do: Literal["flops"] = "flops"
    seed: int = 0


class ExportGraph(Command):
    """Export a problem's model as operators, on fake tensors; answers with `Graph`.

    The file is executed for this alone: no problem needs to be loaded, and none is replaced.
    """

    do: Literal["export_graph"] = "export_graph"
    source: str
    module_name: str
    dtype: str | None = None
    """As for `load_problem`."""


AnyCommand = Annotated[
    Open | Close | LoadProblem | UseVariant | DescribeInputs | MakeInputs | ExportParameters
    | Oracle | Contender | LoadKernel | Call | Fetch | Drop | Time | BenchSources | Probe | Flops
    | ExportGraph,
    Field(discriminator="do"),
]  # fmt: skip
COMMAND: Final[TypeAdapter[AnyCommand]] = TypeAdapter(AnyCommand)
