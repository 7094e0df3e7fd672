"""What a contender did during one call, as far as its own process can tell: never a proof.

GPU kernels, copies and operators come from torch's profiler rather than from a dispatch mode: under
a mode torch.compile skips functions and remembers it, and captured graphs would contain the mode's
work. On CUDA the profiler attaches CUPTI; a process that was observed should not be timed.
"""

import collections
import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import torch

from judge.worker.messages import Observed, Precision
from judge.worker.originals import patched
from judge.worker.seeds import get_precision

_MOST_NAMES: Final = 400
_LABEL: Final = 300

# Operators that allocate, describe, move or copy: they are no work that a kernel was asked for.
_NO_WORK: Final = re.compile(
    r"""aten::(?:
        (?:new_|_)?empty(?:_like|_strided|_permuted|_affine_quantized)? | new_empty_strided
      | (?:new_)?(?:zeros|ones|full)(?:_like)? | zero_ | fill_ | arange | scalar_tensor
      | as_strided(?:_)? | view(?:_as|_as_real|_as_complex)? | _unsafe_view | _reshape_alias
      | reshape(?:_as)? | expand(?:_as)? | permute | t(?:_)? | (?:num)?transpose(?:_)? | numpy_T
      | slice | select | narrow | split(?:_with_sizes)? | chunk | unbind | diagonal | movedim
      | squeeze(?:_)? | unsqueeze(?:_)? | flatten | unflatten | detach(?:_)? | alias | set_ | mT
      | clone | contiguous | copy_ | _to_copy | to | type_as | resize_ | lift_fresh | lift
      | item | _local_scalar_dense | is_nonzero | equal_shape | result_type | resolve_conj
      | resolve_neg | conj | _conj | pin_memory | is_pinned | record_stream | _has_compatible.*
      | requires_grad_ | size | stride | storage_offset | numel | dim | cudnn_is_acceptable
    )\Z""",
    re.VERBOSE,
)


def compute_only(counts: dict[str, int]) -> dict[str, int]:
    """Leave operators that compute, as "aten.mm"."""
    return {
        name.replace("::", ".", 1)[:_LABEL]: count
        for name, count in counts.items()
        if name.startswith("aten::") and not _NO_WORK.match(name)
    }


def loaded_libraries() -> set[str]:
    """Paths of the shared libraries in this process, Python's extension modules left out."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
        parts = (line.split(maxsplit=5) for line in lines)
        paths = {part[5] for part in parts if len(part) == 6 and ".so" in part[5]}
        return {path for path in paths if not _is_extension(path)}
    return set()


def _is_extension(path: str) -> bool:
    """Whether it is a compiled module of an installed package, imported for whatever reason."""
    return path.startswith((sys.prefix, sys.base_prefix)) and bool(
        re.search(r"\.(?:cpython-|abi3)[^/]*$", path)
    )


class Observer:
    """Watches one worker; made before anything untrusted is loaded."""

    def __init__(self, device: str, precision: Precision) -> None:
        self._device = torch.device(device)
        self._libraries = loaded_libraries()
        self._find_patched = patched()
        self._declared = precision

    def glance(self, notes: list[str]) -> Observed:
        """Say what can be seen without watching: libraries, replaced functions, settings."""
        notes = list(notes)
        if get_precision() != self._declared:
            notes.append(f"TF32 was set to {get_precision()} after {self._declared} was declared")
        libraries = sorted(loaded_libraries() - self._libraries)
        return Observed(
            libraries=[library[-_LABEL:] for library in libraries[:200]],
            patched=self._find_patched(),
            notes=[note[:_LABEL] for note in notes[:50]],
        )

    def watch(self, run: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
        """Call `run` under watch.

        Returns
        -------
        What `run` returned, and fields of `Observed`.
        """
        notes = []
        events: list[Any] = []
        outcomes: list[tuple[Any, BaseException | None]] = []

        def call() -> None:
            """Keep the outcome from the profiler, which may fail after it."""
            try:
                outcomes.append((run(), None))
            except BaseException as error:
                outcomes.append((None, error))

        with _triton_launches() as launches:
            try:
                events = self._profile_call(call)
            except Exception as error:
                notes = [f"the profiler failed: {type(error).__name__}: {error}"]
            if not outcomes:
                call()
        returned, exception = outcomes[0]
        if exception is not None:
            raise exception
        on_gpu = [e for e in events if e.device_type == torch.autograd.DeviceType.CUDA]
        on_cpu = [e for e in events if e.device_type != torch.autograd.DeviceType.CUDA]
        operators = collections.Counter(str(e.name) for e in on_cpu)
        # The first event is the marker, which tells the number of the current stream.
        marker, work = on_gpu[:1], on_gpu[1:]
        other_stream: bool | None = None
        other_card: bool | None = None
        if marker and work:
            other_card = any(e.device_index != marker[0].device_index for e in work)
            other_stream = any(e.device_resource_id != marker[0].device_resource_id for e in work)
        return returned, {
            "triton_launches": _most_frequent(launches),
            "aten": _most_frequent(compute_only(operators)),
            "kernels": _most_frequent(collections.Counter(str(e.name) for e in work)),
            "other_stream": other_stream,
            "other_card": other_card,
            "notes": notes,
        }

    def _profile_call(self, call: Callable[[], None]) -> list[Any]:
        """Call under the profiler; the events in order of time."""
        on_gpu = self._device.type == "cuda"
        activities = [torch.profiler.ProfilerActivity.CPU]
        if on_gpu:
            activities.append(torch.profiler.ProfilerActivity.CUDA)
            marker = torch.zeros(1, device=self._device)
            torch.cuda.synchronize(self._device)
        with torch.profiler.profile(activities=activities) as profiler:
            if on_gpu:
                marker.zero_()
                torch.cuda.synchronize(self._device)
            call()
            if on_gpu:
                torch.cuda.synchronize(self._device)
        # Annotations span kernels on the GPU's time line, but are none.
        events = [e for e in profiler.events() if not getattr(e, "is_user_annotation", False)]
        return sorted(events, key=lambda event: event.time_range.start)


def _most_frequent(counts: dict[str, int]) -> dict[str, int]:
    """Keep the names that occur most."""
    most = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:_MOST_NAMES]
    return {name[:_LABEL]: count for name, count in most}


@contextlib.contextmanager
def _triton_launches() -> Iterator[dict[str, int]]:
    """Count launches of Triton kernels by name, compiled or interpreted, meanwhile."""
    counts: dict[str, int] = collections.Counter()
    classes = []
    for module, name in (
        ("triton.runtime.jit", "JITFunction"),
        ("triton.runtime.interpreter", "InterpretedFunction"),
    ):
        kernel_class = getattr(sys.modules.get(module), name, None)
        if kernel_class is not None:
            classes.append((kernel_class, kernel_class.run))

    def counting(original: Any) -> Any:
        def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            if not warmup:
                counts[str(getattr(self, "__name__", "kernel"))[:_LABEL]] += 1
            return original(self, *args, grid=grid, warmup=warmup, **kwargs)

        return run

    for kernel_class, original in classes:
        kernel_class.run = counting(original)
    try:
        yield counts
    finally:
        for kernel_class, original in classes:
            kernel_class.run = original
