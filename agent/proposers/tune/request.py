"""Requests and replies for tuning in a judging process. Imports no torch."""

from agent.optimize.judge_requests import JudgeState, Request
from agent.proposers.tune.rewrite import Value
from agent.proposers.tune.space import Hint
from judge.evaluate.result import Model
from judge.options import RunOptions
from judge.progress import Say


class Version(Model):
    """One configuration that works."""

    source: str
    values: dict[str, Value]
    """Values by parameter."""
    ms: float
    """Median; a claim of the process that ran it."""


class Tuned(Model):
    """Result of tuning."""

    given_ms: float | None
    """The given file's own time, beside the best's."""
    versions: tuple[Version, ...]
    """The fastest first, at most 20; the given configuration is among them if it is fast enough."""
    start: dict[str, Value]
    """The given values."""
    tried: int
    failed: int
    """Number of tried points that fail to compile or give other results."""
    reasons: dict[str, int]
    """Why, by how often; the five most frequent."""
    held_seconds: float = 0.0
    """The device was held, workers' start included."""


class _Search(RunOptions):
    """Common fields of all searches."""

    problem: str
    """The problem file's text."""
    device: str
    seconds: float = 40.0
    """For the search, starting workers counted; they are given a little longer to end."""
    patience: float | None = None
    """Seconds of waiting for the device that are not taken off `seconds`; None: all."""
    seed: int = 0


class Tuning(Request[Tuned], _Search):
    """A kernel to tune and a time limit."""

    reply = Tuned

    kernel: str
    """The kernel file's text."""
    hints: tuple[Hint, ...] = ()
    batch: int = 48
    """Configurations in the first generation."""

    def answer(self, kept: JudgeState, say: Say) -> Tuned:
        """See `Request.answer`."""
        from agent.proposers.tune.tuner import tune  # noqa: PLC0415 (loads torch)

        return tune(self, zygote=kept.zygote(interpret=self.device == "cpu"), say=say)


class Screened(Model):
    """Result of one kernel of a screening."""

    version: Version | None
    """Its best; None where none works."""
    start: dict[str, Value]
    """The given values."""
    tried: int
    failed: int
    why: str = ""
    """Why none works."""


class Ranking(Model):
    """Result of a screening."""

    kernels: tuple[Screened, ...]
    """Results in the order of `Screening.kernels`."""
    reference_ms: float | None
    """The reference's own time, beside the best ones'."""
    held_seconds: float = 0.0


class Screening(Request[Ranking], _Search):
    """Several kernels for one problem, of which the best shall be found and tuned."""

    reply = Ranking

    kernels: tuple[str, ...]
    """Kernel files of the form `kernel_function`, the most promising first."""
    reference: str
    """A kernel file that is right: what the others' results are compared with, and their times."""
    start_ms: float | None = None
    """What the judge measured of the run's start. Kernels that take many times as long after the
    race are not searched."""
    hold_seconds: float = 60.0
    """To hold the device at most; `seconds` are for compilation as well."""

    def answer(self, kept: JudgeState, say: Say) -> Ranking:
        """See `Request.answer`."""
        from agent.proposers.tune.screen import screen  # noqa: PLC0415 (loads torch)

        return screen(self, zygote=kept.zygote(interpret=self.device == "cpu"), say=say)
