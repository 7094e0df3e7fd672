"""Failures of the problem's side that are not the problem's own."""

from judge.evaluate.session import CommandFailedError
from kb.errors import KbError

# What the machine, not the problem, is short of: disk, memory, descriptors.
_SHORTAGES = ("OSError", "MemoryError", "OutOfMemoryError", "AcceleratorError")


class ProblemFaultError(KbError):
    """The problem's side failed for a reason that is not the problem's: no verdict can stand on it.

    A case that cannot be made is dropped only where the problem's own code says so by itself.
    What another process could bring about, a full disk or memory, ends the evaluation.
    """

    status = 503


def refuse_shortage(error: CommandFailedError) -> None:
    """Raise ProblemFaultError where the machine is short of something."""
    if error.kind.rpartition(".")[2] in _SHORTAGES:
        raise ProblemFaultError(
            f"the reference failed ({error.kind}: {error.message}), so the kernel cannot be judged"
        ) from None
