"""Judges the candidates of one round, as many at once as there are cards, with repairs."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final, NamedTuple

from agent.optimize.candidate import Candidate, Judged, Outcome, Stage
from agent.optimize.dedupe import digest
from agent.optimize.events import Confirmed, Event, Repaired, WasJudged
from agent.optimize.files import RunFolderError
from agent.optimize.judge import Allowance, Confirmation, Judge
from agent.optimize.offers import add_spending, candidate_of, unreadable_outcome
from agent.optimize.outcomes import describe, failure
from agent.optimize.proposers import Proposer, Spending
from agent.optimize.record import Record, Round
from agent.pause import PausedError
from judge.progress import Say
from kb.errors import KbError

# So many failures of the judge itself in a row are no candidate's fault.
MAX_FAILURES: Final = 4
# On an H200 the judge's times were within 2.3 % of 32 quick timings, and had the same order for all
# 19 pairs of one problem's that were further apart than this.
_BEHIND: Final = 1.01


class EndOfRecordError(Exception):
    """A judge that replays a record has come to its end; `args` are reason and detail."""


class JudgeFailsError(KbError):
    """The judge failed again and again."""


def _quick_key(candidate: Candidate) -> tuple[bool, float]:
    quick = candidate.quick_ms
    return quick is None, quick or 0.0


class _Attempt(NamedTuple):
    """The next attempt of a proposal."""

    candidate: Candidate
    attempt: int


@dataclass(eq=False)
class RoundJudging:
    """Judges all proposals of a round, and has failed ones repaired within the limit.

    It reads the record before each step, so it can resume a round that was interrupted anywhere.
    """

    judge: Judge
    proposers: Mapping[str, Proposer]
    """By name; they repair."""
    record: Record
    """What is known, kept up to date by `append`."""
    round: Round
    leader: Judged
    """What candidates are compared with."""
    repairs: int
    """How often at most."""
    append: Callable[[type[Event], Mapping[str, object]], None]
    """Records an event, given its fields beside time."""
    judge_all: bool
    """Judge also what quick timings say is slower than one that is right: a model learns from it,
    and may combine the two."""
    may_go_on: Callable[[], bool]
    """Asked before each judging and repair; False leaves the rest out."""
    reporter: Callable[[str], Say]
    """Makes the callback for a candidate's progress, given its id."""

    def __post_init__(self) -> None:
        assert self.round.proposed is not None
        self._proposed = self.round.proposed.candidates
        self._failures = 0
        self._paused: PausedError | None = None

    def run_last(self, allowance: Callable[[], Allowance]) -> None:
        """Judge proposals in full, beside all baselines, until one is right. This serves as the
        last session of a run that has time for one more evaluation. The fastest in quick timings
        comes first, whoever proposed it; proposals without quick timings come last. `allowance`
        says what each may take.
        """
        for position in self._by_quick_times():
            candidate = self._proposed[position]
            if (position, 1) in self.round.judged:
                continue
            confirmation: Confirmation | None = None
            outcome = unreadable_outcome(candidate, 1)
            if outcome is None:
                placeholder = failure(candidate, Stage.TIME, "it is not judged yet")
                unjudged = Judged(candidate=candidate, outcome=placeholder)
                say = self.reporter(candidate.id)
                try:
                    confirmation = self.judge.confirm(unjudged, self.record.start, say, allowance())
                    outcome = confirmation.outcome
                except PausedError:
                    raise
                except KbError as error:
                    outcome = failure(candidate, Stage.TIME, describe(error))
            if confirmation is None or not outcome.timed:
                self._record_judged(position, candidate, outcome)
                if not self.may_go_on():
                    return
                continue
            outcome = outcome.same_over("start", "leader")  # see `budget.last_chance`
            # One evaluation is uncounted once.
            uncounted = outcome.model_copy(update={"gpu_seconds": 0.0})
            self._record_judged(position, candidate, uncounted)
            self.append(Confirmed, confirmation._replace(outcome=outcome).fields(candidate))
            return

    def run(self) -> bool:
        """Judge the remaining proposals. Returns whether all were judged.

        Raises
        ------
        JudgeFailsError
            The judge itself failed `MAX_FAILURES` times in a row.
        EndOfRecordError
            A replayed record has no more.
        RunFolderError
            The folder cannot be written.
        PausedError
            A repair waits for its proposer; all other proposals were judged.
        """
        positions = range(len(self._proposed)) if self.judge_all else self._by_quick_times()
        # Finished proposals, and those that wait for a repair, need no judge.
        waiting = [i for i in positions if not self.may_go_on() or self._step(i) is not None]
        if not waiting and self._paused is not None:
            raise self._paused
        running: dict[Future[Outcome], tuple[int, _Attempt]] = {}
        slots = self.judge.slots if waiting else 1
        executor = ThreadPoolExecutor(max_workers=slots, thread_name_prefix="judge")
        try:
            while waiting or running:
                while waiting and len(running) < slots and self.may_go_on():
                    position = waiting.pop(0)
                    step = self._step(position)
                    if step is not None:
                        running[executor.submit(self._judge_one, step)] = (position, step)
                if not running:
                    if waiting:
                        return False
                    continue
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    position, step = running.pop(future)
                    self._finish(position, step, future.result())
                    waiting.insert(0, position)
        except BaseException:
            if running:
                self.judge.cancel()
            raise
        finally:
            executor.shutdown(wait=True, cancel_futures=True)
        if self._paused is not None:
            raise self._paused
        return True

    def _by_quick_times(self) -> Sequence[int]:
        """Positions of the proposals, the fastest in quick timings first."""
        return sorted(range(len(self._proposed)), key=lambda i: _quick_key(self._proposed[i]))

    def _judge_one(self, step: _Attempt) -> Outcome:
        """Judge one candidate, in a thread. Only errors that end the run are raised."""
        outcome = unreadable_outcome(step.candidate, step.attempt)
        if outcome is not None:
            return outcome
        try:
            return self.judge.judge(
                step.candidate, self.leader, step.attempt, self.reporter(step.candidate.id)
            )
        except (RunFolderError, EndOfRecordError, PausedError):
            raise
        except Exception as error:
            return failure(step.candidate, Stage.TIME, describe(error), step.attempt)

    def _slower_outcome(self, candidate: Candidate, attempt: int) -> Outcome | None:
        """The outcome of a proposal that quick timings say is behind one that is right."""
        quick = candidate.quick_ms
        if self.judge_all or quick is None:
            return None
        timed = [
            (judged.candidate.quick_ms, judged.id)
            for judged in (self.leader, *self.round.in_order())
            if judged.outcome.timed and judged.candidate.quick_ms is not None
        ]
        best = min(timed, default=None)
        if best is None or quick <= _BEHIND * best[0]:
            return None
        reason = f"{quick:.4g} ms in quick timings, where {best[1]} took {best[0]:.4g} ms"
        return failure(candidate, Stage.SLOWER, reason, attempt)

    def _record_judged(self, position: int, candidate: Candidate, outcome: Outcome) -> None:
        judged = Judged(candidate=candidate, outcome=outcome)
        fields = {"round": self.round.number, "position": position}
        self.append(WasJudged, {**fields, "judged": judged})

    def _finish(self, position: int, step: _Attempt, outcome: Outcome) -> None:
        self._record_judged(position, step.candidate, outcome)
        judge_failed = outcome.stage is Stage.TIME and outcome.verdict is None
        self._failures = self._failures + 1 if judge_failed else 0
        if self._failures >= MAX_FAILURES:
            raise JudgeFailsError(f"{self._failures} times in a row: {outcome.reasons[0]}")

    def _step(self, position: int) -> _Attempt | None:
        """As `_next_try`; None also where a repair has to wait, which `run` raises at its end."""
        try:
            return self._next_try(position)
        except PausedError as paused:
            self._paused = paused
            return None

    def _next_try(self, position: int) -> _Attempt | None:
        """The next attempt of a proposal; None once the proposal is finished."""
        round_ = self.round
        candidate, attempt = self._proposed[position], 1
        while (judged := round_.judged.get((position, attempt))) is not None:
            if not judged.outcome.repairable or attempt > self.repairs:
                return None
            if (position, attempt) not in round_.repaired:
                self._repair(position, judged)
            repaired = round_.repaired[position, attempt].candidate
            if repaired is None:
                return None
            candidate, attempt = repaired, attempt + 1
        if (slower := self._slower_outcome(candidate, attempt)) is not None:
            self._record_judged(position, candidate, slower)
            return None
        return _Attempt(candidate, attempt)

    def _find_duplicate(self, candidate: Candidate) -> str | None:
        """The candidate that was the same program, judged or waiting to be."""
        program = digest(candidate.source, candidate.suffix)
        ids = {digest(other.source, other.suffix): other.id for other in self.round.candidates}
        return self.record.tried.get(program) or ids.get(program)

    def _repair(self, position: int, failed: Judged) -> None:
        proposer = self.proposers.get(failed.candidate.proposer)
        spent: dict[str, Spending] = {}
        candidate: Candidate | None = None
        why = ""
        if proposer is not None:
            before = proposer.spent
            try:
                proposal = proposer.repair(failed.candidate.proposal, failed.outcome)
            except PausedError:
                raise
            except Exception as error:
                proposal, why = None, describe(error)
            add_spending(spent, proposer, before)
            if proposal is not None:
                candidate = candidate_of(proposal, self.round.number, repairs=failed.id)
                duplicate = self._find_duplicate(candidate)
                if duplicate is not None:
                    candidate, why = None, f"the repair is the same program as {duplicate}"
        fields = {"round": self.round.number, "position": position, "failed": failed.id}
        self.append(Repaired, {**fields, "candidate": candidate, "why": why, "spent": spent})
