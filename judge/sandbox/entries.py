"""The functions that may run inside the sandbox, by name."""

import importlib
import socket
from collections.abc import Callable

from judge.sandbox.policy import Policy

Entry = Callable[[socket.socket, Policy], None]

ENTRIES = frozenset(
    {
        "judge.worker.main:main",  # the evaluation worker
        "judge.sandbox.script:main",  # Python source sent over the channel
        "judge.sandbox.command:main",  # a program with arguments
    }
)


def load(name: str) -> Entry:
    """Import the entry function called `name`; raises KeyError unless it is in `ENTRIES`."""
    if name not in ENTRIES:
        raise KeyError(name)
    module, function = name.split(":")
    entry: Entry = getattr(importlib.import_module(module), function)
    return entry


def preload() -> None:
    """Import the entries' modules, so that forked processes have them."""
    for name in sorted(ENTRIES):
        load(name)


def first_line(channel: socket.socket) -> bytes:
    """Read one line, byte by byte: what follows it stays in the socket for the program."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = channel.recv(1)
        if not byte:
            raise EOFError("the channel closed before a request came")
        line += byte
    return bytes(line)
