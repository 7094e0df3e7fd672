"""User, process and network namespaces. Each raises OSError where the kernel refuses it."""

import fcntl
import os
import socket
import struct
from pathlib import Path

from judge.sandbox import linux
from judge.sandbox.layers import LayerName
from judge.sandbox.privileges import NOBODY

_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41


def user() -> None:
    """Enter a user namespace that maps only the present user; raises OSError where refused.

    The ids look the same inside, but root becomes "nobody": no program should think it has more
    than it has. The process has all capabilities inside, to set up the other namespaces with.
    """
    uid, gid = os.geteuid(), os.getegid()
    # A process that changed its user id does not own its own /proc files until it is dumpable.
    linux.prctl(linux.PR_SET_DUMPABLE, 1)
    linux.unshare(linux.CLONE_NEWUSER, "user namespace")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid or NOBODY} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid or NOBODY} {gid} 1")


def processes() -> str:
    """Let the next child be the first process of a new process namespace."""
    linux.unshare(linux.CLONE_NEWPID, LayerName.PROCESSES)
    return "sees and signals its own processes only"


def network(*, loopback: bool) -> str:
    """Enter a network namespace without interfaces, or with its own loopback only."""
    linux.unshare(linux.CLONE_NEWNET, LayerName.NETWORK)
    if not loopback:
        return "no interface"
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
            request = struct.pack("16sh14x", b"lo", _IFF_UP_RUNNING)
            fcntl.ioctl(handle, _SIOCSIFFLAGS, request)
    except OSError as error:
        return f"no interface; loopback: {error}"
    return "loopback of its own only"
