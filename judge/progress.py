"""What a judge tells while it works. Budgets and time limits go by the step, never by its words."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Step(StrEnum):
    """What kind of work begins."""

    WAIT = "wait"
    """Another process holds the card."""
    HOLD = "hold"
    """The card is held from now on, and workers start."""
    COMPILE = "compile"
    """`torch.compile` compiles a baseline until the next step."""
    WORK = "work"
    """Anything else."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One step, with a line for whoever watches."""

    text: str
    step: Step = Step.WORK

    def __str__(self) -> str:
        return self.text


Say = Callable[[Progress], None]
"""Takes progress; may be called from any thread."""


def silent(_: Progress) -> None:
    """Tell nobody."""
