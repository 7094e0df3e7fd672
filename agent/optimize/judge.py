"""The interface between the loop and a judge."""

from typing import Final, NamedTuple, Protocol

from agent.optimize.candidate import Baseline, Candidate, Judged, Outcome, Proposal
from agent.optimize.events import Standing
from judge.evaluate.options import COMPILE_SECONDS
from judge.progress import Say


class ProfileResult(NamedTuple):
    """Result of profiling."""

    metrics: dict[str, float] | None
    notes: tuple[str, ...] = ()
    gpu_seconds: float = 0.0


class Confirmation(NamedTuple):
    """Times of the best and of all contenders, from one session."""

    outcome: Outcome
    baselines: dict[str, Baseline]
    notes: tuple[str, ...] = ()
    baseline_seconds: float = 0.0
    """Seconds of compiling and tuning baselines. Not part of GPU time."""

    def fields(self, candidate: Candidate) -> dict[str, object]:
        """Fields of the event `Confirmed`."""
        fields = self._asdict()
        return fields | {"judged": Judged(candidate=candidate, outcome=fields.pop("outcome"))}


class Allowance(NamedTuple):
    """What a last session may take."""

    short: bool = False
    """Only as many launches as a candidate in the search has."""
    compile_seconds: float = COMPILE_SECONDS
    """See `judge.evaluate.options.Options`."""


WHOLE: Final = Allowance()


class Judge(Protocol):
    """Judges candidates. A failing candidate is a result, not an error."""

    @property
    def slots(self) -> int:
        """How many candidates may be judged at once, each from a thread of its own."""

    def judge_start(self, kernel: Proposal | None, say: Say) -> Standing:
        """Evaluate the start (eager PyTorch where no kernel is given), eager, and the compiled
        baselines as far as they are known or `RunConfig.baselines_last` does not leave them for
        `confirm`.

        Raises
        ------
        KbError
            The problem cannot be run, there is no GPU or one of unknown kind, or the sandbox is
            incomplete. A start that is not right is no error here.
        """

    def unmeasured_start(self, kernel: Proposal | None) -> Standing:
        """The start and the card as the config has them; nothing is run, and no GPU is needed.

        Raises
        ------
        KbError
            The start cannot be read, or the card is not known.
        """

    def judge(self, candidate: Candidate, leader: Judged, attempt: int, say: Say) -> Outcome:
        """Check and time a candidate beside the leader; its ratio is over `leader`."""

    def profile(self, candidate: Candidate, say: Say) -> ProfileResult:
        """Profile a candidate that is right; metrics are None where that cannot be done."""

    def confirm(
        self, best: Judged, start: Judged, say: Say, allowance: Allowance = WHOLE
    ) -> Confirmation:
        """Time the best once more, beside the start and all baselines. Where nothing is better
        than the start, that is the best.

        Raises
        ------
        KbError
            It cannot be timed.
        """

    def cancel(self) -> None:
        """End what runs, from another thread: calls in progress return soon, or raise."""

    def close(self) -> None:
        """Free everything."""
