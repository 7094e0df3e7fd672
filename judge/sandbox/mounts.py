"""A root of its own for a sandboxed process: a mount namespace that holds only what is listed.

Where Landlock is missing this is what hides files; where both work, it also hides names. Paths
are the same inside and outside. As root it lets another user id reach files whose parent folders
only root may enter.
"""

import os
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from judge.sandbox import linux
from judge.sandbox.policy import Policy

_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_ATTR_RDONLY, _ATTR_NOSUID = 1, 2
_OLD = ".old"
# Each takes about a kilobyte of the kernel's memory; caches of compilers hold some thousand.
_MOST_FILES = 200_000
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (the POSIX place for it)
# Not all of the memory limit: what lies in this file system unmapped is not seen by the watch.
SHARED_MEMORY_FRACTION = 4
# What in /proc belongs to the machine rather than to a process, and root may write.
MACHINE_WIDE = ("sys", "sysrq-trigger", "irq", "bus", "acpi", "mtrr", "driver")
LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}


class _Tree:
    """The new root while it is being filled, mounted at `at`."""

    def __init__(self, at: Path) -> None:
        self.at = at

    def inside(self, path: Path) -> Path:
        return self.at / path.relative_to("/")

    def bind(self, path: Path, *, writable: bool = False, recursive: bool = True) -> None:
        """Show `path` under its own name, and the links that lead to it."""
        real = Path(os.path.realpath(path))
        self._links(path)
        target = self.inside(real)
        if not os.path.lexists(target):
            if real.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.touch()
        flags = linux.MS_BIND | (linux.MS_REC if recursive else 0)
        linux.mount(str(real), str(target), None, flags)
        if not writable:
            _read_only(target)

    def _links(self, path: Path) -> None:
        """Recreate the symbolic links on the way to `path`."""
        resolved, remaining = Path("/"), list(path.parts[1:])
        for _ in range(200):  # the kernel itself follows at most 40 links
            if not remaining:
                return
            step = resolved / remaining.pop(0)
            if step.is_symlink():
                destination = step.readlink()
                link = self.inside(step)
                link.parent.mkdir(parents=True, exist_ok=True)
                if not os.path.lexists(link):
                    link.symlink_to(destination)
                absolute = Path(os.path.normpath(step.parent / destination))
                resolved, remaining = Path("/"), [*absolute.parts[1:], *remaining]
            else:
                resolved = step

    def memory(self, path: Path, size: int, mode: str = "1777") -> None:
        """Put an empty file system of at most `size` bytes at `path`."""
        self._links(path)
        target = self.inside(Path(os.path.realpath(path)))
        target.mkdir(parents=True, exist_ok=True)
        flags = linux.MS_NOSUID | linux.MS_NODEV
        options = f"size={size},nr_inodes={_MOST_FILES},mode={mode}"
        linux.mount("tmpfs", str(target), "tmpfs", flags, options)

    def processes(self, *, own: bool, writable: bool) -> str:
        """Mount /proc: of the own process namespace where that works, else the machine's."""
        target = self.inside(Path("/proc"))
        target.mkdir(parents=True, exist_ok=True)
        description = "/proc is the machine's"
        if own:
            flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
            try:
                linux.mount("proc", str(target), "proc", flags)
            except OSError as error:
                own, description = False, f"{description} ({error})"
            else:
                description = "own /proc"
        if not own:
            self.bind(Path("/proc"), writable=True)
        # To the kernel a process can still be root, without capabilities, and would then own
        # the machine's settings. CUDA has to write its threads' names below /proc/self.
        if not writable:
            _read_only(target)
        else:
            for path in (target / name for name in MACHINE_WIDE):
                if path.exists():
                    linux.mount(str(path), str(path), None, linux.MS_BIND | linux.MS_REC)
                    _read_only(path)
        return description


def _read_only(target: Path) -> None:
    """Make the mount at `target` read-only, with those below it where the kernel can (5.12)."""
    attributes = struct.pack("=QQQQ", _ATTR_RDONLY | _ATTR_NOSUID, 0, 0, 0)
    try:
        linux.syscall(
            linux.MOUNT_SETATTR,
            _AT_FDCWD,
            str(target).encode(),
            _AT_RECURSIVE,
            attributes,
            len(attributes),
            what="mount_setattr",
        )
    except OSError:
        # Flags that the mount already has may not be cleared, so they are given again.
        current = os.statvfs(target).f_flag
        access_time = {1024: 1 << 10, 2048: 1 << 11, 4096: 1 << 21}  # ST_NOATIME.. -> MS_NOATIME..
        flags = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID
        flags |= current & 15
        for has, flag in access_time.items():
            flags |= flag if current & has else 0
        linux.mount(str(target), str(target), None, flags)


def isolate(
    policy: Policy, *, read: Iterable[Path], devices: Iterable[Path], own_processes: bool
) -> str:
    """Enter a mount namespace and make a tree of only these paths, and the policy's, the root.

    Needs CAP_SYS_ADMIN (in the own user namespace, or as root). `own_processes`: the calling
    process is in a process namespace of its own. With a GPU its files in /proc may be written,
    which CUDA needs.

    Raises
    ------
    OSError
        The kernel refused something; the old root is in place.
    """
    at = policy.scratch / ".root"
    linux.unshare(linux.CLONE_NEWNS, "mount namespace")
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    at.mkdir()
    linux.mount("tmpfs", str(at), "tmpfs", linux.MS_NOSUID, "mode=755")
    tree = _Tree(at)
    try:
        for path in read:
            tree.bind(path)
        for path in devices:
            tree.bind(path, writable=True)
        for name, destination in LINKS.items():
            (tree.inside(Path("/dev")) / name).symlink_to(destination)
        tree.memory(SHARED_MEMORY, policy.memory_bytes // SHARED_MEMORY_FRACTION)
        if policy.private_scratch:
            tree.memory(policy.scratch, policy.scratch_bytes, mode="700")
        else:
            # Not recursive: the tree itself is mounted below it.
            tree.bind(policy.scratch, writable=True, recursive=False)
        processes = tree.processes(own=own_processes, writable=policy.gpu)
        (at / _OLD).mkdir()
        linux.pivot_root(str(at), str(at / _OLD))
    except OSError:
        with suppress(OSError):
            linux.detach(str(at))
        raise
    # Between two roots there is no going on without the layer: not an OSError.
    try:
        os.chdir("/")
        linux.detach(f"/{_OLD}")
        Path(f"/{_OLD}").rmdir()
        # The directories in between would otherwise be writable memory.
        flags = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID
        linux.mount("none", "/", None, flags)
    except OSError as error:
        raise RuntimeError(f"the old root could not be left: {error}") from error
    return f"root of its own, read-only; {processes}"
