"""What interpreted kernels see in place of the host's memory.

The host can read memory that holds numbers of the same kind which mean nothing. Only loads and
stores of kernels find the values.
"""

import contextlib
import ctypes
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

# An access so near to a tensor was meant for it.
_NEAR: Final = 4096
# Addresses are larger than any size or stride.
_LEAST_ADDRESS: Final = 1 << 40
MOST_NOTES: Final = 20


@dataclass(slots=True)
class _Region:
    """One piece of the host's memory, and what kernels see in its place."""

    storage: Any
    """Held, so that its address is not used again meanwhile."""
    address: int
    kernel_bytes: Any
    """uint8 array: what kernels load and store."""
    host_bytes: Any
    """uint8 array: what the host sees."""
    is_input: bool
    """It belongs to an input."""

    @property
    def size(self) -> int:
        return int(self.kernel_bytes.size)

    def write_host(self, contents: Any) -> None:
        """Write an array over what the host sees."""
        ctypes.memmove(self.address, contents.ctypes.data, self.size)

    def read_host(self) -> Any:
        """Tensors in the host's memory."""
        contents = np.empty(self.size, np.uint8)
        ctypes.memmove(contents.ctypes.data, self.address, self.size)
        return contents

    def sync_from_host(self) -> bool:
        """Take over what the host wrote where nothing was hidden; False where something was."""
        data = self.read_host()
        if np.array_equal(data, self.host_bytes):
            return True
        unhidden = not self.is_input and np.array_equal(self.kernel_bytes, self.host_bytes)
        if unhidden:
            self.kernel_bytes[:], self.host_bytes = data, data  # in place: its address is noted
        return unhidden


class KernelMemory:
    """What interpreted kernels see during one call, and what they did outside of it."""

    def __init__(self) -> None:
        self.outside = ""
        """The first access beside a tensor, in words."""
        self.computed: set[str] = set()
        """Operators that the host ran on values which it cannot see."""
        self._regions: dict[int, _Region] = {}
        self._random = np.random.default_rng()
        self._lock = threading.RLock()
        self._has_tables = False
        """Addresses may come from elsewhere than from the arguments of a launch."""
        self._sort()

    def hide(self, tensor: Any) -> None:
        """Keep an input's values from the host."""
        region = self.track(tensor, is_input=True)
        if region is not None:
            region.host_bytes = self._decoy_bytes(region.kernel_bytes, tensor.dtype)
            region.write_host(region.host_bytes)

    def track(self, tensor: Any, *, is_input: bool = False) -> _Region | None:
        """Note a tensor's memory, with what it holds now."""
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        if not address or not size or tensor.device.type != "cpu":
            return None
        with self._lock:
            existing = self._regions.get(address)
            if existing is not None and existing.size == size:
                return existing
            region = _Region(storage, address, np.empty(size, np.uint8), None, is_input)
            region.kernel_bytes = region.read_host()
            region.host_bytes = region.kernel_bytes.copy()
            self._regions[address] = region
            self._sort()
            return region

    def regions_of(self, tensors: Sequence[Any]) -> list[_Region]:
        """The regions that tensors lie in, each once."""
        regions: dict[int, _Region] = {}
        for tensor in tensors:
            # A fake or functional tensor has no memory to ask for.
            if (
                type(tensor) in (torch.Tensor, torch.nn.Parameter)
                and tensor.layout is torch.strided
            ):
                region = self._regions.get(tensor.untyped_storage().data_ptr())
                if region is not None:
                    regions[region.address] = region
        return list(regions.values())

    def note_launch(self, values: Sequence[Any]) -> None:
        """Note the arguments of a launch, and what the host has written meanwhile."""
        for region in self._regions.values():
            region.sync_from_host()
        self._arguments(values)

    def _arguments(self, values: Sequence[Any]) -> None:
        for value in values:
            if isinstance(value, tuple | list):
                self._arguments(value)
            elif isinstance(value, torch.Tensor):
                self._has_tables = self._has_tables or value.dtype in (torch.int64, torch.uint64)
                self.track(value)
            elif isinstance(value, int):
                self._has_tables = self._has_tables or value >= _LEAST_ADDRESS
            elif hasattr(value, "base"):
                self._arguments([value.base])

    @contextlib.contextmanager
    def revealed(self, regions: Sequence[_Region], *, written: bool) -> Iterator[None]:
        """Let the host see what kernels see, meanwhile."""
        for region in regions:
            region.sync_from_host()
            region.write_host(region.kernel_bytes)
        try:
            yield
        finally:
            for region in regions:
                if written:
                    region.kernel_bytes[:] = region.read_host()
                region.write_host(region.host_bytes)

    def finish(self) -> None:
        """Put what kernels see where the host sees it; an input that the host changed stays so."""
        for region in self._regions.values():
            if region.sync_from_host() or not region.is_input:
                region.write_host(region.kernel_bytes)
        self._regions = {}
        self._sort()

    def translate(self, pointers: Any, mask: Any, what: str) -> Any:
        """Addresses of what kernels see, for addresses of the host's memory."""
        index = np.searchsorted(self._starts, pointers, side="right") - 1
        inside = (index >= 0) & (pointers < self._ends[index])
        if not inside.all():
            self._note_out_of_bounds(pointers, inside | ~mask if mask is not None else inside, what)
        return np.where(inside, pointers + self._steps[index], pointers)

    def _note_out_of_bounds(self, pointers: Any, in_bounds: Any, what: str) -> None:
        if self.outside or self._has_tables or bool(in_bounds.all()):
            return
        for pointer in pointers[~in_bounds].ravel()[:MOST_NOTES].tolist():
            index = int(np.searchsorted(self._starts, np.uint64(pointer), side="right")) - 1
            after = pointer - int(self._ends[index]) if index >= 0 else _NEAR
            before = int(self._starts[index + 1]) - pointer if index + 1 < self._count else _NEAR
            if min(after, before) < _NEAR:
                if after > before:
                    where = f"{before} bytes before the start"
                else:
                    where = f"{after} bytes past the end" if after else "right past the end"
                self.outside = f"a kernel {what} {where} of a tensor"
                return

    def _sort(self) -> None:
        regions = sorted(self._regions.values(), key=lambda region: region.address)
        self._count = len(regions)
        # One more than there are: a place that is none is looked up as well.
        starts = [region.address for region in regions]
        self._starts = np.array(starts, np.uint64)
        self._ends = np.array([*(region.address + region.size for region in regions), 0], np.uint64)
        steps = [(r.kernel_bytes.ctypes.data - r.address) % (1 << 64) for r in regions]
        self._steps = np.array([*steps, 0], np.uint64)

    def _decoy_bytes(self, truth: Any, dtype: Any) -> Any:
        """Bytes of other numbers: drawn from the same ones, floating-point ones scaled at random.

        Drawn with repetition, they have other sums; an index stays an index.
        """
        size = torch.empty(0, dtype=dtype).element_size()
        items = truth[: truth.size // size * size].reshape(-1, size)
        draw = items[self._random.integers(0, len(items), len(items))] if len(items) else items
        dtypes = {torch.float64: np.float64, torch.float32: np.float32, torch.float16: np.float16}
        factors = self._random.uniform(0.5, 1.75, len(items)).astype(np.float32)
        with np.errstate(all="ignore"):
            if dtype in dtypes:
                values = draw.reshape(-1).view(dtypes[dtype])
                draw = (values * factors).astype(dtypes[dtype]).view(np.uint8)
            elif dtype is torch.bfloat16:
                wide = (draw.reshape(-1).view(np.uint16).astype(np.uint32) << 16).view(np.float32)
                draw = ((wide * factors).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        others = truth.copy()
        others[: items.size] = draw.reshape(-1)
        return others
