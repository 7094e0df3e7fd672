"""Processes and their memory, read from /proc."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_KIB = 1024


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


def started(pid: int) -> int:
    """Return when `pid` started, in clock ticks since boot: with `pid` it names one process."""
    return _stat(pid, 19)


def stopped(pid: int) -> bool:
    """Whether all threads of `pid` are stopped by a signal; also when it is gone."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        stats = [(thread / "stat").read_text(errors="replace") for thread in threads]
    except OSError:  # it, or a thread, ended just now: looked at again if it is still there
        return not Path(f"/proc/{pid}").exists()
    return all(stat.rpartition(")")[2].split()[0] in "TtZX" for stat in stats)


def _scanned_children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 (called often: no Path objects)
        if name.isdigit():
            found.setdefault(parent(int(name)), []).append(int(name))
    return found


def children(pid: int) -> list[int] | None:
    """Return the direct children of `pid`; None where the kernel does not list them."""
    found: list[int] = []
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
        found += map(int, text.split())
    return found


def descendants(pid: int) -> list[int]:
    """Return what descends from `pid`, parents before children, without `pid` itself."""
    scanned: dict[int, list[int]] | None = None
    found: list[int] = []
    waiting = [pid]
    while waiting:
        now = waiting.pop()
        below = children(now) if scanned is None else scanned.get(now, [])
        if below is None:
            scanned = _scanned_children()
            below = scanned.get(now, [])
        # A number can be reused while the tree is walked.
        new = [child for child in below if child not in found and child != pid]
        found += new
        waiting += new
    return found


@dataclass(frozen=True)
class Usage:
    """What a set of processes uses."""

    processes: int
    memory_bytes: int
    """Resident anonymous and shared memory. Not counted: pages of files, files in a memory file
    system that nobody maps, and host memory that a device driver pinned."""


def usage(pids: list[int]) -> Usage:
    """Sum over `pids`. Pages shared since a fork count once for each process."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            total += _resident(Path(f"/proc/{pid}/status").read_text(errors="replace"))
    return Usage(len(pids), total)


def _resident(status: str) -> int:
    sizes = {}
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name in {"RssAnon", "RssShmem", "VmRSS"}:
            sizes[name] = int(value.split()[0]) * _KIB
    if "RssAnon" in sizes:
        return sizes["RssAnon"] + sizes.get("RssShmem", 0)
    return sizes.get("VmRSS", 0)
