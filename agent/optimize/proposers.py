"""The interface between the loop and a proposer, and its optional parts."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from agent.optimize.candidate import Judged, Model, Outcome, Proposal, SearchState


class Spending(Model):
    """Resources used since the process started."""

    tokens_in: int = 0
    tokens_out: int = 0
    money: float = 0.0
    """Cost in the currency of the given prices; US dollars by default."""
    gpu_seconds: float = 0.0
    """GPU seconds used outside the judge, such as for quick timings."""

    def __add__(self, other: "Spending") -> "Spending":
        mine, theirs = self.model_dump(), other.model_dump()
        return Spending(**{name: mine[name] + theirs[name] for name in mine})

    def __sub__(self, other: "Spending") -> "Spending":
        mine, theirs = self.model_dump(), other.model_dump()
        return Spending(**{name: mine[name] - theirs[name] for name in mine})


class Proposer(Protocol):
    """A source of candidates. All proposers compete in one beam.

    A `KbError` from one of its methods is shown and recorded, and the search goes on without its
    proposals for this round; after `loop.MOST_FAILURES` rounds of failing in a row it is left out.
    Any other exception is treated alike, since a mistake in one proposer must not lose a run.
    """

    @property
    def name(self) -> str:
        """A word that is unique among the proposers of a run, such as `tune`."""
        ...

    def propose(self, state: SearchState) -> Sequence[Proposal]:
        """Kernel files for this round, the most promising first.

        The loop takes at most `state.branching` × beam of each proposer, and of all of them in
        turn at most `state.width` × `state.branching`; it drops what was tried before, and what
        belongs to a retired family. An empty answer is fine.
        """
        ...

    def repair(self, proposal: Proposal, failure: Outcome) -> Proposal | None:
        """A corrected version of one's own proposal that failed, or None.

        Called between `propose` of one round and of the next, while the state is the same.
        """
        ...


@runtime_checkable
class Attending(Protocol):
    """A proposer that needs the state even in rounds in which it does not propose."""

    def attend(self, state: SearchState) -> None:
        """Called first in every round: a resumed one may have its proposals already, and only
        repairs are asked for."""
        ...


@runtime_checkable
class Reflecting(Protocol):
    """A proposer that draws conclusions from a round's numbers."""

    def reflect(self, state: SearchState, judged: Sequence[Judged]) -> Sequence[str]:
        """Return notes on this round. Later rounds find them in `SearchState.notes`.

        Parameters
        ----------
        state
            As it was proposed for.
        judged
            All that was judged in the round; the new leader, if any, with its profile.
        """
        ...


@runtime_checkable
class Noting(Protocol):
    """A proposer that explains why it made fewer proposals than allowed."""

    @property
    def notes(self) -> Sequence[str]:
        """Notes on the last call of `propose`, one line each. They are recorded and shown."""
        ...


@runtime_checkable
class Pausing(Protocol):
    """A proposer that asks a model. It may have to wait for what another machine does: its methods
    then raise `PausedError`, the run ends, and goes on when it is resumed."""

    @property
    def pauses(self) -> bool:
        """Whether it may pause this run."""
        ...


@runtime_checkable
class Metered(Protocol):
    """A proposer that spends tokens, money or GPU time of its own."""

    @property
    def spent(self) -> Spending:
        """Resources used since the process started. The run folder has what was used before."""
        ...


@runtime_checkable
class Closing(Protocol):
    """A proposer that holds something (a client, workers) that has to end with the run."""

    def close(self) -> None:
        """End what runs (requests, workers); called once, also after Ctrl-C."""
        ...
