"""Repeats a recorded run without a GPU: verdicts, times, profiles and advice from its journal.

Proposers that need a GPU or an index are repeated, too (`ReplayProposer`); a language model's
replies are repeated by `agent.proposers.llm`, so its prompts and parsing run as they did. The
search itself decides anew, and comes to the same decisions where it is the same. A run that was
cut short by time in the middle of a round and continued later is repeated as far as the cut.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agent.optimize.advice import Advice
from agent.optimize.candidate import Candidate, Context, Judged, Outcome, Proposal, SearchState
from agent.optimize.events import Standing
from agent.optimize.judge import WHOLE, Allowance, Confirmation, ProfileResult
from agent.optimize.judging import EndOfRecordError
from agent.optimize.proposers import Proposer, Spending
from agent.optimize.record import Record
from judge.progress import Say
from kb.errors import InvalidInputError, KbError

_CUT = "record"


@dataclass(eq=False)
class ReplayJudge:
    """A judge that knows the answers."""

    record: Record
    """Of the run that is repeated (`run.read_run`)."""
    slots: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.record.standing is None:
            raise InvalidInputError(
                "the recorded run never evaluated its start: there is nothing to replay"
            )
        self._standing = self.record.standing
        self._outcomes = {
            (judged.id, judged.outcome.attempts): judged.outcome
            for round_ in self.record.rounds.values()
            for judged in round_.judged.values()
        }

    def judge_start(self, kernel: Proposal | None, say: Say) -> Standing:
        """As recorded."""
        del kernel, say
        return self._standing

    def unmeasured_start(self, kernel: Proposal | None) -> Standing:
        """As recorded."""
        del kernel
        assert self.record.prepared is not None
        return self.record.prepared

    def judge(self, candidate: Candidate, leader: Judged, attempt: int, say: Say) -> Outcome:
        """As recorded.

        Raises
        ------
        EndOfRecordError
            The recorded run did not judge it.
        """
        del leader, say
        outcome = self._outcomes.get((candidate.id, attempt))
        if outcome is not None:
            return outcome
        stopped = self.record.stopped
        if stopped is not None:
            last = self.record.rounds[max(self.record.rounds)]
            if any(other.id == candidate.id for other in last.candidates):
                raise EndOfRecordError(stopped.reason, stopped.detail)
        raise EndOfRecordError(_CUT, f"the recorded run did not judge {candidate.id}")

    def profile(self, candidate: Candidate, say: Say) -> ProfileResult:
        """As recorded."""
        del say
        event = self.record.profiles.get(candidate.id)
        if event is None:
            return ProfileResult(None, ("not profiled in the recorded run",))
        return ProfileResult(event.metrics, event.notes, event.gpu_seconds)

    def confirm(
        self, best: Judged, start: Judged, say: Say, allowance: Allowance = WHOLE
    ) -> Confirmation:
        """As recorded.

        Raises
        ------
        KbError
            The recorded run did not come to it.
        """
        del start, say, allowance
        event = self.record.confirmed.get(best.id)
        judged = self._outcomes.get((best.id, 1))
        if event is None and judged is not None and not judged.timed:
            return Confirmation(judged, {})  # in the last session, and not right
        if event is None:
            raise KbError(f"the recorded run did not confirm {best.id}")
        return Confirmation(event.judged.outcome, event.baselines, event.notes)

    def cancel(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class ReplayAdvisor:
    """Gives the recorded diagnosis and context of each round."""

    record: Record

    def advise(self, leader: Judged, round_: int, shown_ids: Collection[str]) -> Advice:
        """As recorded; nothing where the record has another leader by then."""
        del shown_ids
        recorded = self.record.rounds.get(round_)
        advised = recorded.advised if recorded is not None else None
        if advised is None or advised.leader != leader.id:
            return Advice(None, Context(), ("the record has no advice for this leader",))
        return Advice(advised.diagnosis, advised.context, advised.notes)


class ReplayProposer(Proposer):
    """Gives the recorded proposals, repairs and spending of the proposer with this name."""

    def __init__(self, name: str, record: Record) -> None:
        self.name = name
        self._record = record

    def propose(self, state: SearchState) -> Sequence[Proposal]:
        """The proposals of this round, as recorded.

        Raises
        ------
        KbError
            It failed in this round.
        """
        recorded = self._record.rounds.get(state.round)
        if recorded is None or recorded.proposed is None:
            return []
        proposed = recorded.proposed
        self.notes = proposed.notes.get(self.name, ())
        self._spent += proposed.spent.get(self.name, Spending())
        if self.name in proposed.failures:
            raise KbError(proposed.failures[self.name])
        candidates = [*proposed.candidates, *(judged.candidate for judged in proposed.dropped)]
        # One source may have been offered twice, as two families: the first of them was judged.
        by_id: dict[str, list[Candidate]] = {}
        for candidate in candidates:
            if candidate.proposer == self.name:
                by_id.setdefault(candidate.id, []).append(candidate)
        # What was above the round's limit is not known, and was not judged.
        offered = (
            by_id[id_].pop(0) for id_ in proposed.offered.get(self.name, ()) if by_id.get(id_)
        )
        return [candidate.proposal for candidate in offered]

    def repair(self, proposal: Proposal, failure: Outcome) -> Proposal | None:
        """The recorded repair of this failure, or None."""
        for round_ in self._record.rounds.values():
            for repaired in round_.repaired.values():
                is_same = repaired.failed == failure.candidate
                if is_same and proposal.proposer == self.name:
                    self._spent += repaired.spent.get(self.name, Spending())
                    return repaired.candidate.proposal if repaired.candidate else None
        return None
