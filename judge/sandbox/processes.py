"""Processes and their memory, read from /proc."""

import os
from contextlib import suppress
from pathlib import Path

_KIB = 1024
_BLOCK = 512  # what st_blocks counts in
# Shared memory without a name: memfd_create, and mmap of MAP_SHARED | MAP_ANONYMOUS.
_SHARED = ("/memfd:", "/dev/zero (deleted)", "/dev/shm/")  # noqa: S108


def _stat(pid: int, field: int) -> int:
    """Return a number of /proc/PID/stat, counted from the state, which is 0; 0 if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return 0
    # The name in parentheses may itself contain any character.
    return int(stat.rpartition(")")[2].split()[field])


def parent(pid: int) -> int:
    """Return the parent of `pid`, 0 when there is no such process."""
    return _stat(pid, 1)


def start_time(pid: int) -> int:
    """Return when `pid` started, in clock ticks since boot: with `pid` it names one process."""
    return _stat(pid, 19)


def is_stopped(pid: int) -> bool:
    """Whether all threads of `pid` are stopped by a signal; also when it is gone."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        stats = [(thread / "stat").read_text(errors="replace") for thread in threads]
    except OSError:  # it, or a thread, ended just now: looked at again if it is still there
        return not Path(f"/proc/{pid}").exists()
    return all(stat.rpartition(")")[2].split()[0] in "TtZX" for stat in stats)


def _scanned_children() -> dict[int, list[int]]:
    by_parent: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 (called often: no Path objects)
        if name.isdigit():
            by_parent.setdefault(parent(int(name)), []).append(int(name))
    return by_parent


def children(pid: int) -> list[int] | None:
    """Return the direct children of `pid`; None where the kernel does not list them."""
    pids: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return []
    for thread in threads:
        try:
            text = Path(f"/proc/{pid}/task/{thread}/children").read_text()
        except FileNotFoundError:
            if Path(f"/proc/{pid}/task/{thread}").exists():
                return None
            continue
        except OSError:
            continue
        pids += map(int, text.split())
    return pids


def descendants(pid: int) -> list[int]:
    """Return what descends from `pid`, parents before children, without `pid` itself."""
    scanned: dict[int, list[int]] | None = None
    pids: list[int] = []
    pending = [pid]
    while pending:
        current = pending.pop()
        below = children(current) if scanned is None else scanned.get(current, [])
        if below is None:
            scanned = _scanned_children()
            below = scanned.get(current, [])
        # A number can be reused while the tree is walked.
        fresh = [child for child in below if child not in pids and child != pid]
        pids += fresh
        pending += fresh
    return pids


def memory(pids: list[int], *, unmapped: bool) -> int:
    """Return the resident anonymous and shared memory of `pids`, in bytes.

    Pages shared since a fork count once for each process. Not counted: pages of files, and host
    memory that a device driver pinned. `unmapped`: count shared memory by what it holds, also
    where it is resident in no process (written by descriptor, or let go by `madvise`). That reads
    every descriptor and mapping: milliseconds for a process with torch.
    """
    private = shared = 0
    for pid in pids:
        with suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text(errors="replace")
            private += _amount(status, "RssAnon" if "RssAnon:" in status else "VmRSS")
            shared += _amount(status, "RssShmem")
    if unmapped:
        shared = max(shared, sum(_shared_objects(pids).values()))
    return private + shared


def machine_memory(name: str) -> int:
    """Bytes of a line of /proc/meminfo: `Shmem` is shared memory and memory file systems."""
    return _amount(Path("/proc/meminfo").read_text(), name)


def _shared_objects(pids: list[int]) -> dict[tuple[int, int], int]:
    """Bytes that each piece of shared memory holds, by device and inode."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        for folder in (f"/proc/{pid}/fd", f"/proc/{pid}/map_files"):
            try:
                names = os.listdir(folder)  # noqa: PTH208
            except OSError:  # gone, or not ours to see
                continue
            for name in names:
                with suppress(OSError):
                    if os.readlink(f"{folder}/{name}").startswith(_SHARED):  # noqa: PTH115
                        state = os.stat(f"{folder}/{name}")  # noqa: PTH116
                        sizes[state.st_dev, state.st_ino] = state.st_blocks * _BLOCK
    return sizes


def _amount(text: str, name: str) -> int:
    """A line of /proc in bytes; 0 where it is missing."""
    for line in text.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * _KIB
    return 0
