"""Replies of a worker: claims of an untrusted process, whose form is checked here; no torch."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, JsonValue

from judge.worker.commands import MAX_LAUNCHES, MAX_SOURCE_LAUNCHES, MAX_SOURCES, LoadKernel
from judge.worker.tensors import InputSpec, Label, Message, Parameter, TensorSpec

# An exception of untrusted code is reported as a type and one line of at most this length.
MAX_ERROR_CHARS: Final = 500
# A problem of a few layers has tens of nodes, a loop over time steps some thousands. A node takes
# some 180 bytes of a reply, which may have a megabyte.
MAX_NODES: Final = 5_000


class Reply(Message):
    """What every reply to a command that succeeded carries."""

    id: int = 0
    ok: Literal[True] = True


class Done(Reply):
    """Nothing to tell."""


class Problem(Reply):
    """What a problem file defines."""

    parameters: list[Parameter] = Field(max_length=2000)
    attributes: dict[Label, JsonValue]
    """Values of the model and its submodules that are no tensors, dotted, beside the arguments of
    its constructor by name; encoded by `worker.values.encode`."""
    init_inputs: JsonValue
    """`get_init_inputs()` encoded, None where it holds what JSON cannot carry."""
    input_names: list[Label] = Field(max_length=200)
    """Parameters of `Model.forward` without `self`."""
    redrawn: list[Label] = Field(default=[], max_length=2000)
    """Parameters that were alike throughout, and have values of their own now."""

    def kernel(self, input_names: Sequence[str], **fields: Any) -> LoadKernel:
        """The command that loads a kernel file for this problem.

        Parameters
        ----------
        input_names
            Names of what `get_inputs` makes, which may be fewer than `forward` takes.
        fields
            Other fields of the command, which the problem does not say.
        """
        return LoadKernel(
            init_inputs=self.init_inputs,
            parameters=self.parameters,
            attributes=self.attributes,
            input_names=list(input_names),
            **fields,
        )


class Inputs(Reply):
    """The inputs of the problem, in order."""

    inputs: list[InputSpec] = Field(max_length=200)


class OracleOutputs(Reply):
    """Shapes of what the oracle computed."""

    outputs: list[TensorSpec] = Field(max_length=200)
    precision: Literal["float64", "float32"]
    why_float32: Label = ""
    chunks: int = Field(default=1, ge=1)
    """Slices along dimension 0 that were computed apart, for want of memory."""
    narrowed: bool = False
    """The model itself casts to a narrower format: results that look as if nothing had to be
    rounded were rounded by the model."""
    carried: list[Label] = Field(default=[], max_length=2000)
    """What each call changes in the model and the next call's outputs depend on."""


class Observed(Message):
    """What the worker saw the candidate do: claims of an untrusted process, for disclosure."""

    triton_launches: dict[Label, int] = Field(default_factory=dict, max_length=500)
    """Launches by kernel name."""
    aten: dict[Label, int] = Field(default_factory=dict, max_length=500)
    """Calls of operators that compute, by name ("aten.mm"), composite ones beside their parts;
    views, allocations and copies left out."""
    kernels: dict[Label, int] = Field(default_factory=dict, max_length=500)
    """GPU kernels, copies and fills by name, as CUPTI reports them; empty where it is absent."""
    libraries: list[Label] = Field(default_factory=list, max_length=200)
    """Shared libraries that were loaded since the worker started."""
    other_stream: bool | None = None
    """Work was issued on a stream other than the current one; None where it was not looked for."""
    other_card: bool | None = None
    """Work was issued on another GPU than the judged one; None as above."""
    patched: list[Label] = Field(default_factory=list, max_length=200)
    """Functions of torch and Python that are no longer the originals."""
    notes: list[Label] = Field(default_factory=list, max_length=50)


class Kernel(Reply):
    """A kernel file was loaded."""

    observed: Observed = Observed()


class OutputSpec(TensorSpec):
    """One output of a call; nested outputs are flattened in order."""

    device: str = Field(max_length=20)
    overlaps: bool = False
    """It shows more elements than there are in the memory that it spans, as an expanded row."""


class Called(Reply):
    """One call's outputs, held under `call`."""

    call: int
    outputs: list[OutputSpec] = Field(max_length=200)
    seconds: float
    """The worker's own clock, synchronized; the judge takes its own."""
    outside: Label = ""
    """An access of an interpreted kernel beside a tensor, in words; only where `Call.hide` was
    set, as `computed`."""
    computed: list[Label] = Field(default_factory=list, max_length=50)
    """Operators that the host ran on hidden values."""
    loops: dict[Label, int] = Field(default_factory=dict, max_length=200)
    """Of interpreted kernels: the most turns that the loop of each line took at one go, in this
    and all earlier calls."""
    blocks: list[int] = Field(default_factory=list, max_length=50)
    """Of interpreted kernels: integers that launches gave as compile-time constants."""
    programs: dict[Label, int] = Field(default_factory=dict, max_length=50)
    """Of interpreted kernels: the most programs along each axis of a grid, by kernel and axis, in
    this and all earlier calls."""
    accesses: int = 0
    """Loads, stores and atomics of blocks that interpreted kernels made in this call."""
    observed: Observed = Observed()
    """Empty unless `Call.observe` was set."""


class Times(Reply):
    """Times of launches, as the worker measured them."""

    ms: list[float] = Field(max_length=MAX_LAUNCHES)
    """Milliseconds per launch; with method "graph" one figure per replay, divided by its
    launches."""
    kept: int = Field(default=0, ge=0)
    """Launches whose outputs are held, numbered from 0."""
    outputs: list[OutputSpec] = Field(default_factory=list, max_length=200)
    """Shapes of the outputs of a kept launch."""


class BenchedSource(Message):
    """One version of a kernel, as the worker says it did."""

    model_config = ConfigDict(frozen=False)  # the worker fills it in

    ms: list[float] = Field(default_factory=list, max_length=MAX_SOURCE_LAUNCHES)
    """Milliseconds per launch, in order."""
    error: Annotated[str, Field(max_length=MAX_ERROR_CHARS)] = ""
    """Why there are no times."""
    difference: float | None = None
    """Norm of the difference of its outputs to the compared version's, over the norm of those; for
    integers the share of elements that differ. None where it could not be compared."""
    tried: bool = True
    """False: there was no time for it, or the device was lost before."""
    slow: bool = False
    """Its error is that it compiles for longer than it may."""


class Benched(Reply):
    """Every source's times, in the order of the command."""

    results: list[BenchedSource] = Field(max_length=MAX_SOURCES)
    compiled_ahead: int = 0
    """Sources that stage `compile` compiled."""
    lost: bool = False
    """The device reported an error that the process cannot recover from: start another."""


class Capturable(Reply):
    """Whether one call could be captured and replayed."""

    capturable: bool
    reason: Annotated[str, Field(max_length=MAX_ERROR_CHARS)] = ""


class Operations(Reply):
    """Floating-point operations of one forward pass."""

    flops: float
    by_dtype: dict[Label, float] = Field(max_length=50)
    """FLOPs by the dtype of the operator's first tensor."""


class GraphTensor(Message):
    """Shape and dtype of one value of a graph."""

    shape: list[int] = Field(max_length=64)
    dtype: Label


class GraphNode(Message):
    """One value of a graph: an input, a tensor of the model, or what an operator returned."""

    name: Label
    op: Label
    """`input`, `tensor`, `constant`, `getitem`, or an operator such as `aten.add.Tensor`."""
    args: list[JsonValue] = Field(default_factory=list, max_length=100)
    """Positional arguments: constants, lists, `{"node": name}`, `{"torch": "float32"}`,
    `{"device": "cpu"}`, `{"float": "inf"}`. Of an input: its value where it is no tensor."""
    kwargs: dict[Label, JsonValue] = Field(default_factory=dict, max_length=50)
    tensors: list[GraphTensor] = Field(default_factory=list, max_length=100)
    """What it returns; none where it is no tensor."""
    input: int | None = None
    """Index among the problem's inputs."""
    tensor: Label | None = None
    """State-dict name."""


class Graph(Reply):
    """The model's operators in the order of execution, without in-place ones."""

    nodes: list[GraphNode] = Field(default_factory=list, max_length=MAX_NODES)
    outputs: list[JsonValue] = Field(default_factory=list, max_length=200)
    """What the model returns, as arguments are written."""
    updates: list[Label] = Field(default_factory=list, max_length=2000)
    """State-dict names of buffers that a call changes, such as running statistics."""
    reason: Annotated[str, Field(max_length=MAX_ERROR_CHARS)] = ""
    """Why there are no nodes."""


class Error(Message):
    """An exception in the worker."""

    type: Annotated[str, Field(max_length=200)]
    message: Annotated[str, Field(max_length=MAX_ERROR_CHARS)]
    compiling: bool = False
    """Python, Triton, nvcc or ptxas refused what it was to compile or load."""


class Failed(Message):
    """The reply to a command that raised."""

    id: int = 0
    ok: Literal[False] = False
    error: Error
