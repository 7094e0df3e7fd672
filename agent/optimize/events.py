"""Events of a run's journal. Everything else is rebuilt from them."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from agent.diagnose.result import Diagnosis
from agent.optimize.candidate import Baseline, Candidate, Context, Judged
from agent.optimize.config import Limits
from agent.optimize.proposers import Spending
from judge.evaluate.result import Ceilings, Floor, Model


class _Event(Model):
    wall: float
    """Seconds that the run has taken, without the time between a kill and a resume."""
    at: str
    """UTC time, ISO 8601."""


class Standing(Model):
    """The starting point of a run."""

    start: Judged
    """The given kernel, or eager PyTorch as a kernel file."""
    measured: bool = True
    """False: nothing was run yet (`RunConfig.plan_first`); a second one follows."""
    baselines: dict[str, Baseline] = Field(default_factory=dict)
    """`start`, `eager`, `compile`, `max-autotune`."""
    floor: Floor | None = None
    ceilings: Ceilings | None = None
    gpu: str | None = None
    """Name of the card in `kb.gpus`; None in a dry run."""
    architecture: str | None = None
    devices: tuple[str, ...] = ()
    versions: dict[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    baseline_seconds: float = 0.0
    """Seconds of compiling and tuning baselines. Not part of GPU time."""


class Started(_Event):
    """The start and the baselines were evaluated."""

    event: Literal["started"] = "started"
    standing: Standing


class Continued(_Event):
    """The run was resumed."""

    event: Literal["continued"] = "continued"
    limits: Limits


class Profiled(_Event):
    """A candidate was profiled, or could not be."""

    event: Literal["profiled"] = "profiled"
    candidate: str
    metrics: dict[str, float] | None
    notes: tuple[str, ...] = ()
    gpu_seconds: float = 0.0


class Advised(_Event):
    """The leader was diagnosed and the knowledge base asked."""

    event: Literal["advised"] = "advised"
    round: int
    leader: str
    diagnosis: Diagnosis | None
    context: Context
    notes: tuple[str, ...] = ()


class Proposed(_Event):
    """The proposals of a round, in the order in which they are judged."""

    event: Literal["proposed"] = "proposed"
    round: int
    candidates: tuple[Candidate, ...]
    dropped: tuple[Judged, ...] = ()
    """Proposals that are not judged: duplicates, and those of retired families."""
    offered: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Ids of all proposals, by proposer, in its order."""
    failures: dict[str, str] = Field(default_factory=dict)
    """Reasons of failures, by proposer."""
    notes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Notes by proposer on why it made fewer proposals than allowed."""
    crossover: tuple[str, str] | None = None
    """The pair that was offered for combination."""
    spent: dict[str, Spending] = Field(default_factory=dict)
    """By proposer, for these proposals."""


class WasJudged(_Event):
    """A candidate was judged."""

    event: Literal["judged"] = "judged"
    round: int
    position: int
    """Position of the proposal in the round. A repair keeps it."""
    judged: Judged


class Repaired(_Event):
    """A proposer was asked to repair its candidate."""

    event: Literal["repaired"] = "repaired"
    round: int
    position: int
    failed: str
    candidate: Candidate | None
    """None if there was no repair, or it was a duplicate."""
    why: str = ""
    spent: dict[str, Spending] = Field(default_factory=dict)


class Reflected(_Event):
    """Conclusions from a round's numbers."""

    event: Literal["reflected"] = "reflected"
    round: int
    notes: tuple[str, ...]
    spent: dict[str, Spending] = Field(default_factory=dict)


class Closed(_Event):
    """The decisions at the end of a round."""

    event: Literal["closed"] = "closed"
    round: int
    leader: str
    beam: tuple[str, ...]
    retired: tuple[str, ...]
    gain: float
    """Relative gain of the leader over the leader before the round."""


class Confirmed(_Event):
    """The best, the start and all baselines were timed in one session."""

    event: Literal["confirmed"] = "confirmed"
    judged: Judged
    baselines: dict[str, Baseline]
    notes: tuple[str, ...] = ()
    baseline_seconds: float = 0.0
    """As `Standing.baseline_seconds`."""


class Stopped(_Event):
    """The run came to an end; a resume with other limits may go on."""

    event: Literal["stopped"] = "stopped"
    reason: str
    detail: str = ""


class Interrupted(_Event):
    """Ctrl-C, or an error outside of any candidate."""

    event: Literal["interrupted"] = "interrupted"
    detail: str = ""


Event = Annotated[
    Started | Continued | Profiled | Advised | Proposed | WasJudged | Repaired | Reflected | Closed
    | Confirmed | Stopped | Interrupted,
    Field(discriminator="event"),
]  # fmt: skip
EVENT: TypeAdapter[Event] = TypeAdapter(Event)
