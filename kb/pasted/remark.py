"""One remark on a line of a kernel."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Remark:
    """What a line shows."""

    line: int
    """From 1."""
    text: str
    """What it is, what it costs or breaks, and what to do; equal for lines with the same fault."""
    technique: str | None
    """Slug of the technique that answers it; None where no technique does."""
