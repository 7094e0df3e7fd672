"""How a run searches and when it ends: `config.json` of the run folder."""

from typing import Final

from pydantic import Field

from agent.optimize.candidate import Model, ProblemInfo, Proposal
from judge.evaluate.options import BASELINES
from judge.options import RunOptions

WIDTH: Final = 4
ROUNDS: Final = 8
BRANCHING: Final = 2
REPAIRS: Final = 2
# Rounds in a row that may bring less than the least gain. One alone says little: a round in which
# one proposer fails is no sign that the others are at their end.
PATIENCE: Final = 2
# Nothing that is measured gets nearer to a floor computed from ceilings that were measured, too.
FLOOR_TARGET: Final = 0.97
CONTEXT_TOKENS: Final = 3000


REPLAY: Final = "replay:"


class Limits(Model):
    """What ends a run; a resume may raise them."""

    rounds: int = Field(default=ROUNDS, ge=0)
    seconds: float | None = Field(default=None, gt=0)
    """Wall time, all resumed parts together."""
    gpu_seconds: float | None = Field(default=None, gt=0)
    """Time that judging and quick timings held a GPU; `torch.compile`'s compilation is left out."""
    tokens: int | None = Field(default=None, gt=0)
    """Of prompts and replies."""
    money: float | None = Field(default=None, gt=0)
    """In the currency of the model's prices."""
    floor_target: float = Field(default=FLOOR_TARGET, gt=0)
    """End when the best takes no longer than floor / this."""


class Strategy(Model):
    """How candidates are chosen."""

    width: int = Field(default=WIDTH, ge=1)
    """Survivors of a round; 1 is greedy."""
    branching: int = Field(default=BRANCHING, ge=1)
    """Proposals of a proposer for each survivor."""
    least_gain: float = Field(default=0.03, ge=0)
    """A round with less relative gain of the leader brought nothing."""
    patience: int = Field(default=PATIENCE, ge=1)
    """Rounds in a row that may bring nothing."""
    crossover: bool = True
    """Ask for combinations of the best two of distinct families."""
    retirement: bool = True
    """Give up families that stay behind the leader."""
    reflection: bool = True
    """Ask a model for conclusions from each round's numbers."""
    repairs: int = Field(default=REPAIRS, ge=0)
    """How often a proposal that fails may be repaired."""
    confirm: bool = True
    """Time the best, the start and all baselines once more, in one session, at the end."""
    profiling: bool = True
    """Profile the start and the best."""
    profile_leaders: bool = True
    """Profile each new leader as well; without, rules diagnose it by its time and its source."""


class RunConfig(Model, RunOptions):
    """What was asked for. Holds no keys."""

    problem: ProblemInfo
    given: bool
    """Whether a kernel was given to start from."""
    start: Proposal | None = None
    """That kernel; None: eager PyTorch."""
    device: str | None = None
    """`cuda:N` alone; None: all cards of the first one's kind."""
    gpu: str | None = None
    """The card that the kernel is for, where this machine does not have it."""
    architecture: str | None = None
    """Of that card."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Of torch, triton and others where the card is, as far as they are known."""
    plan_first: bool = False
    """The first round is planned before the start is measured, so that it needs no GPU."""
    fresh_baselines: bool = False
    """Time the baselines although they are cached."""
    baselines: tuple[str, ...] = BASELINES
    """Forms of the problem's own model that the best is compared with; eager always."""
    proposers: tuple[str, ...] = ()
    """Names of those that compete."""
    model: str | None = None
    """At the endpoint; `replay:RUN` answers from the record of another run."""
    base_url: str | None = None
    batch: str | None = None
    """Folder in which requests to the model and its replies are files; None: over the network."""
    replay_verdicts: bool = False
    """Verdicts, times, profiles and advice come from that record, too."""
    seed: int = 0
    knowledge: bool = True
    """Whether the knowledge base is asked and shown at all."""
    exclude_sources: tuple[str, ...] = ()
    """Sources of the index of which nothing is shown."""
    context_tokens: int = CONTEXT_TOKENS
    limits: Limits = Limits()
    strategy: Strategy = Strategy()

    @property
    def baselines_last(self) -> bool:
        """Whether compiled baselines are timed at the end alone, in the session that confirms the
        best: so they are compiled once. A language model knows their times from the start."""
        return self.strategy.confirm and self.model is None

    @property
    def replayed(self) -> str | None:
        """The run that is repeated."""
        named = self.model is not None and self.model.startswith(REPLAY)
        return self.model.removeprefix(REPLAY) if self.model is not None and named else None
