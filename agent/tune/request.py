"""What is asked of tuning, and what it answers; imports no torch."""

from pydantic import BaseModel, ConfigDict

from agent.tune.rewrite import Value
from agent.tune.space import Hint
from agent.worker.messages import Precision


class Model(BaseModel):
    """Base of what travels to and from the tuning process."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Request(Model):
    """What to tune, and how long."""

    problem: str
    """The problem file's text."""
    kernel: str
    """The kernel file's."""
    device: str
    dtype: str | None = None
    precision: Precision = "ieee"
    trust: bool = False
    seconds: float = 40.0
    """To hold the device, starting workers counted; they are given a little longer to end."""
    seed: int = 0
    hints: tuple[Hint, ...] = ()
    batch: int = 48
    """Configurations in the first generation."""


class Screening(Model):
    """Several kernels for one problem, of which the best shall be found and tuned."""

    problem: str
    """The problem file's text."""
    kernels: tuple[str, ...]
    """Kernel files of the form `kernel_function`, the most promising first."""
    reference: str
    """A kernel file that is right: what the others' results are compared with, and their times."""
    device: str
    dtype: str | None = None
    precision: Precision = "ieee"
    trust: bool = False
    seconds: float = 40.0
    """As of `Request`."""
    seed: int = 0


class Version(Model):
    """One configuration that works."""

    source: str
    values: dict[str, Value]
    """By parameter."""
    ms: float
    """Median; a claim of the process that ran it."""
    launches: int


class Tuned(Model):
    """What tuning found."""

    given_ms: float | None
    """The given file's own time, beside the best's."""
    versions: tuple[Version, ...]
    """The fastest first, at most 20; the given configuration is among them if it is fast enough."""
    start: dict[str, Value]
    """The given values."""
    points: int
    """Size of the space, limits of the card not considered."""
    tried: int
    failed: int
    """Of those tried, how many do not compile or give other results."""
    reasons: dict[str, int]
    """Why, by how often; the five most frequent."""
    generations: int
    exhausted: bool
    seconds: float
    """The search took."""
    ahead_seconds: float
    """Of them, compiling ahead."""
    held_seconds: float = 0.0
    """The device was held, workers' start included."""


class Screened(Model):
    """What became of one kernel of a screening."""

    version: Version | None
    """Its best; None where none works."""
    start: dict[str, Value]
    """The given values."""
    tried: int
    failed: int
    why: str = ""
    """Why none works."""


class Ranking(Model):
    """What a screening found."""

    kernels: tuple[Screened, ...]
    """In the order of `Screening.kernels`."""
    reference_ms: float | None
    """The reference's own time, beside the best ones'."""
    held_seconds: float = 0.0
    ahead_seconds: float = 0.0
    """Compiling, while the device was free."""
