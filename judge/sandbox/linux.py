"""Linux calls that Python does not offer: thin wrappers over libc that raise OSError."""

import ctypes
import os
import platform

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1 << 5, 1 << 12, 1 << 14, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_GET_NO_NEW_PRIVS = 39
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

# Numbers differ by architecture below 424 only; all later calls share one table.
SYSCALLS = {
    "x86_64": {"pivot_root": 155, "seccomp": 317},
    "aarch64": {"pivot_root": 41, "seccomp": 277},
}
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
MOUNT_SETATTR = 442

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def number(name: str) -> int:
    """Return the number of system call `name` here; raises OSError on another architecture."""
    machine = platform.machine()
    try:
        return SYSCALLS[machine][name]
    except KeyError:
        raise OSError(38, f"{name} is not known on {machine}") from None


def _check(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def _argument(value: object) -> object:
    return ctypes.c_long(value) if isinstance(value, int) else value


def syscall(call: int, *arguments: object, what: str) -> int:
    """Make a system call by number; integers are passed as 64-bit values, bytes by address."""
    result = _libc.syscall(ctypes.c_long(call), *[_argument(value) for value in arguments])
    return _check(result, what)


def prctl(option: int, *arguments: object, what: str = "prctl") -> int:
    """Call prctl(2) with unused arguments zero, as the kernel demands."""
    padded = [_argument(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    return _check(_libc.prctl(ctypes.c_int(option), *padded), what)


def unshare(flags: int, what: str) -> None:
    """Move the calling process (its children, for processes) to new namespaces."""
    _check(_libc.unshare(ctypes.c_int(flags)), what)


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Call mount(2)."""
    result = _libc.mount(
        source.encode(),
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        data.encode() if data else None,
    )
    _check(result, f"mount {kind or source} on {target}")


def detach(target: str) -> None:
    """Unmount `target` and what is below it once nothing uses it."""
    _check(_libc.umount2(target.encode(), ctypes.c_int(MNT_DETACH)), f"unmount {target}")


def pivot_root(new: str, old: str) -> None:
    """Make `new` the root and move the present one to `old`."""
    syscall(number("pivot_root"), new.encode(), old.encode(), what="pivot_root")
