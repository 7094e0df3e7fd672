"""User, process, network and IPC namespaces, each where the kernel permits it."""

import fcntl
import os
import socket
import struct
from pathlib import Path

from judge.sandbox import linux
from judge.sandbox.layers import Layer, LayerName
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


def processes() -> Layer:
    """Let the next child be the first process of a new process namespace."""
    return _enter(
        linux.CLONE_NEWPID, LayerName.PROCESSES, "sees and signals its own processes only"
    )


def network(*, loopback: bool) -> Layer:
    """Enter a network namespace without interfaces, or with its own loopback only."""
    layer = _enter(linux.CLONE_NEWNET, LayerName.NETWORK, "no interface")
    if layer.active and loopback:
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
                request = struct.pack("16sh14x", b"lo", _IFF_UP_RUNNING)
                fcntl.ioctl(handle, _SIOCSIFFLAGS, request)
        except OSError as error:
            return layer.model_copy(update={"detail": f"no interface; loopback: {error}"})
        return layer.model_copy(update={"detail": "loopback of its own only"})
    return layer


def ipc() -> Layer:
    """Enter a namespace of System V and POSIX queues."""
    return _enter(linux.CLONE_NEWIPC, LayerName.IPC, "queues of its own")


def _enter(flag: int, name: LayerName, detail: str) -> Layer:
    try:
        linux.unshare(flag, name)
    except OSError as error:
        return Layer(name=name, active=False, detail=str(error))
    return Layer(name=name, active=True, detail=detail)
