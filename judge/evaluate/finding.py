"""What a check of a kernel file's source found."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["cheat", "suspect", "disclose"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing in a kernel file that a judge should know."""

    rule: str
    """Such as `library-call`, `patched-measurement`, `other-stream`."""
    severity: Severity
    line: int
    """From 1."""
    evidence: str
    """The piece of source, on one line."""
    explanation: str
    """What it means, as the end of a sentence that begins with the evidence."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.evidence}: {self.explanation}"
