"""What a run tells while it goes on; the command prints it, tests collect it."""

from typing import Protocol

from agent.optimize.candidate import Judged
from agent.optimize.events import Event


class Progress(Protocol):
    """Takes what happens."""

    def event(self, event: Event) -> None:
        """An event that was recorded."""
        ...

    def working(self, candidate: str, line: str) -> None:
        """A line about what is being done to a candidate."""
        ...


class Silent:
    """Tells nobody."""

    def event(self, event: Event) -> None:
        """See `Progress.event`."""

    def working(self, candidate: str, line: str) -> None:
        """See `Progress.working`."""


def line_of(judged: Judged) -> str:
    """One line about a candidate, such as `3f2a91bc tune tiling: 0.412 ms, 1.31x the leader`."""
    candidate, outcome = judged.candidate, judged.outcome
    head = f"{candidate.id} {candidate.proposer} {candidate.family}"
    if candidate.repairs is not None:
        head += f" (repairs {candidate.repairs})"
    if outcome.timed:
        ratio = outcome.over("leader")
        told = f"{outcome.median_ms:.4g} ms"
        if ratio is not None:
            told += f", {ratio.ratio:.2f}x the leader" if ratio.significant else ", as the leader"
    elif outcome.right:
        told = "right"
    else:
        word = outcome.verdict.value if outcome.verdict is not None else outcome.stage.value
        told = f"{word}: {outcome.reasons[0]}" if outcome.reasons else word
    return f"{head}: {' '.join(told.split())}"
