"""The judge's buffers as a worker opens them: contiguous tensors over foreign memory."""

import contextlib
import mmap
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from judge.worker import cudart
from judge.worker.messages import Buffer, CudaHandle, SharedHandle, TensorSpec


class BadBufferError(Exception):
    """A buffer cannot be opened, is unknown, or does not have the tensor's shape or dtype."""


def dtype_name(dtype: Any) -> str:
    """Return torch's name without the module: "bfloat16"."""
    return str(dtype).removeprefix("torch.")


def dtype_of(name: str) -> Any:
    """Return the torch dtype called `name`.

    Raises
    ------
    BadBufferError
        torch has none of this name.
    """
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise BadBufferError(f"torch has no dtype {name!r}")
    return dtype


def synchronize(device: Any) -> None:
    """Wait for a device: another process, whose streams do not wait for ours, uses memory next."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def cast(value: Any, dtype: Any) -> Any:
    """Return a floating-point tensor in `dtype` (None: its own); all else as it is."""
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(dtype) if floating and dtype is not None else value


@contextlib.contextmanager
def default_dtype(dtype: Any) -> Iterator[None]:
    """Tensors that a model creates without a dtype are of this one; None or a dtype that torch
    takes for no default: torch's own."""
    previous = torch.get_default_dtype()
    if dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(previous)


def spec_of(tensor: Any) -> TensorSpec:
    """Shape and dtype of a tensor."""
    return TensorSpec(shape=tuple(tensor.shape), dtype=dtype_name(tensor.dtype))


def typed(flat: Any, spec: TensorSpec) -> Any:
    """See a vector of `spec.nbytes` uint8 as the tensor `spec`; shares memory."""
    return flat.view(dtype_of(spec.dtype)).view(spec.shape)


def shared_bytes(descriptor: int, nbytes: int) -> Any:
    """Map shared memory as a vector of uint8; the mapping lives as long as tensors on it."""
    if nbytes == 0:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(mmap.mmap(descriptor, nbytes), dtype=torch.uint8)


def device_bytes(device: int, address: int, nbytes: int) -> Any:
    """See device memory as a vector of uint8; whoever frees it must outlive the tensor."""
    target = torch.device("cuda", device)
    torch.cuda.init()  # nothing else may have been asked of torch's CUDA in this process
    if nbytes == 0:
        return torch.empty(0, dtype=torch.uint8, device=target)
    interface = {"shape": (nbytes,), "typestr": "|u1", "data": (address, False), "strides": None}
    memory = SimpleNamespace(__cuda_array_interface__=interface | {"version": 2})
    return torch.as_tensor(memory, device=target)


class OpenBuffers:
    """The buffers that are open, by name."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Any, tuple[int, int] | None]] = {}
        """Tensors, and the device and address to unmap; shared memory goes with its tensors."""

    def open(self, buffers: list[Buffer], descriptors: list[int]) -> None:
        """Map buffers; `descriptors`, one for each in shared memory, are closed.

        Raises
        ------
        BadBufferError
            There are not as many descriptors as shared buffers.
        judge.worker.cudart.CudaError
            CUDA refused the handle.
        """
        try:
            shared = sum(isinstance(buffer.handle, SharedHandle) for buffer in buffers)
            if shared != len(descriptors):
                raise BadBufferError(f"{len(descriptors)} descriptors for {shared} shared buffers")
            remaining = iter(descriptors)
            for buffer in buffers:
                self.close([buffer.name])
                mapped = None
                if isinstance(buffer.handle, CudaHandle):
                    device = buffer.handle.device
                    mapped = device, cudart.open_handle(device, buffer.handle.ipc)
                    flat = device_bytes(*mapped, buffer.nbytes)
                else:
                    flat = shared_bytes(next(remaining), buffer.nbytes)
                self._open[buffer.name] = typed(flat, buffer), mapped
        finally:
            for descriptor in descriptors:
                with contextlib.suppress(OSError):
                    os.close(descriptor)

    def close(self, names: list[str]) -> None:
        """Unmap buffers; unknown names are passed over."""
        for name in names:
            _, mapped = self._open.pop(name, (None, None))
            if mapped is not None:
                cudart.close_handle(*mapped)

    def __getitem__(self, name: str) -> Any:
        if name not in self._open:
            raise BadBufferError(f"no buffer {name!r} is open")
        return self._open[name][0]

    def write(self, name: str, tensor: Any) -> None:
        """Copy a tensor of the same shape and dtype into a buffer.

        Raises
        ------
        BadBufferError
            The buffer is unknown or differs in shape or dtype.
        """
        target = self[name]
        if tuple(target.shape) != tuple(tensor.shape) or target.dtype != tensor.dtype:
            raise BadBufferError(
                f"the tensor is {dtype_name(tensor.dtype)}{list(tensor.shape)}, buffer {name} is "
                f"{dtype_name(target.dtype)}{list(target.shape)}"
            )
        target.copy_(tensor)
