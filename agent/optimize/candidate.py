"""Data types of a search: proposals, candidates, outcomes, and the state that proposers see.

All are pydantic models, and their JSON is the format of the run folder.
"""

import hashlib
import random
import time
from enum import StrEnum
from pathlib import PurePath
from typing import Literal, Self

from pydantic import Field, PrivateAttr

from agent.diagnose.result import Diagnosis
from judge.evaluate.result import RIGHT, Ceilings, Floor, Model, Ratio, Verdict
from judge.options import RunOptions
from judge.problem.kernel import Form

_ID_DIGITS = 8


class Stage(StrEnum):
    """The stage that judging a candidate reached."""

    SYNTAX = "syntax"
    """The file cannot be read as a kernel file."""
    DUPLICATE = "duplicate"
    """The same program was tried before; it was not judged again."""
    RETIRED = "retired"
    """Its family was retired; it was not judged."""
    SLOWER = "slower"
    """It was slower in quick timings than a correct candidate; it was not judged."""
    COMPILE = "compile"
    """It cannot be loaded or compiled."""
    VERIFY = "verify"
    """It is wrong, a cheat, or inconclusive."""
    TIME = "time"
    """It is right, but could not be timed; or the judge itself failed on it (crash, hang)."""
    DONE = "done"
    """Judged completely."""


class Hypothesis(Model):
    """Why a change should help, so that the numbers can say whether it did."""

    claim: str
    """One sentence."""
    metric: str | None = None
    """Nsight Compute metric that should move."""
    expected: float | None = None
    """The value that it should reach, in the metric's base unit."""


class Proposal(Model):
    """A kernel file that a proposer wants judged."""

    source: str
    """The whole file."""
    parents: tuple[str, ...] = ()
    """Ids of the candidates that it was made from; several after a crossover."""
    proposer: str
    """Name of the proposer."""
    family: str
    """Slug of the technique that it is about, or a word such as `tune`; one of each family
    survives in a beam."""
    hypothesis: Hypothesis | None = None
    chunks: tuple[str, ...] = ()
    """Ids of the retrieved chunks that were used."""
    params: dict[str, int | float | str | bool] = Field(default_factory=dict)
    """Meta-parameters that were chosen, by name."""
    quick_ms: float | None = None
    """Its time in quick timings, by which candidates of one problem can be ordered."""
    suffix: Literal[".py", ".cu"] = ".py"
    """`.cu` for a CUDA file with a declared entry point."""
    note: str = ""
    """One line for the report."""


class Candidate(Proposal):
    """A proposal in the search."""

    id: str
    """First eight hexadecimal digits of the SHA-256 of `source`."""
    form: Form | None = None
    """Calling convention; None if the file is not a kernel file."""
    round: int
    """Round in which it was proposed; 0 for the start."""
    repairs: str | None = None
    """Id of the failed candidate that this one repairs."""

    @classmethod
    def of(
        cls,
        proposal: Proposal,
        *,
        round_: int,
        form: Form | None = None,
        repairs: str | None = None,
    ) -> Self:
        """The candidate that a proposal becomes."""
        data = {"id": digest_id(proposal.source), "form": form, "round": round_, "repairs": repairs}
        return cls.model_validate(_as_proposed(proposal) | data)

    @property
    def proposal(self) -> Proposal:
        """The original proposal, which its proposer can repair."""
        return Proposal.model_validate(_as_proposed(self))

    @property
    def file(self) -> str:
        """Name of its file in the run folder's `kernels`."""
        return f"{self.id}{self.suffix}"


class Outcome(Model):
    """Result of judging a candidate."""

    candidate: str
    """Its id."""
    stage: Stage
    """The stage that it reached."""
    verdict: Verdict | None = None
    """None if the judge reached no verdict."""
    reasons: tuple[str, ...] = ()
    """Reasons for the failure or verdict, one line each, the most important first."""
    error: str | None = None
    """Class of the exception that prevented a result, as its process reports it."""
    disclosures: tuple[str, ...] = ()
    """Caveats that do not affect the verdict."""
    median_ms: float | None = None
    """Median time of one launch, cold; None where it was not timed."""
    p10_ms: float | None = None
    p90_ms: float | None = None
    ratios: tuple[Ratio, ...] = ()
    """Of the candidate over `start`, `leader`, `eager`, `compile` and `max-autotune`, as far as
    they were timed in the same session."""
    floor_fraction: float | None = None
    """Floor / median: 1 is the roof."""
    error_share: float | None = None
    """Largest error of all cases, as a fraction of the tolerance."""
    language: str | None = None
    """triton, cuda, or python if no custom kernel was launched."""
    profile: dict[str, float] | None = None
    """Nsight Compute metric → value of the kernel with the most time; None: not profiled."""
    attempts: int = 1
    """Number of the attempt: 1 for the proposal, 2 for its first repair."""
    gpu_seconds: float = 0.0
    """GPU seconds of judging it."""

    @property
    def right(self) -> bool:
        """Whether it is a correct replacement of the problem's model."""
        return self.stage is Stage.DONE and self.verdict in RIGHT

    @property
    def repairable(self) -> bool:
        """Whether a change could repair the failure. A cheat is not repaired."""
        unjudged = self.stage in (Stage.DUPLICATE, Stage.RETIRED, Stage.SLOWER)
        return not (self.right or unjudged or self.verdict is Verdict.CHEAT)

    @property
    def timed(self) -> bool:
        """Whether it is right and has a time."""
        return self.right and self.median_ms is not None

    def over(self, contender: str) -> Ratio | None:
        """Its speedup over a contender of the same session, or None."""
        return next((ratio for ratio in self.ratios if ratio.over == contender), None)

    def same_over(self, contender: str, name: str) -> Self:
        """With the speedup over `contender`, if it is known, also under another `name` of it."""
        over = self.over(contender)
        more = () if over is None else (over.model_copy(update={"over": name}),)
        return self.model_copy(update={"ratios": (*self.ratios, *more)})


class Judged(Model):
    """A candidate with its outcome."""

    candidate: Candidate
    outcome: Outcome

    @property
    def id(self) -> str:
        """The candidate's."""
        return self.candidate.id

    @property
    def family(self) -> str:
        """The candidate's."""
        return self.candidate.family


class Baseline(Model):
    """Time of the start, or of a form of the problem's own model."""

    median_ms: float
    p10_ms: float
    p90_ms: float
    floor_fraction: float | None = None
    note: str = ""
    """Caveat about this time."""


class Context(Model):
    """Retrieved context for this round's diagnosis."""

    text: str = ""
    chunks: tuple[str, ...] = ()
    """Ids of its examples, and slugs of techniques. Later rounds exclude the techniques."""
    techniques: tuple[str, ...] = ()
    """Slugs, the best first."""
    reasons: dict[str, str] = Field(default_factory=dict)
    """Slug → reason for the technique here."""
    citations: tuple[str, ...] = ()
    """`title, url (licence)`."""
    tokens: int = 0


class ProblemInfo(Model):
    """The problem file."""

    name: str
    """File name."""
    source: str
    sha256: str

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return PurePath(self.name).stem


class SearchState(Model, RunOptions):
    """Everything that a proposer knows. It is rebuilt from the run folder on resume, so a
    stateless proposer needs no code for that."""

    problem: ProblemInfo
    device: str
    """`cuda:N` that may be used between judgings, under its lock; `cpu` in a dry run."""
    gpu: str | None = None
    """Name of the card, as `kb.gpus` knows it."""
    architecture: str | None = None
    """Such as sm_90a."""
    round: int
    """Current round; the first is 1."""
    width: int = 4
    """Beam width."""
    branching: int = 2
    """Largest number of proposals per proposer and candidate of the beam."""
    beam: tuple[Judged, ...]
    """The survivors, the fastest first. Never empty: it begins with the start."""
    leader: Judged
    """The fastest candidate so far; the start if nothing is better."""
    start: Judged
    """The given kernel, or eager PyTorch as a kernel file."""
    crossover: tuple[Judged, Judged] | None = None
    """The two candidates to combine in this round, or None."""
    retired: frozenset[str] = frozenset()
    """Families that stayed behind the leader and must not be proposed again."""
    history: tuple[Judged, ...] = ()
    """All judged candidates in order, including failures."""
    tried: frozenset[str] = frozenset()
    """`dedupe.digest` of every program tried so far."""
    baselines: dict[str, Baseline] = Field(default_factory=dict)
    """`start`, `eager`, `compile`, `max-autotune`, as far as they were timed."""
    floor: Floor | None = None
    ceilings: Ceilings | None = None
    diagnosis: Diagnosis | None = None
    """Diagnosis of the leader."""
    context: Context = Context()
    notes: tuple[str, ...] = ()
    """Notes from reflection on earlier rounds, in order."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Versions of torch, triton and others on the judge's machine; empty before measuring."""
    knowledge: bool = True
    """Whether the knowledge base may be used."""
    seed: int = 0
    seconds_left: float | None = None
    """Seconds left for the search, of GPU time or wall time; None for no limit."""
    wall_left: float | None = None
    """Seconds of wall time left for the search when this was made; None for no limit."""
    _made: float = PrivateAttr(default_factory=time.monotonic)

    def random(self, proposer: str) -> random.Random:
        """A generator that depends on the run's seed, the round and the proposer's name alone."""
        return random.Random(f"{self.seed}:{self.round}:{proposer}")  # noqa: S311 (a search)

    def may_wait(self, seconds: float) -> float | None:
        """How long a search of `seconds` that begins now may wait for a card that others use; None
        for no limit."""
        if self.wall_left is None:
            return None
        return max(0.0, self.wall_left - (time.monotonic() - self._made) - seconds)

    def judged(self, candidate: str) -> Judged | None:
        """The candidate of this id, if it was judged."""
        return next((judged for judged in self.history if judged.id == candidate), None)


def digest_id(source: str) -> str:
    """The id of a candidate with this source."""
    return hashlib.sha256(source.encode("utf-8", errors="replace")).hexdigest()[:_ID_DIGITS]


def _as_proposed(proposal: Proposal) -> dict[str, object]:
    return {name: getattr(proposal, name) for name in Proposal.model_fields}
