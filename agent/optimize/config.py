"""Search options and limits of a run: `config.json` in the run folder."""

from typing import Any, Final

from pydantic import Field, model_validator

from agent.optimize.candidate import ProblemInfo, Proposal
from judge.evaluate.options import BASELINES
from judge.evaluate.result import Model
from judge.options import RunOptions

ROUNDS: Final = 8
# Rounds in a row that may bring less than the least gain. One alone says little: a round in which
# one proposer fails is no sign that the others are at their end.
PATIENCE: Final = 2
# Nothing that is measured gets nearer to a floor computed from ceilings that were measured, too.
FLOOR_TARGET: Final = 0.97
REPLAY: Final = "replay:"


class Limits(Model):
    """Limits that end a run. `--resume` may raise them."""

    rounds: int = Field(default=ROUNDS, ge=0)
    seconds: float | None = Field(default=None, gt=0)
    """Wall time in seconds, summed over all resumed parts."""
    gpu_seconds: float | None = Field(default=None, gt=0)
    """GPU seconds of judging and quick timings, without the compilation of baselines."""
    tokens: int | None = Field(default=None, gt=0)
    """Tokens of prompts and replies."""
    money: float | None = Field(default=None, gt=0)
    """Cost in the currency of the model's prices."""
    floor_target: float = Field(default=FLOOR_TARGET, gt=0)
    """End once the best takes at most floor / this value."""


class Strategy(Model):
    """Options of the beam search."""

    width: int = Field(default=4, ge=1)
    """Beam width: survivors of a round. 1 is a greedy search."""
    branching: int = Field(default=2, ge=1)
    """Proposals per proposer and survivor."""
    least_gain: float = Field(default=0.03, ge=0)
    """Least relative gain of the leader that counts as progress."""
    patience: int = Field(default=PATIENCE, ge=1)
    """Number of rounds in a row without progress that end the run."""
    crossover: bool = True
    """Ask for combinations of the best two candidates of different families."""
    retirement: bool = True
    """Stop proposing families that stay behind the leader."""
    reflection: bool = True
    """Ask a model for conclusions from each round's numbers."""
    repairs: int = Field(default=2, ge=0)
    """Largest number of repairs of a failing proposal."""
    confirm: bool = True
    """Time the best, the start and all baselines in one final session."""
    profiling: bool = True
    """Profile the start, each new leader and the best. Otherwise they are diagnosed by their time
    and source."""

    @model_validator(mode="before")
    @classmethod
    def _drop_old_fields(cls, data: Any) -> Any:
        """Runs of earlier versions said of leaders apart whether they are profiled."""
        if isinstance(data, dict):
            return {name: value for name, value in data.items() if name != "profile_leaders"}
        return data


class RunConfig(Model, RunOptions):
    """The request that a run carries out. It holds no API keys."""

    problem: ProblemInfo
    given: bool
    """Whether the run starts from a given kernel."""
    start: Proposal | None = None
    """The given kernel; None for eager PyTorch."""
    device: str | None = None
    """`cuda:N` to use one GPU; None for all GPUs of the first one's model."""
    gpu: str | None = None
    """Target GPU, if this machine does not have it."""
    architecture: str | None = None
    """Architecture of that GPU."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Known versions of torch, triton and others on the machine with the GPU."""
    plan_first: bool = False
    """Plan the first round before the start is measured, so that planning needs no GPU."""
    fresh_baselines: bool = False
    """Time the baselines even if their times are cached."""
    baselines: tuple[str, ...] = BASELINES
    """Forms of the problem's model that the best is compared with. Eager is always one."""
    proposers: tuple[str, ...] = ()
    """Names of the proposers to use."""
    model: str | None = None
    """Name of the model at its endpoint; `replay:RUN` replays another run's replies."""
    base_url: str | None = None
    batch: str | None = None
    """Folder for requests and replies as files; None to use the network."""
    replay_verdicts: bool = False
    """Also take verdicts, times, profiles and advice from the replayed run."""
    seed: int = 0
    knowledge: bool = True
    """Whether to use the knowledge base."""
    exclude_sources: tuple[str, ...] = ()
    """Sources of the index to exclude."""
    context_tokens: int = 6000
    """Room for the longest examples: a plan is made from their figures, and a programmer reads only
    what the plan cites."""
    limits: Limits = Limits()
    strategy: Strategy = Strategy()

    @property
    def baselines_last(self) -> bool:
        """Whether compiled baselines are timed at the end alone, in the session that confirms the
        best: so they are compiled once. A language model knows their times from the start."""
        return self.strategy.confirm and self.model is None

    @property
    def replayed(self) -> str | None:
        """Folder of the run that is replayed, or None."""
        model = self.model or ""
        return model.removeprefix(REPLAY) if model.startswith(REPLAY) else None
