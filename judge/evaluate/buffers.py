"""Memory that the judge lends to workers: allocation, copies, refill, pristine copies.

On CUDA every buffer is one `cudaMalloc` of its own: an IPC handle opens the whole allocation that
it was taken from, so a block of torch's caching allocator would show the worker its neighbours.
On the CPU a buffer is anonymous shared memory of fixed size, whose descriptor goes over the
worker's channel.
"""

import fcntl
import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

import torch

from judge.worker import cudart
from judge.worker.buffers import device_bytes, shared_bytes, synchronize, typed
from judge.worker.messages import (
    Argument,
    Buffer,
    BufferArgument,
    CudaHandle,
    InputSpec,
    SharedHandle,
    TensorSpec,
    ValueArgument,
)
from kb.errors import InvalidInputError, KbError

# Bytes compared at a time: `torch.equal` of views this large needs 1/8 of it beside them.
_COMPARE_BYTES: Final = 1 << 30

# Elements nudged at a time.
_NUDGED: Final = 1 << 24

_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL

# Noise is written in place, which torch does for these.
_NOISE_DTYPES: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True, eq=False)
class Exported:
    """One buffer as the judge holds it."""

    buffer: Buffer
    """What `Worker.open` tells the worker."""
    tensor: Any
    """The judge's view of the memory: a contiguous torch.Tensor of the buffer's spec."""
    descriptor: int | None
    """Of the shared memory on the CPU; None on CUDA."""
    address: int = 0
    """Of the device memory on CUDA."""

    @property
    def name(self) -> str:
        """The buffer's name."""
        return self.buffer.name

    @property
    def flat(self) -> Any:
        """The contents as a vector of bytes (uint8), shared."""
        return as_bytes(self.tensor)


Lent = list[Exported | None]
"""Buffers by position; None where there is no tensor."""


class Exporter(AbstractContextManager["Exporter"]):
    """Allocates and frees the buffers of one session, on "cpu" or "cuda:N"; a context manager."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self._exported: dict[str, Exported] = {}

    def allocate(self, name: str, spec: TensorSpec) -> Exported:
        """Allocate memory for `spec` under a new name; contents are undefined.

        Raises
        ------
        kb.errors.KbError
            The name is taken, or the memory cannot be had.
        """
        if name in self._exported:
            raise InvalidInputError(f"buffer {name} is already allocated")
        make = self._on_device if self.device.type == "cuda" else self._shared
        exported = make(name, spec)
        self._exported[name] = exported
        return exported

    def free(self, names: Iterable[str]) -> None:
        """Free buffers; workers have to close them first (`Worker.close_buffers`).

        Tensors on a freed CUDA buffer, `Exported.tensor` among them, must not be used again.
        """
        for name in names:
            exported = self._exported.pop(name, None)
            if exported is None:
                continue
            if exported.descriptor is not None:
                os.close(exported.descriptor)
            elif exported.address:
                cudart.free(self.device.index, exported.address)

    def close(self) -> None:
        """Free every buffer."""
        self.free(list(self._exported))

    def __exit__(self, *_: object) -> None:
        self.close()

    def _on_device(self, name: str, spec: TensorSpec) -> Exported:
        index = self.device.index
        torch.cuda.init()
        try:
            address = cudart.allocate(index, spec.nbytes)
        except cudart.CudaError:
            # torch keeps freed blocks for itself; the memory may be there.
            torch.cuda.empty_cache()
            address = cudart.allocate(index, spec.nbytes)
        try:
            handle = CudaHandle(device=index, ipc=cudart.export(index, address))
        except cudart.CudaError:
            cudart.free(index, address)
            raise
        tensor = typed(device_bytes(index, address, spec.nbytes), spec)
        buffer = Buffer(shape=spec.shape, dtype=spec.dtype, name=name, handle=handle)
        return Exported(buffer, tensor, None, address)

    def _shared(self, name: str, spec: TensorSpec) -> Exported:
        descriptor = -1
        try:
            descriptor = os.memfd_create("kb-buffer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(descriptor, spec.nbytes)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
            tensor = typed(shared_bytes(descriptor, spec.nbytes), spec)
        except (OSError, ValueError, OverflowError) as error:
            if descriptor >= 0:
                os.close(descriptor)
            raise KbError(f"no shared memory of {spec.nbytes} bytes: {error}") from None
        buffer = Buffer(shape=spec.shape, dtype=spec.dtype, name=name, handle=SharedHandle())
        return Exported(buffer, tensor, descriptor)


def as_bytes(tensor: Any) -> Any:
    """The contents of a contiguous tensor as a vector of bytes (uint8), shared."""
    return tensor.reshape(-1).view(torch.uint8)


def copy(source: Any, into: Exported) -> None:
    """Copy a tensor into a buffer, bit for bit, and wait until it is there.

    Raises
    ------
    kb.errors.InvalidInputError
        Shape or dtype differ.
    """
    target = into.tensor
    if tuple(source.shape) != tuple(target.shape) or source.dtype != target.dtype:
        raise InvalidInputError(
            f"buffer {into.name} is {target.dtype}{list(target.shape)}, "
            f"not {source.dtype}{list(source.shape)}"
        )
    target.copy_(source)
    synchronize(target.device)


def pristine(exported: Exported) -> Any:
    """Return a copy of a buffer's contents in memory that no worker can reach."""
    clone = exported.tensor.clone()
    synchronize(clone.device)
    return clone


def unchanged(exported: Exported, original: Any) -> bool:
    """Whether a buffer still has, bit for bit, the contents that `pristine` copied."""
    current, expected = exported.flat, as_bytes(original)
    return current.numel() == expected.numel() and all(
        torch.equal(a, b)
        for a, b in zip(current.split(_COMPARE_BYTES), expected.split(_COMPARE_BYTES), strict=True)
    )


def names(lent: Lent) -> list[str | None]:
    """Names of buffers by position."""
    return [None if buffer is None else buffer.name for buffer in lent]


def arguments(inputs: Sequence[InputSpec], lent: Lent) -> list[Argument]:
    """The inputs as a call takes them: buffers by name, other values as they are."""
    return [
        ValueArgument(value=spec.value) if buffer is None else BufferArgument(buffer=buffer.name)
        for spec, buffer in zip(inputs, lent, strict=True)
    ]


def tensors(lent: Lent) -> list[Any]:
    """The judge's views of buffers that are all there."""
    return [buffer.tensor for buffer in lent if buffer is not None]


def write(lent: Lent, values: Sequence[Any]) -> None:
    """Copy tensors into buffers by position."""
    for buffer, tensor in zip(lent, values, strict=True):
        if buffer is not None:
            copy(tensor, buffer)


def disturb(lent: Lent, seed: int) -> None:
    """Write other contents into buffers; see `refill`."""
    for number, buffer in enumerate(lent):
        if buffer is not None:
            refill(buffer, seed + number)


def refill(exported: Exported, seed: int) -> None:
    """Write other, harmless contents, so that outputs computed late or aliased come out wrong.

    Floating-point and complex contents become zero-mean noise as large as the contents were, or
    of standard deviation 1 if that is more. The bytes of other numbers (integers, 8- and 4-bit
    floats) change places in reverse order, so that an index stays in range; where nothing changes
    by that they become zero. Bools are negated.
    """
    tensor = exported.tensor
    if tensor.numel() == 0:
        return
    if tensor.dtype.is_complex:
        _noise(torch.view_as_real(tensor), seed)
    elif tensor.dtype in _NOISE_DTYPES:
        _noise(tensor, seed)
    elif tensor.dtype == torch.bool:
        torch.logical_not(tensor, out=tensor)
    else:
        elements = exported.flat.view(-1, tensor.element_size())
        reversed_ = elements.flip(0)
        if torch.equal(reversed_, elements):
            elements.zero_()
        else:
            elements.copy_(reversed_)
    synchronize(tensor.device)


def nudge(exported: Exported, step: float, seed: int) -> None:
    """Multiply every number of a floating-point buffer by 1 + `step` or 1 - `step`, at random."""
    tensor = exported.tensor
    generator = torch.Generator(device=tensor.device).manual_seed(seed)
    for part in tensor.reshape(-1).split(_NUDGED):
        signs = torch.randint(2, part.shape, generator=generator, device=part.device) * 2 - 1
        part.mul_((1.0 + step * signs).to(part.dtype))
    synchronize(tensor.device)


def _noise(tensor: Any, seed: int) -> None:
    low, high = (float(bound) for bound in torch.aminmax(tensor))
    largest = max(abs(low), abs(high))
    # A NaN or an infinity says nothing about the scale of the rest; six deviations must fit.
    limit = torch.finfo(tensor.dtype).max / 8
    scale = min(max(1.0, largest), limit) if largest <= limit else 1.0
    generator = torch.Generator(device=tensor.device).manual_seed(seed)
    tensor.normal_(0.0, scale, generator=generator)
