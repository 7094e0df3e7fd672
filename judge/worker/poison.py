"""Memory filled with NaN bytes, so that what a candidate forgets to write is seen as NaN.

0xFF bytes are NaN in every IEEE format and in E4M3, and -1 in integers.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_BYTE: Final = 0xFF

# torch's caching allocator serves requests up to 1 MiB from blocks of 2 MiB, larger ones by
# splitting free large blocks (c10/cuda/CUDACachingAllocator.h: kSmallSize, kSmallBuffer).
_SMALL_BLOCK: Final = 1 << 20
_SMALL_BLOCKS: Final = 64
# Of the free device memory, so that other processes on the card still find some.
_LARGE_FRACTION: Final = 0.25
_LARGE_MOST: Final = 16 << 30


def _poison_device(device: Any) -> None:
    """Fill memory that torch's allocator will hand out next."""
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    blocks: list[Any] = []
    with contextlib.suppress(torch.OutOfMemoryError):
        blocks.extend(nan_bytes(_SMALL_BLOCK, device) for _ in range(_SMALL_BLOCKS))
        blocks.append(nan_bytes(min(int(free * _LARGE_FRACTION), _LARGE_MOST), device))
    torch.cuda.synchronize(device)
    del blocks


def nan_bytes(nbytes: int, device: Any) -> Any:
    """Allocate bytes that are NaN in every format."""
    return torch.full((nbytes,), _BYTE, dtype=torch.uint8, device=device)


class _Fill(TorchDispatchMode):  # type: ignore[misc]
    """Fills what operators return uninitialized."""

    _EMPTY: Final = frozenset({
        "aten::empty.memory_format", "aten::empty_like", "aten::empty_strided",
        "aten::empty_permuted", "aten::new_empty", "aten::new_empty_strided",
    })  # fmt: skip

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.name() in self._EMPTY and type(result) is torch.Tensor:
            storage = result.untyped_storage()
            if storage.nbytes():
                storage.fill_(_BYTE)
        return result


@contextlib.contextmanager
def poisoned(device: Any) -> Iterator[None]:
    """Poison memory before and during a call.

    On CUDA the allocator's free blocks are filled before. A dispatch mode would also see tensors
    that are allocated past them, but torch.compile skips functions under one and remembers that,
    and a graph captured under it would contain the filling: honest candidates would be slower for
    ever. On the CPU, where nothing is timed, the mode fills every uninitialized tensor.
    """
    if device.type == "cuda":
        _poison_device(device)
        try:
            yield
        finally:  # other processes need what this one did not use
            with contextlib.suppress(RuntimeError):  # the call may have broken the device's context
                torch.cuda.empty_cache()
    else:
        with _Fill():
            yield
