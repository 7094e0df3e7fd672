"""Give up privileges: capabilities, the way back to them, and the judge's user id."""

import ctypes
import os
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from judge.sandbox import linux
from judge.sandbox.layers import Layer, LayerName

# Every sandbox started by root gets a user id of its own: this plus its supervisor's process id.
# Above what distributions, containers (subordinate ids) and directory services hand out.
USER_BASE = 0x70000000
NOBODY = 65534

_CAP_VERSION_3 = 0x20080522
CAP_SYS_ADMIN = 21
# KEEP_CAPS off, NO_SETUID_FIXUP and NOROOT on, NO_CAP_AMBIENT_RAISE on; all locked.
_SECUREBITS = 0b1 | 0b10 | 0b100 | 0b1000 | 0b100000 | 0b1000000 | 0b10000000


def status(name: str) -> str:
    """Return the value of a line of /proc/self/status, "" where it has none."""
    for line in Path("/proc/self/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    return ""


def has_capability(number: int) -> bool:
    """Whether the calling process has capability `number` in effect."""
    return bool(int(status("CapEff") or "0", 16) >> number & 1)


def others_can_read(paths: Iterable[Path], *, parents: bool) -> bool:
    """Whether any user may read and enter `paths` (and, if `parents`, reach them)."""
    for path in paths:
        steps = [path, *path.parents] if parents else [path]
        for step in steps:
            mode = step.stat().st_mode
            required = 0o5 if step.is_dir() and step == path else 0o1 if step.is_dir() else 0o4
            if mode & required != required:
                return False
    return True


def become(uid: int, groups: list[int]) -> int:
    """Take on the unprivileged user id `uid`, for good; "nobody" where it cannot be mapped.

    Returns the user id taken. Needs CAP_SETUID and CAP_SETGID. Raises OSError.
    """
    os.setgroups(groups)
    try:
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    except OSError:
        uid = NOBODY
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    return uid


def lock() -> None:
    """While privileged: make the loss of capabilities final, as far as the kernel lets us."""
    with suppress(OSError):
        linux.prctl(linux.PR_SET_SECUREBITS, _SECUREBITS)
    for capability in range(64):
        with suppress(OSError):  # EINVAL beyond the last one
            linux.prctl(linux.PR_CAPBSET_DROP, capability)


def drop() -> Layer:
    """Drop every capability, set no_new_privs, and report what the kernel then says."""
    with suppress(OSError):
        linux.prctl(linux.PR_CAP_AMBIENT, linux.PR_CAP_AMBIENT_CLEAR_ALL)
    # Of this process (0), no effective, permitted and inheritable ones: twice 32 bits of each.
    header, no_capabilities = struct.pack("=Ii", _CAP_VERSION_3, 0), struct.pack("=6I", *[0] * 6)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(header, no_capabilities) != 0:
        error = os.strerror(ctypes.get_errno())
        return Layer(name=LayerName.PRIVILEGES, active=False, detail=f"capset: {error}")
    try:
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1, what="no_new_privs")
    except OSError as error:
        return Layer(name=LayerName.PRIVILEGES, active=False, detail=str(error))
    remaining = [
        name for name in ("CapEff", "CapPrm", "CapInh", "CapAmb") if int(status(name) or "0", 16)
    ]
    if remaining or linux.prctl(linux.PR_GET_NO_NEW_PRIVS) != 1:
        detail = f"still there: {', '.join(remaining) or 'a way to new privileges'}"
        return Layer(name=LayerName.PRIVILEGES, active=False, detail=detail)
    return Layer(name=LayerName.PRIVILEGES, active=True, detail="no capabilities, no_new_privs")
