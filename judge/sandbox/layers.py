"""The report of which isolation layers are active around a sandboxed process."""

from collections.abc import Iterable
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from kb.errors import KbError


class LayerName(StrEnum):
    """One kind of isolation."""

    LANDLOCK = "landlock"  # the kernel refuses files outside an allow-list, TCP, signals outwards
    MOUNTS = "mounts"  # a root of its own that holds only the allow-list
    SECCOMP = "seccomp"  # system calls refused: sockets, ptrace, mount, ...
    NETWORK = "network namespace"  # no interface, abstract sockets of its own
    PROCESSES = "process namespace"  # sees and signals its own processes only; all die together
    SIGNALS = "signals"  # none reach the judge's processes; follows from other layers
    USER = "user"  # another user id than the judge's, or a user namespace
    PRIVILEGES = "privileges"  # no capabilities, and none to be had
    LIMITS = "limits"  # rlimits
    WATCH = "watch"  # memory, processes and output limited by the judge
    ENVIRONMENT = "environment"  # only named variables


class Layer(BaseModel):
    """One isolation layer of one sandboxed process."""

    model_config = ConfigDict(frozen=True)

    name: LayerName
    active: bool
    """Whether the kernel accepted it."""
    detail: str = ""
    """What it covers, or why it is not active."""


def active(layers: Iterable[Layer]) -> set[LayerName]:
    """Return the names of the active ones."""
    return {layer.name for layer in layers if layer.active}


def missing(layers: Iterable[Layer]) -> list[str]:
    """What keeps `layers` from being enough for code from a network or a model; [] if nothing.

    The file system, the network, privileges and other processes must each be isolated by at least
    one active layer.
    """
    present, names = active(layers), LayerName
    lacking = {
        "file system (Landlock or a mount namespace)": not present & {names.LANDLOCK, names.MOUNTS},
        "network (seccomp or a network namespace)": not present & {names.SECCOMP, names.NETWORK},
        # Without seccomp a new user namespace would hand capabilities back, over itself at least.
        "privileges (no capabilities, and seccomp against new ones)": (
            {names.PRIVILEGES, names.SECCOMP} - present
        ),
        "memory of other processes (Landlock, a process namespace or another user)": (
            not present & {names.LANDLOCK, names.PROCESSES, names.USER}
        ),
        "signals to other processes (Landlock ABI 6, a process namespace or another user id)": (
            names.SIGNALS not in present
        ),
    }
    return [name for name, lacks in lacking.items() if lacks]


class IncompleteSandboxError(KbError):
    """The sandbox lacks layers that code of unknown origin needs."""

    status = 503

    def __init__(self, lacking: Iterable[str]) -> None:
        self.lacking = tuple(lacking)
        """What is missing, as `missing` says it."""
        super().__init__(
            f"the sandbox lacks: {'; '.join(self.lacking)}; run with --trust if you know where "
            "problem and kernel come from"
        )


def require_layers(layers: Iterable[Layer], *, trust: bool) -> list[str]:
    """Return what `missing` finds, where that is trusted.

    Raises
    ------
    IncompleteSandboxError
        Layers are missing, and `trust` is not given.
    """
    lacking = missing(layers)
    if lacking and not trust:
        raise IncompleteSandboxError(lacking)
    return lacking
