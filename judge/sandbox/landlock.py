"""Landlock: the kernel lets this process and its descendants touch named files only.

Rules follow the file, not its name, so symbolic links, other mounts and /proc/PID/root lead
nowhere. A confined process cannot trace one outside its domain, which also closes
/proc/PID/{mem,fd,root,environ}. What it does not cover: stat, and connecting to a socket file.
"""

import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

from judge.sandbox import linux

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK = 1 << 6, 1 << 7, 1 << 8, 1 << 9
MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = 1 << 10, 1 << 11, 1 << 12
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

# Rights by the ABI version that introduced them.
FILE_RIGHTS = {1: (1 << 13) - 1, 2: REFER, 3: TRUNCATE, 5: IOCTL_DEV}
NET_RIGHTS = {4: 0b11}  # bind and connect, TCP
SCOPES = {6: 0b11}  # abstract unix sockets, signals
SIGNALS_ABI = 6
NEWEST_ABI = 7  # 7 adds audit flags only

READ = READ_FILE | READ_DIR | EXECUTE
WRITE = READ | WRITE_FILE | TRUNCATE | REFER | REMOVE_DIR | REMOVE_FILE
WRITE |= MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM
DEVICE = READ_FILE | WRITE_FILE | READ_DIR | IOCTL_DEV
# What can be granted on something that is not a folder; more is refused with EINVAL.
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

_VERSION_FLAG = 1
_PATH_BENEATH = 1


def abi() -> int:
    """Return the kernel's Landlock version, at most `NEWEST_ABI`; 0 where there is none."""
    try:
        version = linux.syscall(
            linux.LANDLOCK_CREATE_RULESET, None, 0, _VERSION_FLAG, what="landlock"
        )
    except OSError:
        return 0
    return min(version, NEWEST_ABI)


def _up_to(version: int, table: dict[int, int]) -> int:
    return sum(rights for since, rights in table.items() if since <= version)


def restrict(rules: Iterable[tuple[Path, int]], *, network: bool) -> str:
    """Confine the calling thread, and all that it starts, to `rules` (path, rights).

    Call it while there is one thread. `network`: leave TCP alone. A path that does not exist is
    passed over; nothing is granted for it. Returns what is covered.

    Raises
    ------
    OSError
        The kernel does not offer Landlock, or refuses a rule.
    """
    version = abi()
    if not version:
        raise OSError("this kernel does not offer Landlock")
    handled = _up_to(version, FILE_RIGHTS)
    net = 0 if network else _up_to(version, NET_RIGHTS)
    scoped = _up_to(version, SCOPES)
    attributes = struct.pack("=QQQ", handled, net, scoped)
    # Older kernels take the shorter structure only when the rest is zero, which it is.
    ruleset = linux.syscall(
        linux.LANDLOCK_CREATE_RULESET,
        attributes,
        len(attributes),
        0,
        what="landlock_create_ruleset",
    )
    try:
        for path, rights in rules:
            _allow(ruleset, path, rights & handled)
        linux.syscall(linux.LANDLOCK_RESTRICT_SELF, ruleset, 0, what="landlock_restrict_self")
    finally:
        os.close(ruleset)
    covers = ["files"]
    covers += ["TCP"] if net else []
    covers += ["signals and abstract sockets"] if scoped else []
    return f"ABI {version}: {', '.join(covers)}"


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            rights &= ON_FILES
        rule = struct.pack("=Qi", rights, handle)  # a packed structure
        what = f"landlock rule for {path}"
        linux.syscall(linux.LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0, what=what)
    finally:
        os.close(handle)
