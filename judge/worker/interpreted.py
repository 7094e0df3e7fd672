"""Triton's interpreter under watch: kernels see the inputs, and the host sees other numbers.

Whether a Triton kernel computes what a file returns cannot be read off names: NumPy, another
library or a thread may do it beside a kernel that does nothing of use. So the values are kept where
only loads and stores of interpreted kernels find them. The memory that the host can read holds
numbers of the same kind that mean nothing, and what the host computes from those is wrong.

What the host may do with the values is allocate, view and move: those operators of torch are
carried out on what the kernels see. Everything else, in any thread, works on the other numbers.
"""

import contextlib
import ctypes
import itertools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from judge.worker.card import answer_for_a_card
from judge.worker.faster_interpreter import make_faster
from judge.worker.loops import Loops

# Operators that read no values, whatever they are given.
_ALLOCATES: Final = re.compile(r"aten::(?:new_|_)?(?:empty|zeros|ones|full|rand|arange)\w*\Z")
# Operators that move values and compute none; those that only view are known by their schema.
_MOVES: Final = re.compile(
    r"aten::(?:clone|copy_|_to_copy|to|contiguous|cat|stack|constant_pad_nd|repeat|flip|roll|"
    r"fill_|zero_|slice_scatter|select_scatter|item|_local_scalar_dense|is_nonzero|resize_|lift\w*|"
    r"_unsafe_view|_reshape_copy|view_copy|expand_copy|permute_copy)\Z"
)
# An access so near to a tensor was meant for it.
_NEAR: Final = 4096
# Addresses are larger than any size or stride.
_LEAST_ADDRESS: Final = 1 << 40
_MOST_NOTES: Final = 20


@dataclass(slots=True)
class _Region:
    """One piece of the host's memory, and what kernels see in its place."""

    storage: Any
    """Held, so that its address is not used again meanwhile."""
    address: int
    truth: Any
    """uint8 array: what kernels load and store."""
    shown: Any
    """uint8 array: what the host sees."""
    given: bool
    """It belongs to an input."""

    @property
    def size(self) -> int:
        return int(self.truth.size)

    def show(self, contents: Any) -> None:
        """Write an array over what the host sees."""
        ctypes.memmove(self.address, contents.ctypes.data, self.size)

    def seen(self) -> Any:
        """Tensors in the host's memory."""
        found = np.empty(self.size, np.uint8)
        ctypes.memmove(found.ctypes.data, self.address, self.size)
        return found

    def follow(self) -> bool:
        """Take over what the host wrote where nothing was hidden; False where something was."""
        seen = self.seen()
        if np.array_equal(seen, self.shown):
            return True
        open_ = not self.given and np.array_equal(self.truth, self.shown)
        if open_:
            self.truth[:], self.shown = seen, seen  # in place: its address is noted
        return open_


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
        self._tables = False
        """Addresses may come from elsewhere than from the arguments of a launch."""
        self._sort()

    def hide(self, tensor: Any) -> None:
        """Keep an input's values from the host."""
        region = self.know(tensor, given=True)
        if region is not None:
            region.shown = self._others(region.truth, tensor.dtype)
            region.show(region.shown)

    def know(self, tensor: Any, *, given: bool = False) -> _Region | None:
        """Note a tensor's memory, with what it holds now."""
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        if not address or not size or tensor.device.type != "cpu":
            return None
        with self._lock:
            known = self._regions.get(address)
            if known is not None and known.size == size:
                return known
            region = _Region(storage, address, np.empty(size, np.uint8), None, given)
            region.truth = region.seen()
            region.shown = region.truth.copy()
            self._regions[address] = region
            self._sort()
            return region

    def of(self, tensors: Sequence[Any]) -> list[_Region]:
        """The regions that tensors lie in, each once."""
        found: dict[int, _Region] = {}
        for tensor in tensors:
            # A fake or functional tensor has no memory to ask for.
            if (
                type(tensor) in (torch.Tensor, torch.nn.Parameter)
                and tensor.layout is torch.strided
            ):
                region = self._regions.get(tensor.untyped_storage().data_ptr())
                if region is not None:
                    found[region.address] = region
        return list(found.values())

    def launched(self, values: Sequence[Any]) -> None:
        """Note the arguments of a launch, and what the host has written meanwhile."""
        for region in self._regions.values():
            region.follow()
        self._arguments(values)

    def _arguments(self, values: Sequence[Any]) -> None:
        for value in values:
            if isinstance(value, tuple | list):
                self._arguments(value)
            elif isinstance(value, torch.Tensor):
                self._tables = self._tables or value.dtype in (torch.int64, torch.uint64)
                self.know(value)
            elif isinstance(value, int):
                self._tables = self._tables or value >= _LEAST_ADDRESS
            elif hasattr(value, "base"):
                self._arguments([value.base])

    @contextlib.contextmanager
    def revealed(self, regions: Sequence[_Region], *, written: bool) -> Iterator[None]:
        """Let the host see what kernels see, meanwhile."""
        for region in regions:
            region.follow()
            region.show(region.truth)
        try:
            yield
        finally:
            for region in regions:
                if written:
                    region.truth[:] = region.seen()
                region.show(region.shown)

    def finish(self) -> None:
        """Put what kernels see where the host sees it; an input that the host changed stays so."""
        for region in self._regions.values():
            if region.follow() or not region.given:
                region.show(region.truth)
        self._regions = {}
        self._sort()

    def at(self, pointers: Any, mask: Any, what: str) -> Any:
        """Addresses of what kernels see, for addresses of the host's memory."""
        place = np.searchsorted(self._starts, pointers, side="right") - 1
        known = (place >= 0) & (pointers < self._ends[place])
        if not known.all():
            self._beside(pointers, known | ~mask if mask is not None else known, what)
        return np.where(known, pointers + self._steps[place], pointers)

    def _beside(self, pointers: Any, fine: Any, what: str) -> None:
        if self.outside or self._tables or bool(fine.all()):
            return
        for each in pointers[~fine].ravel()[:_MOST_NOTES].tolist():
            place = int(np.searchsorted(self._starts, np.uint64(each), side="right")) - 1
            after = each - int(self._ends[place]) if place >= 0 else _NEAR
            before = int(self._starts[place + 1]) - each if place + 1 < self._count else _NEAR
            if min(after, before) < _NEAR:
                where = (
                    f"{after} bytes behind the end of" if after <= before
                    else f"{before} bytes before the beginning of"
                )  # fmt: skip
                self.outside = f"a kernel {what} {where} a tensor"
                return

    def _sort(self) -> None:
        regions = sorted(self._regions.values(), key=lambda each: each.address)
        self._count = len(regions)
        # One more than there are: a place that is none is looked up as well.
        starts = [region.address for region in regions]
        self._starts = np.array(starts, np.uint64)
        self._ends = np.array([*(region.address + region.size for region in regions), 0], np.uint64)
        steps = [(region.truth.ctypes.data - region.address) % (1 << 64) for region in regions]
        self._steps = np.array([*steps, 0], np.uint64)

    def _others(self, truth: Any, dtype: Any) -> Any:
        """Bytes of other numbers: drawn from the same ones, floating-point ones scaled at random.

        Drawn with repetition, they have other sums; an index stays an index.
        """
        size = torch.empty(0, dtype=dtype).element_size()
        items = truth[: truth.size // size * size].reshape(-1, size)
        drawn = items[self._random.integers(0, len(items), len(items))] if len(items) else items
        plain = {torch.float64: np.float64, torch.float32: np.float32, torch.float16: np.float16}
        factors = self._random.uniform(0.5, 1.75, len(items)).astype(np.float32)
        with np.errstate(all="ignore"):
            if dtype in plain:
                values = drawn.reshape(-1).view(plain[dtype])
                drawn = (values * factors).astype(plain[dtype]).view(np.uint8)
            elif dtype is torch.bfloat16:
                wide = (drawn.reshape(-1).view(np.uint16).astype(np.uint32) << 16).view(np.float32)
                drawn = ((wide * factors).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        others = truth.copy()
        others[: items.size] = drawn.reshape(-1)
        return others


class _Moves(TorchDispatchMode):  # type: ignore[misc]
    """Carries out on hidden values what only allocates, views or moves."""

    def __init__(self, memory: KernelMemory) -> None:
        super().__init__()
        self._memory = memory

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name, memory = func._schema.name, self._memory
        if _ALLOCATES.match(name):
            result = func(*args, **kwargs)
            if type(result) is torch.Tensor:
                memory.know(result)
            return result
        touched = memory.of(tree_leaves((args, kwargs)))
        aliases = [each.alias_info for each in func._schema.returns]
        if not touched or any(alias is not None and not alias.is_write for alias in aliases):
            return func(*args, **kwargs)
        if not _MOVES.match(name):
            memory.computed.add(name.replace("::", ".", 1))
            return func(*args, **kwargs)
        written = any(
            argument.alias_info is not None and argument.alias_info.is_write
            for argument in func._schema.arguments
        )
        if written and name == "aten::copy_" and _same(args[0], args[1]):
            return args[0]  # the interpreter copies every argument back to itself
        fresh = []
        with memory.revealed(touched, written=written):
            result = func(*args, **kwargs)
            for leaf in tree_leaves(result):
                if type(leaf) is torch.Tensor and not memory.of([leaf]):
                    fresh.append(leaf)
                    memory.know(leaf)
        for each in fresh:
            memory.hide(each)
            for region in memory.of([each]):
                region.given = False
        return result


def _same(one: Any, other: Any) -> bool:
    return bool(
        one.data_ptr() == other.data_ptr()
        and one.dtype == other.dtype
        and one.shape == other.shape
        and one.stride() == other.stride()
    )


class _Redirected:
    """The interpreter's accesses to memory, led to what kernels see while a call is watched."""

    def __init__(self, original: ModuleType, watch: "Watch") -> None:
        self._original, self._watch = original, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def _at(self, pointers: Any, mask: Any, what: str) -> Any:
        self._watch.count_access()
        memory = self._watch.memory
        return pointers if memory is None else memory.at(pointers, mask, what)

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        """Read what `mask` selects."""
        return self._original.load(self._at(pointers, mask, "reads"), mask, other, dtype)

    def store(self, pointers: Any, value: Any, mask: Any) -> Any:
        """Write what `mask` selects."""
        return self._original.store(self._at(pointers, mask, "writes"), value, mask)

    def atomic_rmw(self, operation: Any, pointers: Any, value: Any, mask: Any, order: Any) -> Any:
        """Change what `mask` selects."""
        at = self._at(pointers, mask, "writes")
        return self._original.atomic_rmw(operation, at, value, mask, order)

    def atomic_cas(self, pointers: Any, compared: Any, value: Any, order: Any) -> Any:
        """Compare and swap."""
        at = self._at(pointers, None, "writes")
        return self._original.atomic_cas(at, compared, value, order)


class TooLongError(BaseException):
    """A call made more accesses to memory than it may; no `except Exception` holds it up."""


class Watch:
    """Triton's interpreter in this process; made once, before anything untrusted is loaded."""

    def __init__(self) -> None:
        self.memory: KernelMemory | None = None
        """Of the call that is being watched."""
        self.notes: dict[str, None] = {}
        """What was done otherwise than on a GPU, each once."""
        self.loops = Loops()
        self.blocks: set[int] = set()
        """Constants of kernels that launches gave: sizes of blocks among them."""
        self.programs: dict[str, int] = {}
        """The most programs along each axis of a grid, by kernel and axis."""
        self.accesses = 0
        """Loads, stores and atomics of blocks in this call: what the interpreter's time grows with,
        the same on every machine."""
        self._most_accesses: int | None = None
        from triton.runtime import autotuner, interpreter  # noqa: PLC0415 (only where interpreted)

        make_faster(interpreter)
        interpreter._interpreter = _Redirected(interpreter._interpreter, self)
        self.loops.watch(interpreter)
        self._note_launches(interpreter.GridExecutor)
        self._take_first(autotuner.Autotuner)
        answer_for_a_card(self.notes.setdefault)

    def begin(self, most_accesses: int | None) -> None:
        """Count the accesses of one call, which ends with TooLongError after so many."""
        self.accesses, self._most_accesses = 0, most_accesses

    def counts(self) -> dict[str, Any]:
        """What was counted, as fields of `judge.worker.replies.Called`."""
        return {
            "loops": self.loops.turns,
            "blocks": sorted(self.blocks),
            "programs": self.programs,
            "accesses": self.accesses,
        }

    def count_access(self) -> None:
        """Count one more."""
        self.accesses += 1
        if self._most_accesses is not None and self.accesses > self._most_accesses:
            raise TooLongError(f"it makes more than {self._most_accesses} accesses to memory")

    @contextlib.contextmanager
    def hidden(self, inputs: Sequence[Any]) -> Iterator[KernelMemory]:
        """Hide the inputs from the host meanwhile: floating-point ones, or where none is, all."""
        memory = KernelMemory()
        given = [each for each in inputs if isinstance(each, torch.Tensor)]
        real = [each for each in given if each.is_floating_point() or each.is_complex()]
        for each in given:
            memory.know(each, given=True)
        for each in real or given:
            memory.hide(each)
        self.memory = memory
        try:
            with _Moves(memory):
                yield memory
        finally:
            self.memory = None
            memory.finish()

    def _note_launches(self, executor: Any) -> None:
        original: Callable[..., Any] = executor.__call__

        def launch(grid: Any, *args: Any, **kwargs: Any) -> Any:
            if self.memory is not None:
                self.memory.launched([*args, *kwargs.values()])
            given = dict(zip(grid.arg_names, args, strict=False)) | kwargs
            constants = (given.get(name) for name in grid.constexprs)
            if len(self.blocks) < _MOST_NOTES:
                self.blocks |= {constant for constant in constants if type(constant) is int}
            given_grid = grid.grid
            grid.grid = lambda values: self._note_grid(
                str(getattr(grid.fn, "__name__", "kernel")),
                given_grid(values) if callable(given_grid) else given_grid,
            )
            return original(grid, *args, **kwargs)

        executor.__call__ = launch

    def _note_grid(self, kernel: str, grid: Any) -> Any:
        for axis, size in enumerate(grid):
            name = f"{kernel[:60]}, axis {axis}"
            if name in self.programs or len(self.programs) < _MOST_NOTES:
                self.programs[name] = max(int(size), self.programs.get(name, 0))
        return grid

    def _take_first(self, tuner: Any) -> None:
        """Have the autotuner take the first configuration: there is nothing to time here."""
        pruned: Callable[..., Any] = tuner.prune_configs

        def first(tuning: Any, kwargs: Any) -> Any:
            found = list(itertools.islice(pruned(tuning, kwargs), 1))
            name = str(getattr(tuning.base_fn, "__name__", "a kernel"))[:60]
            if len(self.notes) < _MOST_NOTES:
                self.notes[
                    f"the interpreter takes the first of {len(tuning.configs)} configurations of "
                    f"{name}: {found[0]}"
                ] = None
            return found

        tuner.prune_configs = first
