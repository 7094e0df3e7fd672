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
