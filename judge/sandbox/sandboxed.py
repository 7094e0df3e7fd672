"""One sandboxed process, seen from the judge: its channel, its output, its end."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum

from judge.sandbox import processes
from judge.sandbox.capture import Capture
from judge.sandbox.layers import Layer, LayerName, active
from judge.sandbox.policy import Policy

# How long a supervisor may take to end all descendants before it is killed itself.
GENTLE_SECONDS = 5.0
GONE_SECONDS = 30.0
# A stop takes effect when the process leaves the kernel; a wait for a GPU is over within seconds.
PAUSE_SECONDS = 2.0


class ExitReason(StrEnum):
    """Why a sandboxed process is no more."""

    EXITED = "exited"  # by itself: returned, called exit, or died of a signal of its own making
    KILLED = "killed"  # by `Sandboxed.kill`
    TIME = "time"  # by `Sandboxed.kill(ExitReason.TIME)`: the caller's time limit
    MEMORY = "memory"  # above Policy.memory_bytes
    PROCESSES = "processes"  # above Policy.max_processes
    OUTPUT = "output"  # above Policy.output_bytes
    FILES = "files"  # above Policy.scratch_bytes
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
        if self.reason is ExitReason.EXITED and self.signal is not None:
            return f"died of {signal.Signals(self.signal).name}"
        if self.reason is ExitReason.EXITED:
            return f"exited with code {self.code}"
        if self.reason is ExitReason.LOST:
            return "lost: the process that it was forked from died"
        return f"stopped ({self.reason}){': ' + self.detail if self.detail else ''}"


class Sandboxed(AbstractContextManager["Sandboxed"]):
    """One sandboxed process, seen from the judge. Made by `Zygote.spawn`; a context manager.

    Attributes
    ----------
    pid
        Process id, in the judge's namespace, of the supervisor whose descendants are the sandbox.
    channel
        Stream socket to the process, the entry function's first argument. End of file: it ended.
    layers
        What is active around it.
    last_descendants
        The descendants that the watch found last, and when each started.
    exit
        How it ended; None while it runs.
    """

    def __init__(
        self,
        send_signal: Callable[[int, int], None],
        pid: int,
        policy: Policy,
        channel: socket.socket,
        output: int,
    ) -> None:
        self.pid = pid
        self.policy = policy
        self.channel = channel
        self.layers: list[Layer] = []
        self.last_descendants: list[tuple[int, int]] = []
        self._paused: list[int] = []
        self._send_signal = send_signal  # to a supervisor; its parent, the zygote, does so
        self._ended = threading.Event()
        self.exit: Exit | None = None
        self._reason: Exit | None = None
        self._lock = threading.Lock()
        self._capture = Capture(output, policy.output_bytes, self._exceeded_output)

    @property
    def own_processes(self) -> int:
        """How many of the supervisor's first descendants are ours: an init or none."""
        return int(LayerName.PROCESSES in active(self.layers))

    @property
    def scratch_on_disk(self) -> bool:
        """Whether its scratch folder is one of the machine's, which no file system bounds."""
        return not (self.policy.private_scratch and LayerName.MOUNTS in active(self.layers))

    def output(self) -> str:
        """Return what it wrote to stdout and stderr so far: head and tail when it was long."""
        return self._capture.text()

    def wait(self, timeout: float | None = None) -> Exit | None:
        """Wait for the end, at most `timeout` seconds; None when it still runs."""
        self._ended.wait(timeout)
        return self.exit

    def pause(self) -> bool:
        """Stop all its processes until `resume`, and wait until they have stopped.

        What it queued on a GPU goes on; nothing else is queued. False where that is not
        permitted, or a process does not stop (it is inside a device driver).
        """
        deadline = time.monotonic() + PAUSE_SECONDS
        self._paused = []
        while new := [
            pid
            for pid in processes.descendants(self.pid)[self.own_processes :]
            if pid not in self._paused
        ]:  # again for what was forked before its parent stopped
            try:
                for pid in new:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGSTOP)
            except PermissionError:
                self.resume()
                return False
            self._paused += new
            while not all(processes.is_stopped(pid) for pid in new):
                if time.monotonic() > deadline:
                    self.resume()
                    return False
                time.sleep(0.0002)
        return True

    def resume(self) -> None:
        """Let what `pause` stopped go on."""
        for pid in self._paused:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGCONT)
        self._paused = []

    def kill(self, reason: ExitReason = ExitReason.KILLED) -> Exit:
        """End it and every descendant, wait until they are gone, and say how it ended.

        Safe to call at any time, from any thread, and again. A process stuck in a device driver
        may outlive the call; `Exit.detail` then says so.
        """
        self.stop(reason)
        if not self._ended.wait(GENTLE_SECONDS):
            self._send_signal(self.pid, signal.SIGKILL)
            self._kill_directly()
        if not self._ended.wait(GONE_SECONDS):
            self.end(None, signal.SIGKILL, "it has not ended yet: it is stuck in a device driver")
        self.channel.close()
        assert self.exit is not None
        return self.exit

    def _kill_directly(self) -> None:
        """Kill it from here: a stopped zygote cannot."""
        with suppress(OSError):
            for pid in (self.pid, *processes.descendants(self.pid)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def stop(self, reason: ExitReason, detail: str = "") -> None:
        """Begin to end it; the first reason counts."""
        with self._lock:
            if self._reason is None and self.exit is None:
                self._reason = Exit(reason, None, None, detail)
        self._send_signal(self.pid, signal.SIGTERM)

    def _exceeded_output(self) -> None:
        self.stop(ExitReason.OUTPUT, f"more than {self.policy.output_bytes} bytes printed")

    def end(self, code: int | None, number: int | None, detail: str = "") -> None:
        """Record the end; called once it is gone."""
        self._capture.finish(1.0)
        with self._lock:
            if self.exit is None:
                self.exit = Exit(ExitReason.EXITED, code, number, detail)
                if self._reason is not None:
                    details = "; ".join(filter(None, (self._reason.detail, detail)))
                    self.exit = replace(self._reason, code=code, signal=number, detail=details)
        self._ended.set()

    def lose(self) -> None:
        """Record that the zygote died, and end what that did not take along.

        The supervisor and the sandboxed process died with it; of their descendants, where there
        is no process namespace, those that the watch has seen are killed here.
        """
        for pid, start_time in self.last_descendants:
            if processes.start_time(pid) == start_time:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        with self._lock:
            if self._reason is None:
                self._reason = Exit(ExitReason.LOST, None, None)
        self.end(None, signal.SIGKILL)

    def __exit__(self, *_: object) -> None:
        self.kill()
