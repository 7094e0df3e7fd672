"""Watch sandboxed processes from outside: memory and number of processes."""

import threading
from typing import Protocol

from agent.sandbox import processes
from agent.sandbox.policy import Policy

# A process that fills memory at 10 GB/s gets 1 GB past its limit before it is seen.
INTERVAL_SECONDS = 0.1


class Watched(Protocol):
    """What the watch needs to know and do."""

    pid: int
    policy: Policy
    seen: list[tuple[int, int]]
    """The descendants found last, and when each started."""

    @property
    def own_processes(self) -> int:
        """How many of the first descendants are ours: an init or none."""

    def exceeded_memory(self, used: int) -> None:
        """End it: it holds `used` bytes."""

    def exceeded_processes(self, count: int) -> None:
        """End it: it has `count` processes."""


class Watch:
    """Looks at all running sandboxes every `INTERVAL_SECONDS`, in a thread of its own."""

    def __init__(self) -> None:
        self._watched: set[Watched] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sandbox watch", daemon=True)
        self._thread.start()

    def add(self, process: Watched) -> None:
        """Begin to watch."""
        with self._lock:
            self._watched.add(process)

    def remove(self, process: Watched) -> None:
        """Watch it no longer."""
        with self._lock:
            self._watched.discard(process)

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL_SECONDS):
            with self._lock:
                watched = list(self._watched)
            for process in watched:
                self._look(process)

    @staticmethod
    def _look(process: Watched) -> None:
        below = processes.descendants(process.pid)[process.own_processes :]
        process.seen = [(pid, processes.started(pid)) for pid in below]
        used = processes.usage(below)
        if used.memory_bytes > process.policy.memory_bytes:
            process.exceeded_memory(used.memory_bytes)
        elif used.processes > process.policy.max_processes:
            process.exceeded_processes(used.processes)
