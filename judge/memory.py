"""What is said where a card has too little memory left. Imports no torch."""

from typing import Final

# Of `torch.OutOfMemoryError`.
FULL: Final = "OutOfMemoryError"


def memory_full(message: str) -> str:
    """PyTorch's message about an allocation that failed as one line that says what to do."""
    asked = message.partition("Tried to allocate ")[2].partition(". ")[0]
    more = f": {asked} more were asked for" if asked else ""
    return f"the card's memory is full{more}; end what else uses it, or choose another --device"
