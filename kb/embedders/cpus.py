"""How many processors this process may use."""

import math
import os
from pathlib import Path

CGROUP_ROOT = Path("/sys/fs/cgroup")
CGROUP_MEMBERSHIP = Path("/proc/self/cgroup")


def usable_cpus() -> int:
    """Return the processors this process may keep busy, at least 1.

    The smaller of its affinity mask and its control group's CPU quota, so that a container
    limited to 2 of 64 processors starts 2 threads.
    """
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS or Windows
        allowed = os.cpu_count() or 1
    quota = cgroup_quota()
    return max(1, allowed if quota is None else min(allowed, math.ceil(quota)))


def cgroup_quota(root: Path = CGROUP_ROOT, membership: Path = CGROUP_MEMBERSHIP) -> float | None:
    """Return the tightest CPU quota, in processors, over this process's control groups.

    Reads ``cpu.max`` (version 2) and ``cpu.cfs_quota_us`` (version 1) of the group and its
    parents; ``None`` where there is no limit or no control group.
    """
    try:
        lines = membership.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    quotas: list[float] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base = root
        elif "cpu" in controllers.split(","):
            base = root / controllers
        else:
            continue
        group = base / path.lstrip("/")
        # Inside a container the path may name a group of the host that is not visible here;
        # the groups above it, down from the mount's root, are then what can be read.
        for folder in (group, *group.parents):
            if folder.is_relative_to(base):
                quotas += _quota_of(folder)
    return min(quotas, default=None)


def _quota_of(folder: Path) -> list[float]:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="ascii").strip()
            period = (folder / "cpu.cfs_period_us").read_text(encoding="ascii").strip()
        return [int(quota) / int(period)] if quota != "max" and int(quota) > 0 else []
    except (OSError, ValueError):
        return []
