"""Watch sandboxed processes from outside: memory, files and number of processes."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from judge.sandbox import processes
from judge.sandbox.policy import Policy
from judge.sandbox.sandboxed import ExitReason, Sandboxed

# A process that fills memory at 10 GB/s gets 1 GB past its limit before it is seen.
INTERVAL_SECONDS = 0.1
# Looking for memory that is not resident, or through a folder, takes milliseconds to seconds: it
# is done when the machine has so much more shared memory, or its disk so much less room, than when
# the process began.
_GROWN_BYTES = 64 << 20
# Folders in folders: beyond this a path is longer than the system takes, and nothing honest goes.
_DEEPEST = 64
_MOST_FILES = 200_000


class Watch:
    """Looks at all running sandboxes every `INTERVAL_SECONDS`, in a thread of its own."""

    def __init__(self) -> None:
        self._watched: dict[Sandboxed, _Baseline] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sandbox watch", daemon=True)
        self._thread.start()

    def add(self, process: Sandboxed) -> None:
        """Begin to watch."""
        with self._lock:
            self._watched[process] = _Baseline(process)

    def remove(self, process: Sandboxed) -> None:
        """Watch it no longer."""
        with self._lock:
            self._watched.pop(process, None)

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL_SECONDS):
            with self._lock:
                watched = list(self._watched.items())
            for process, baseline in watched:
                with suppress(OSError):  # it ends just now
                    self._check(process, baseline)

    @staticmethod
    def _check(process: Sandboxed, baseline: "_Baseline") -> None:
        descendants = processes.descendants(process.pid)[process.own_processes :]
        process.last_descendants = [(pid, processes.start_time(pid)) for pid in descendants]
        policy = process.policy
        used = processes.memory(descendants, unmapped=baseline.shared_grew())
        if used > policy.memory_bytes:
            detail = f"{used >> 20} MiB used, limit {policy.memory_bytes >> 20} MiB"
            process.stop(ExitReason.MEMORY, detail)
        elif len(descendants) > policy.max_processes:
            detail = f"{len(descendants)} processes, limit {policy.max_processes}"
            process.stop(ExitReason.PROCESSES, detail)
        elif baseline.disk_shrank() and (excess := _scratch_excess(policy)):
            process.stop(ExitReason.FILES, f"{excess}, limit {policy.scratch_bytes >> 20} MiB")


class _Baseline:
    """The machine when a process began, and whether it has changed enough to look closer."""

    def __init__(self, process: Sandboxed) -> None:
        self._shared = processes.machine_memory("Shmem")
        scratch = process.policy.scratch
        self._free_bytes: Callable[[], int] = lambda: (
            _free_bytes(scratch) if process.scratch_on_disk else 0
        )
        self._free = self._free_bytes()

    def shared_grew(self) -> bool:
        """Whether shared memory took `_GROWN_BYTES` more since this was last true."""
        current = processes.machine_memory("Shmem")
        grew = current - self._shared > _GROWN_BYTES
        self._shared = current if grew else min(self._shared, current)
        return grew

    def disk_shrank(self) -> bool:
        """Whether the disk lost `_GROWN_BYTES` since this was last true."""
        current = self._free_bytes()
        shrank = self._free - current > _GROWN_BYTES
        self._free = current if shrank else max(self._free, current)
        return shrank


def _free_bytes(folder: Path) -> int:
    """Free bytes of the file system."""
    state = os.statvfs(folder)
    return state.f_bfree * state.f_frsize


def _scratch_excess(policy: Policy) -> str | None:
    """What the scratch folder holds beyond the limit; None while it is within."""
    pending, total, files = [(str(policy.scratch), 0)], 0, 0
    while pending:
        folder, depth = pending.pop()
        if depth > _DEEPEST:
            return f"folders {depth} deep in the scratch folder"
        try:
            entries = list(os.scandir(folder))
        except OSError:  # gone meanwhile
            continue
        files += len(entries)
        if files > _MOST_FILES:
            return f"more than {_MOST_FILES} files in the scratch folder"
        for entry in entries:
            with suppress(OSError):
                state = entry.stat(follow_symlinks=False)
                total += state.st_blocks * 512
                if entry.is_dir(follow_symlinks=False):
                    pending.append((entry.path, depth + 1))
    return f"{total >> 20} MiB in the scratch folder" if total > policy.scratch_bytes else None
