"""The message for a GPU with too little free memory. Imports no torch."""

from typing import Final

# Of `torch.OutOfMemoryError`.
FULL: Final = "OutOfMemoryError"
_ADVICE: Final = "stop other programs on this GPU, or choose another GPU with --device"


def memory_full(message: str) -> str:
    """PyTorch's message about a failed allocation, without its list of processes: how much was
    requested, and how much memory the GPU has."""
    return message.partition(" Process ")[0].partition(" Including ")[0].partition(" Of the ")[0]


def advised(error: BaseException) -> str | None:
    """The message for a full GPU, with advice; None for any other error."""
    if type(error).__name__ != FULL:
        return None
    return f"{memory_full(str(error))} {_ADVICE}"
