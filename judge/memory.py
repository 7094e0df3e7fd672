"""What is said where a card has too little memory left. Imports no torch."""

from typing import Final

# Of `torch.OutOfMemoryError`.
FULL: Final = "OutOfMemoryError"
_ADVICE: Final = "end what else uses the card, or choose another one with --device"


def memory_full(message: str) -> str:
    """PyTorch's message about an allocation that failed, without its list of processes: what was
    asked for, and how much the card has."""
    return message.partition(" Process ")[0].partition(" Including ")[0].partition(" Of the ")[0]


def advised(error: BaseException) -> str | None:
    """What is said of a full card, with what to do; None of any other error."""
    if type(error).__name__ != FULL:
        return None
    return f"{memory_full(str(error))} {_ADVICE}"
