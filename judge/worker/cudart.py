"""The CUDA runtime calls behind exported buffers, through ctypes on the library torch loaded.

`torch.cuda.cudart()` has neither `cudaMalloc` nor the IPC calls, and torch's own IPC shares blocks
of its caching allocator. Imports no torch by itself; torch must have been imported with CUDA.
"""

import contextlib
import ctypes
import functools
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kb.errors import KbError

# "cudaMalloc'd memory may be sub-allocated from a larger block ... only share allocations with a
# 2 MiB aligned size": CUDA runtime API, cudaIpcGetMemHandle.
IPC_GRANULE: Final = 2 << 20

_LAZY_PEER_ACCESS: Final = 1  # cudaIpcMemLazyEnablePeerAccess, the only flag there is


class CudaError(KbError):
    """A CUDA runtime call failed."""

    status = 503


class _IpcHandle(ctypes.Structure):
    """`cudaIpcMemHandle_t`: 64 opaque bytes, passed by value."""

    _fields_ = [("reserved", ctypes.c_ubyte * 64)]


def _loaded_runtimes() -> Iterator[str]:
    """Paths of the CUDA runtimes mapped into this process."""
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        if match := re.search(r"(/\S*/libcudart[-.\w]*\.so[.\d]*)$", line):
            yield match[1]


def _installed_runtimes() -> Iterator[str]:
    """Paths of the CUDA runtimes that NVIDIA's wheels installed."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or [] if spec else []:
        yield from map(str, sorted(Path(folder).glob("*/lib/libcudart.so.*"), reverse=True))


@functools.cache
def library() -> Any:
    """Return the CUDA runtime with the signatures of what is used here declared.

    Raises
    ------
    CudaError
        No runtime is loaded or installed.
    """
    for path in [*_loaded_runtimes(), *_installed_runtimes()]:
        try:
            runtime = ctypes.CDLL(path)
        except OSError:
            continue
        pointer = ctypes.POINTER(ctypes.c_void_p)
        for name, arguments in (
            ("cudaGetDevice", [ctypes.POINTER(ctypes.c_int)]),
            ("cudaSetDevice", [ctypes.c_int]),
            ("cudaMalloc", [pointer, ctypes.c_size_t]),
            ("cudaFree", [ctypes.c_void_p]),
            ("cudaIpcGetMemHandle", [ctypes.POINTER(_IpcHandle), ctypes.c_void_p]),
            ("cudaIpcOpenMemHandle", [pointer, _IpcHandle, ctypes.c_uint]),
            ("cudaIpcCloseMemHandle", [ctypes.c_void_p]),
            ("cudaGetLastError", []),
        ):
            function = getattr(runtime, name)
            function.argtypes, function.restype = arguments, ctypes.c_int
        for name in ("cudaGetErrorName", "cudaGetErrorString"):
            function = getattr(runtime, name)
            function.argtypes, function.restype = [ctypes.c_int], ctypes.c_char_p
        return runtime
    raise CudaError("no CUDA runtime (libcudart) is loaded: torch was built without CUDA")


def _check(code: int, what: str) -> None:
    if code:
        runtime = library()
        runtime.cudaGetLastError()  # the error is reported here; later calls must not see it
        name = runtime.cudaGetErrorName(code).decode(errors="replace")
        text = runtime.cudaGetErrorString(code).decode(errors="replace")
        raise CudaError(f"{what}: {name} ({text})")


@contextlib.contextmanager
def _current_device(device: int) -> Iterator[Any]:
    """Make `device` current for a call and go back: torch reads the current device from CUDA."""
    runtime = library()
    previous = ctypes.c_int()
    _check(runtime.cudaGetDevice(ctypes.byref(previous)), "cudaGetDevice")
    _check(runtime.cudaSetDevice(device), "cudaSetDevice")
    try:
        yield runtime
    finally:
        runtime.cudaSetDevice(previous.value)


def allocate(device: int, nbytes: int) -> int:
    """Allocate at least `nbytes` on `device` by `cudaMalloc`; the address.

    The size is rounded up to 2 MiB, so that an IPC handle shares this allocation and no other.
    """
    size = max(1, -(-nbytes // IPC_GRANULE)) * IPC_GRANULE
    address = ctypes.c_void_p()
    with _current_device(device) as runtime:
        _check(runtime.cudaMalloc(ctypes.byref(address), size), f"cudaMalloc of {size} bytes")
    return int(address.value or 0)


def free(device: int, address: int) -> None:
    """Free what `allocate` returned."""
    with _current_device(device) as runtime:
        _check(runtime.cudaFree(address), "cudaFree")


def export(device: int, address: int) -> str:
    """Return the IPC handle of an allocation as 128 hexadecimal digits."""
    handle = _IpcHandle()
    with _current_device(device) as runtime:
        _check(runtime.cudaIpcGetMemHandle(ctypes.byref(handle), address), "cudaIpcGetMemHandle")
    return bytes(handle.reserved).hex()


def open_handle(device: int, ipc: str) -> int:
    """Map another process's allocation; the address in this process."""
    handle = _IpcHandle.from_buffer_copy(bytes.fromhex(ipc))
    address = ctypes.c_void_p()
    with _current_device(device) as runtime:
        code = runtime.cudaIpcOpenMemHandle(ctypes.byref(address), handle, _LAZY_PEER_ACCESS)
        _check(code, "cudaIpcOpenMemHandle")
    return int(address.value or 0)


def close_handle(device: int, address: int) -> None:
    """Unmap what `open_handle` returned; the owner's memory stays."""
    with _current_device(device) as runtime:
        _check(runtime.cudaIpcCloseMemHandle(address), "cudaIpcCloseMemHandle")
