"""Device memory shared with a sandboxed process, for the probe: CUDA runtime calls by ctypes."""

import ctypes
from pathlib import Path

import torch

BUFFER_BYTES = 1 << 22


class _Handle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * 64),)


def take_handle(raw: bytes) -> ctypes.Structure:
    """Return the 64 bytes as a cudaIpcMemHandle_t, which is passed by value."""
    return _Handle.from_buffer_copy(raw)


def runtime() -> ctypes.CDLL:
    """Return the CUDA runtime library that torch loaded; raises OSError when there is none."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        name = line.rpartition(" ")[2]
        if "libcudart" in name:
            return ctypes.CDLL(name)
    return ctypes.CDLL("libcudart.so")


def check(result: int) -> None:
    """Raise RuntimeError unless `result` is cudaSuccess."""
    if result:
        raise RuntimeError(f"CUDA error {result}")


class Buffer:
    """Zeroed device memory, allocated by itself, that another process can open."""

    def __init__(self, device: int) -> None:
        torch.cuda.set_device(device)
        torch.cuda.synchronize()
        self._cudart = runtime()
        self._pointer = ctypes.c_void_p()
        size = ctypes.c_size_t(BUFFER_BYTES)
        check(self._cudart.cudaMalloc(ctypes.byref(self._pointer), size))
        self.clear()
        handle = _Handle()
        check(self._cudart.cudaIpcGetMemHandle(ctypes.byref(handle), self._pointer))
        self.handle = bytes(handle).hex()

    def clear(self) -> None:
        """Set it to zero."""
        check(self._cudart.cudaMemset(self._pointer, 0, ctypes.c_size_t(BUFFER_BYTES)))
        check(self._cudart.cudaDeviceSynchronize())

    def floats(self) -> set[float]:
        """Return the different values that it holds."""
        host = (ctypes.c_float * (BUFFER_BYTES // 4))()
        size, to_host = ctypes.c_size_t(BUFFER_BYTES), 2
        check(self._cudart.cudaMemcpy(host, self._pointer, size, to_host))
        return set(host)
