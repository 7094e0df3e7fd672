"""What messages say about tensors: shapes, dtypes, buffers and arguments; imports no torch."""

import math
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

# Bytes per element by torch's dtype name; what is absent here cannot be exchanged.
ITEM_BYTES: Final[dict[str, int]] = {
    "bool": 1, "uint8": 1, "int8": 1,
    "float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e5m2": 1, "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1, "float4_e2m1fn_x2": 1,
    "uint16": 2, "int16": 2, "float16": 2, "bfloat16": 2,
    "uint32": 4, "int32": 4, "float32": 4,
    "uint64": 8, "int64": 8, "float64": 8, "complex64": 8,
    "complex128": 16,
}  # fmt: skip

Device = Annotated[str, Field(pattern=r"^(cpu|cuda:\d{1,2})$")]
"""Where tensors live: "cpu" or "cuda:N"."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,200}$")]
"""A buffer's name, chosen by the judge."""

Label = Annotated[str, Field(max_length=300)]
"""A name that untrusted code chose (a kernel, a library, an operator)."""

Dimension = Annotated[int, Field(ge=0, lt=1 << 48)]

Precision = Literal["ieee", "tf32"]
"""What float32 matrix products and convolutions may round to, the same for every contender."""


class Message(BaseModel):
    """Strict about unknown fields; infinite and NaN values pass as JSON's usual extensions."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")


class ValueKind(StrEnum):
    """Contents of the floating-point inputs; integers and bools are always the problem's own."""

    GIVEN = "given"
    """The problem's `get_inputs` under `torch.manual_seed(seed)`."""
    NORMAL = "normal"
    """Zero mean, standard deviation 1."""
    LARGE = "large"
    """Uniform within ±2^40 (±2^7 in float16): even cubes stay finite in float32."""
    TINY = "tiny"
    """Uniform within ±2^-60 (±2^-6 in float16): products of two are still normal numbers."""
    ZERO = "zero"
    """All zero."""
    NEGATIVE = "negative"
    """The given values' magnitudes, all negative."""
    INF = "inf"
    """The given values with a few infinities of both signs."""
    UNEVEN = "uneven"
    """The given values, rows and columns scaled by random powers of two, 1 to 2^-12: a few of them
    decide a sum, so that it matters whether they are in it."""
    SHIFTED = "shifted"
    """Mean 32, standard deviation 1: an element that is left out moves every sum the same way."""
    APART = "apart"
    """Standard deviation 1, and along the first dimension means of their own, 1/4 to 32 of either
    sign: samples differ although each is summed up whole, or saturates."""


class TensorSpec(Message):
    """A contiguous tensor's shape and torch dtype name."""

    shape: tuple[Dimension, ...] = Field(max_length=16)
    dtype: Literal[tuple(ITEM_BYTES)]  # type: ignore[valid-type]

    @property
    def numel(self) -> int:
        """Elements; 1 for a tensor without dimensions."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that the contents take."""
        return self.numel * ITEM_BYTES[self.dtype]


class SharedHandle(Message):
    """Contents in memory that both processes map (device "cpu").

    The descriptor comes with the `Open` message as a file descriptor of the channel's socket, one
    for each buffer in order. It is sealed: a worker that could shrink it would kill the judge by
    a bus error at its next read.
    """

    kind: Literal["shared"] = "shared"


class CudaHandle(Message):
    """Contents in one `cudaMalloc`, opened by `cudaIpcOpenMemHandle`."""

    kind: Literal["cuda"] = "cuda"
    device: int = Field(ge=0)
    """Ordinal in the worker, which sees the same devices as the judge."""
    ipc: str = Field(pattern=r"^[0-9a-f]{128}$")
    """The 64 bytes of `cudaIpcMemHandle_t`."""


Handle = Annotated[SharedHandle | CudaHandle, Field(discriminator="kind")]


class Buffer(TensorSpec):
    """Memory of the judge that a worker may open under `name`."""

    name: Name
    handle: Handle


class BufferArgument(Message):
    """An input that is an open buffer."""

    buffer: Name


class ValueArgument(Message):
    """An input that is no tensor, as `worker.values.encode` wrote it."""

    value: JsonValue


Argument = BufferArgument | ValueArgument

Into = list[Name | None]
"""Buffers to write, by position; None leaves that tensor out (and stands for what is no tensor)."""


class InputSpec(Message):
    """One input of the problem: a tensor, or a value passed on as it is."""

    name: Label
    """The parameter of `Model.forward` that it is bound to."""
    tensor: TensorSpec | None = None
    value: JsonValue = None
    """The encoded value, where `tensor` is None."""


class Parameter(Message):
    """A tensor that the model holds."""

    name: Label
    """Dotted, as in the state dict."""
    tensor: TensorSpec
    kind: Literal["parameter", "buffer", "attribute"]
    """`attribute`: a tensor that is in no state dict (plain or a non-persistent buffer)."""


class Mutation(Message):
    """A wrong variant of the oracle; the judge must call its outputs wrong.

    truncate
        The last eighth (at least one) along `dim` of input `index` is taken as zero.
    sparse
        One in 27 elements (as many as a 3-D window of 3 has taps) of input `index`, chosen by
        `seed`, is taken as zero.
    tap
        One spatial tap (position 0 of every dimension after the second) of parameter `parameter`
        is taken as zero.
    """

    name: Literal["truncate", "sparse", "tap"]
    index: int = Field(default=0, ge=0)
    dim: int = -1
    seed: int = 0
    parameter: Label = ""
