"""A stand-in for the GPU's driver that knows its target alone: enough for Triton to compile."""

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
