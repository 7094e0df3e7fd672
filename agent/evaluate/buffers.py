"""Memory that the judge lends to workers: allocation, copies, refill, pristine copies.

On CUDA every buffer is one `cudaMalloc` of its own: an IPC handle opens the whole allocation that
it was taken from, so a block of torch's caching allocator would show the worker its neighbours.
On the CPU a buffer is a file that both processes map.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agent.worker.messages import Buffer, TensorSpec


@dataclass(frozen=True, eq=False)
class Exported:
    """One buffer as the judge holds it."""

    buffer: Buffer
    """What `Worker.open` is told."""
    tensor: Any
    """The judge's view of the memory: a contiguous torch.Tensor of the buffer's spec."""


class Exporter:
    """Allocates and frees the buffers of one session; a context manager.

    Parameters
    ----------
    device
        "cpu" or "cuda:N".
    folder
        Where buffer files are made (device "cpu"): a folder that the workers' policies list under
        `buffers`.
    """

    def __init__(self, device: str, folder: Path) -> None:
        raise NotImplementedError

    def allocate(self, name: str, spec: TensorSpec) -> Exported:
        """Allocate memory for `spec` under a new name; contents are undefined.

        Raises
        ------
        kb.errors.KbError
            The name is taken, or the memory cannot be had.
        """
        raise NotImplementedError

    def free(self, names: Iterable[str]) -> None:
        """Free buffers; workers have to close them first (`Worker.close_buffers`)."""
        raise NotImplementedError

    def close(self) -> None:
        """Free every buffer."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def copy(source: Any, into: Exported) -> None:
    """Copy a tensor of the same shape and dtype into a buffer, and wait until it is there."""
    raise NotImplementedError


def pristine(exported: Exported) -> Any:
    """Return a copy of a buffer's contents in memory that no worker can reach."""
    raise NotImplementedError


def unchanged(exported: Exported, copy: Any) -> bool:
    """Whether a buffer still has, bit for bit, the contents that `pristine` copied."""
    raise NotImplementedError


def refill(exported: Exported, seed: int) -> None:
    """Write other, harmless contents, so that outputs computed late or aliased come out wrong.

    Floating-point contents become zero-mean noise no smaller than the contents were; integers
    are exchanged among each other or set to zero (an index stays in range); bools are negated.
    """
    raise NotImplementedError
