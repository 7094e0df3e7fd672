"""The interface between the loop and a proposer."""

from collections.abc import Sequence
from typing import ClassVar

from agent.optimize.candidate import Judged, Outcome, Proposal, SearchState
from judge.evaluate.result import Model


class Spending(Model):
    """Resources used since the process started."""

    tokens_in: int = 0
    tokens_out: int = 0
    money: float = 0.0
    """Cost in the currency of the given prices; US dollars by default."""
    gpu_seconds: float = 0.0
    """GPU seconds used outside the judge, such as for quick timings."""

    def __add__(self, other: "Spending") -> "Spending":
        values, others = self.model_dump(), other.model_dump()
        return Spending(**{name: values[name] + others[name] for name in values})

    def __sub__(self, other: "Spending") -> "Spending":
        values, others = self.model_dump(), other.model_dump()
        return Spending(**{name: values[name] - others[name] for name in values})


class Proposer:
    """A source of candidates. All proposers compete in one beam.

    A `KbError` from one of its methods is shown and recorded, and the search goes on without its
    proposals for this round; after `loop.MAX_FAILURES` rounds of failing in a row it is left out.
    Any other exception is treated alike, since a mistake in one proposer must not lose a run.
    """

    name: str
    """A word that is unique among the proposers of a run, such as `tune`."""
    asks_model: ClassVar[bool] = False
    """Whether it asks a model. It may then have to wait for what another machine does: its methods
    raise `PausedError`, the run ends, and goes on when it is resumed."""
    notes: Sequence[str] = ()
    """Why the last call of `propose` made fewer proposals than allowed, one line each. They are
    recorded and shown."""

    _spent = Spending()

    @property
    def spent(self) -> Spending:
        """Tokens, money or GPU time of its own, used since the process started. The run folder has
        what was used before."""
        return self._spent

    def attend(self, state: SearchState) -> None:
        """Called first in every round: a resumed one may have its proposals already, and only
        repairs are asked for."""

    def propose(self, state: SearchState) -> Sequence[Proposal]:
        """Kernel files for this round, the most promising first.

        The loop takes at most `state.branching` × beam of each proposer, and of all of them in
        turn at most `state.width` × `state.branching`; it drops what was tried before, and what
        belongs to a retired family. An empty answer is fine.
        """
        raise NotImplementedError

    def repair(self, proposal: Proposal, failure: Outcome) -> Proposal | None:  # noqa: ARG002
        """A corrected version of one's own proposal that failed, or None.

        Called between `propose` of one round and of the next, while the state is the same.
        """
        return None

    def reflect(self, state: SearchState, judged: Sequence[Judged]) -> Sequence[str]:  # noqa: ARG002
        """Return notes on this round. Later rounds find them in `SearchState.notes`.

        `judged` is all that was judged in the round; the new leader, if any, has its profile.
        """
        return ()

    def close(self) -> None:
        """End what runs (requests, workers); called once, also after Ctrl-C."""
