"""Triton's launches, collected; and a stand-in for the GPU's driver, enough for it to compile."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

WARP_THREADS = 32


class CompileTarget:
    """What Triton asks of the active driver while it compiles for `capability` (90: sm_90)."""

    def __init__(self, capability: int) -> None:
        self._capability = capability

    def get_current_target(self) -> Any:
        """Triton's description of the GPU that is compiled for."""
        from triton.backends.compiler import GPUTarget  # noqa: PLC0415 (triton may be missing)

        return GPUTarget("cuda", self._capability, WARP_THREADS)

    def get_current_device(self) -> int:
        """The first and only one."""
        return 0

    def get_current_stream(self, device: int | None = None) -> int:  # noqa: ARG002
        """The default stream."""
        return 0


@contextlib.contextmanager
def recorded(*, compile_only: bool = False, notes: list[str] | None = None) -> Iterator[list[Any]]:
    """Collect the Triton kernels that are launched meanwhile, one for each launch.

    Parameters
    ----------
    compile_only
        Compile each launch instead of making it. An autotuned kernel is then compiled with the
        first of its configurations, since there is nothing to time, and a note says so.
    notes
        Takes such notes.
    """
    launched: list[Any] = []
    try:
        from triton.runtime.autotuner import Autotuner  # noqa: PLC0415 (triton may be missing)
        from triton.runtime.jit import JITFunction  # noqa: PLC0415
    except ImportError:
        yield launched
        return
    run, tune = JITFunction.run, Autotuner.run

    @functools.wraps(run)
    def launch(self: Any, *args: Any, **kwargs: Any) -> Any:
        kernel = run(self, *args, **{**kwargs, "warmup": True} if compile_only else kwargs)
        if kernel is not None and not (kwargs.get("warmup") and not compile_only):
            launched.append(kernel)
        return kernel

    @functools.wraps(tune)
    def first(self: Any, *args: Any, **kwargs: Any) -> Any:
        configs, self.configs = self.configs, self.configs[:1]
        note = f"{self.base_fn.__name__} is autotuned: facts of configuration 1 of {len(configs)}"
        if notes is not None and len(configs) > 1 and note not in notes:
            notes.append(note)
        try:
            return tune(self, *args, **kwargs)
        finally:
            self.configs = configs

    JITFunction.run = launch
    if compile_only:
        Autotuner.run = first
    try:
        yield launched
    finally:
        JITFunction.run, Autotuner.run = run, tune
