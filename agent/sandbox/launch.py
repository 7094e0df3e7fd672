"""The judge's side of the sandbox: start a zygote, spawn sandboxed processes, end them."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from agent.sandbox.layers import Layer
from agent.sandbox.policy import Policy


class ExitReason(StrEnum):
    """Why a sandboxed process is no more."""

    EXITED = "exited"  # by itself: returned, called exit, or died of a signal of its own making
    KILLED = "killed"  # by `Sandboxed.kill`
    TIME = "time"  # by `Sandboxed.kill(ExitReason.TIME)`: the caller's time limit
    MEMORY = "memory"  # above Policy.memory_bytes
    PROCESSES = "processes"  # above Policy.max_processes
    OUTPUT = "output"  # above Policy.output_bytes
    LOST = "lost"  # the zygote died, and everything with it


@dataclass(frozen=True)
class Exit:
    """How a sandboxed process ended."""

    reason: ExitReason
    code: int | None
    """Exit code, None when a signal ended it."""
    signal: int | None
    """Number of the signal that ended it, None when it exited."""
    detail: str = ""

    def describe(self) -> str:
        """Return one line for a user."""
        raise NotImplementedError


class Sandboxed:
    """One sandboxed process, seen from the judge. Made by `Zygote.spawn`; a context manager."""

    pid: int
    """Process id, in the judge's namespace, of the supervisor whose descendants are the sandbox."""
    uid: int
    """The user id under which the process runs, outside of any user namespace."""
    channel: socket.socket
    """Stream socket to the process, the entry function's first argument. End of file: it ended."""
    layers: list[Layer]
    """What is active around it."""
    policy: Policy

    @property
    def exit(self) -> Exit | None:
        """How it ended; None while it runs."""
        raise NotImplementedError

    def output(self) -> str:
        """Return what it wrote to stdout and stderr so far: head and tail when it was long."""
        raise NotImplementedError

    def wait(self, timeout: float | None = None) -> Exit | None:
        """Wait for the end, at most `timeout` seconds; None when it still runs."""
        raise NotImplementedError

    def kill(self, reason: ExitReason = ExitReason.KILLED) -> Exit:
        """End it and every descendant, wait until they are gone, and say how it ended."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.kill()


class Zygote:
    """A process with torch loaded (CUDA not initialised) from which sandboxed processes fork.

    A context manager; closing it ends everything forked from it. So does the judge's death.

    Parameters
    ----------
    interpret
        Load Triton with TRITON_INTERPRET=1 (kernels run on the CPU).
    torch
        Import torch and triton before forking. Off: a quick start for what does not need them.
    timeout
        Seconds that the start may take.

    Raises
    ------
    kb.errors.KbError
        The zygote did not come up.
    """

    def __init__(
        self, *, interpret: bool = False, torch: bool = True, timeout: float = 120.0
    ) -> None:
        raise NotImplementedError

    def spawn(self, entry: str, policy: Policy, *, timeout: float = 30.0) -> Sandboxed:
        """Fork a process, sandbox it by `policy`, and run `entry` in it.

        `entry` is "module:function" out of `entries.ENTRIES`; the function is called as
        ``function(channel: socket.socket, policy: Policy)`` with everything else closed, working
        folder `policy.scratch`, stdin empty, stdout and stderr captured. Returns once the sandbox
        stands and `Sandboxed.layers` is known.

        Raises
        ------
        kb.errors.KbError
            Unknown entry, a path that is missing, or the process could not be set up in `timeout`.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End every process and the zygote itself."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


def session_folder(parent: Path | None = None) -> Path:
    """Make a folder for one session's scratch and buffer folders, under `parent` or the system's.

    Only its owner can list it, but others can pass through it (mode 0o711): as root, sandboxed
    processes run under another user id and must reach their own folders in it.
    """
    raise NotImplementedError


def command(arguments: Sequence[str]) -> str:
    """Return the JSON line to send on the channel of entry ``agent.sandbox.command:main``."""
    raise NotImplementedError
