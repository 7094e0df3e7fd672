"""Failures of the reference that the problem file does not cause."""

from judge.evaluate.session import CommandFailedError
from kb.errors import KbError

# What the machine, not the problem, is short of: disk, memory, descriptors.
_SHORTAGES = ("OSError", "MemoryError", "OutOfMemoryError", "AcceleratorError")


class ProblemFaultError(KbError):
    """The reference failed for a reason other than the problem's code, so there is no verdict.

    A case that cannot be made is dropped only where the problem's own code fails by itself.
    What another process could cause, such as a full disk or memory, ends the evaluation.
    """

    status = 503


def refuse_shortage(error: CommandFailedError) -> None:
    """Raise ProblemFaultError where the machine is short of something."""
    if error.kind.rpartition(".")[2] in _SHORTAGES:
        raise ProblemFaultError(
            f"the reference failed ({error.kind}: {error.message}), so the kernel cannot be judged"
        ) from None


def describe_failure(error: CommandFailedError, dtype: str | None) -> str:
    """How the reference fails, and in which dtype where one was asked for."""
    where = f" in {dtype} (it may run without --dtype)" if dtype else ""
    return f"the reference fails{where}: {error.kind}: {error.message}"
