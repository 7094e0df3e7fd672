"""Triton's interpreter under watch: kernels see the inputs, and the host sees other numbers.

Whether a Triton kernel computes what a file returns cannot be read off names: NumPy, another
library or a thread may do it beside a kernel that does nothing of use. So the values are kept where
only loads and stores of interpreted kernels find them. The memory that the host can read holds
numbers of the same kind that mean nothing, and what the host computes from those is wrong.

What the host may do with the values is allocate, view and move: those operators of torch are
carried out on what the kernels see. Everything else, in any thread, works on the other numbers.
"""

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from judge.worker.card import report_fake_gpu
from judge.worker.kernel_memory import MOST_NOTES, KernelMemory
from judge.worker.loops import Loops
from kb.interpreter import make_faster

# Operators that read no values, whatever they are given.
_ALLOCATES: Final = re.compile(r"aten::(?:new_|_)?(?:empty|zeros|ones|full|rand|arange)\w*\Z")
# Operators that move values and compute none; those that only view are known by their schema.
_MOVES: Final = re.compile(
    r"aten::(?:clone|copy_|_to_copy|to|contiguous|cat|stack|constant_pad_nd|repeat|flip|roll|"
    r"fill_|zero_|slice_scatter|select_scatter|item|_local_scalar_dense|is_nonzero|resize_|lift\w*|"
    r"_unsafe_view|_reshape_copy|view_copy|expand_copy|permute_copy)\Z"
)


class _Moves(TorchDispatchMode):  # type: ignore[misc]
    """Carries out on hidden values what only allocates, views or moves."""

    def __init__(self, memory: KernelMemory) -> None:
        super().__init__()
        self._memory = memory

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name, memory = func._schema.name, self._memory
        if _ALLOCATES.match(name):
            result = func(*args, **kwargs)
            if type(result) is torch.Tensor:
                memory.track(result)
            return result
        regions = memory.regions_of(tree_leaves((args, kwargs)))
        aliases = [value.alias_info for value in func._schema.returns]
        if not regions or any(alias is not None and not alias.is_write for alias in aliases):
            return func(*args, **kwargs)
        if not _MOVES.match(name):
            memory.computed.add(name.replace("::", ".", 1))
            return func(*args, **kwargs)
        writes = any(
            argument.alias_info is not None and argument.alias_info.is_write
            for argument in func._schema.arguments
        )
        if writes and name == "aten::copy_" and _same(args[0], args[1]):
            return args[0]  # the interpreter copies every argument back to itself
        new_tensors = []
        with memory.revealed(regions, written=writes):
            result = func(*args, **kwargs)
            for leaf in tree_leaves(result):
                if type(leaf) is torch.Tensor and not memory.regions_of([leaf]):
                    new_tensors.append(leaf)
                    memory.track(leaf)
        for tensor in new_tensors:
            memory.hide(tensor)
            for region in memory.regions_of([tensor]):
                region.is_input = False
        return result


def _same(left: Any, right: Any) -> bool:
    return bool(
        left.data_ptr() == right.data_ptr()
        and left.dtype == right.dtype
        and left.shape == right.shape
        and left.stride() == right.stride()
    )


class _Redirected:
    """The interpreter's accesses to memory, led to what kernels see while a call is watched."""

    def __init__(self, original: ModuleType, watch: "Watch") -> None:
        self._original, self._watch = original, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        return self._original.load(self._watch.access(pointers, mask, "reads"), mask, other, dtype)

    def store(self, pointers: Any, value: Any, mask: Any) -> Any:
        return self._original.store(self._watch.access(pointers, mask, "writes"), value, mask)

    def atomic_rmw(self, operation: Any, pointers: Any, value: Any, mask: Any, order: Any) -> Any:
        at = self._watch.access(pointers, mask, "writes")
        return self._original.atomic_rmw(operation, at, value, mask, order)

    def atomic_cas(self, pointers: Any, compared: Any, value: Any, order: Any) -> Any:
        at = self._watch.access(pointers, None, "writes")
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
        report_fake_gpu(self.notes.setdefault)

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

    def access(self, pointers: Any, mask: Any, what: str) -> Any:
        """Count one more, and return where kernels find what `pointers` lead to."""
        self.accesses += 1
        if self._most_accesses is not None and self.accesses > self._most_accesses:
            raise TooLongError(f"it makes more than {self._most_accesses} memory accesses")
        return pointers if self.memory is None else self.memory.translate(pointers, mask, what)

    @contextlib.contextmanager
    def hidden(self, inputs: Sequence[Any]) -> Iterator[KernelMemory]:
        """Hide the inputs from the host meanwhile: floating-point ones, or where none is, all."""
        memory = KernelMemory()
        tensors = [input_ for input_ in inputs if isinstance(input_, torch.Tensor)]
        floating = [t for t in tensors if t.is_floating_point() or t.is_complex()]
        for t in tensors:
            memory.track(t, is_input=True)
        for t in floating or tensors:
            memory.hide(t)
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
                self.memory.note_launch([*args, *kwargs.values()])
            arguments = dict(zip(grid.arg_names, args, strict=False)) | kwargs
            constants = (arguments.get(name) for name in grid.constexprs)
            if len(self.blocks) < MOST_NOTES:
                self.blocks |= {constant for constant in constants if type(constant) is int}
            original_grid = grid.grid
            grid.grid = lambda values: self._note_grid(
                str(getattr(grid.fn, "__name__", "kernel")),
                original_grid(values) if callable(original_grid) else original_grid,
            )
            return original(grid, *args, **kwargs)

        executor.__call__ = launch

    def _note_grid(self, kernel: str, grid: Any) -> Any:
        for axis, size in enumerate(grid):
            name = f"{kernel[:60]}, axis {axis}"
            if name in self.programs or len(self.programs) < MOST_NOTES:
                self.programs[name] = max(int(size), self.programs.get(name, 0))
        return grid

    def _take_first(self, tuner: Any) -> None:
        """Have the autotuner take the first configuration: there is nothing to time here."""
        original: Callable[..., Any] = tuner.prune_configs

        def first(tuning: Any, kwargs: Any) -> Any:
            first_config = list(itertools.islice(original(tuning, kwargs), 1))
            name = str(getattr(tuning.base_fn, "__name__", "a kernel"))[:60]
            if len(self.notes) < MOST_NOTES:
                self.notes[
                    f"the interpreter takes the first of {len(tuning.configs)} configurations of "
                    f"{name}: {first_config[0]}"
                ] = None
            return first_config

        tuner.prune_configs = first
