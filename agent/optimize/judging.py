"""Judges the candidates of one round, as many at once as there are cards, with repairs."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final

from agent.optimize.candidate import Candidate, Judged, Outcome, Stage
from agent.optimize.dedupe import digest
from agent.optimize.events import Confirmed, Event, Repaired, WasJudged
from agent.optimize.files import RunFolderError
from agent.optimize.judge import Confirmation, Judge
from agent.optimize.offers import add_spending, candidate_of, unreadable
from agent.optimize.outcomes import describe, failure
from agent.optimize.proposers import Proposer, Spending
from agent.optimize.record import Record, Round
from agent.pause import PausedError
from judge.progress import Say
from kb.errors import KbError

# So many failures of the judge itself in a row are no candidate's fault.
MOST_LOST: Final = 4
# How soon Ctrl-C is noticed on systems where waiting for a lock cannot be interrupted.
_POLL_S: Final = 0.5


class EndOfRecordError(Exception):
    """A judge that replays a record has come to its end; `args` are reason and detail."""


class JudgeFailsError(KbError):
    """The judge failed again and again."""


@dataclass(frozen=True, slots=True)
class _Next:
    """What a proposal's next attempt is."""

    candidate: Candidate
    attempt: int


def judge_last(
    judge: Judge,
    record: Record,
    round_: Round,
    *,
    short: bool,
    append: Callable[[type[Event], Mapping[str, object]], None],
    may_go_on: Callable[[], bool],
    teller: Callable[[str], Say],
) -> None:
    """Judge proposals in full, beside all baselines, until one is right: a run that has time for
    one more evaluation has had its last session by that. The fastest in quick timings, whoever
    proposed it, has the first turn; what was not timed has the last.

    Parameters are those of `RoundJudging`; `short` as of `Judge.confirm`.
    """
    assert round_.proposed is not None
    start = record.start
    for position, candidate in sorted(enumerate(round_.proposed.candidates), key=_quickest):
        if (position, 1) in round_.judged:
            continue
        found: Confirmation | None = None
        outcome = unreadable(candidate, 1)
        if outcome is None:
            yet = failure(candidate, Stage.TIME, "it is not judged yet")
            hopeful = Judged(candidate=candidate, outcome=yet)
            try:
                found = judge.confirm(hopeful, start, teller(candidate.id), short=short)
                outcome = found.outcome
            except PausedError:
                raise
            except KbError as error:
                outcome = failure(candidate, Stage.TIME, describe(error))
        place = {"round": round_.number, "position": position}
        if found is None or not outcome.timed:
            append(WasJudged, place | {"judged": Judged(candidate=candidate, outcome=outcome)})
            if not may_go_on():
                return
            continue
        outcome = outcome.same_over("start", "leader")  # see `budget.last_chance`
        # One evaluation is counted once.
        free = outcome.model_copy(update={"gpu_seconds": 0.0})
        append(WasJudged, place | {"judged": Judged(candidate=candidate, outcome=free)})
        append(Confirmed, found._replace(outcome=outcome).fields(candidate))
        return


def _quickest(place: tuple[int, Candidate]) -> tuple[bool, float]:
    quick = place[1].quick_ms
    return quick is None, quick or 0.0


class RoundJudging:
    """Takes a round to the point where each proposal is judged, and repaired as often as it may be.

    It goes by what is recorded, so it takes up a round that was interrupted anywhere.

    Parameters
    ----------
    judge, proposers
        Who judges, and who repairs, by name.
    record, round_
        What is known, kept up to date by `append`.
    leader
        What candidates are compared with.
    repairs
        How often at most.
    append
        Records an event, given its fields beside time.
    may_go_on
        Asked before each judging and repair; False leaves the rest out.
    teller
        What takes the progress of a candidate, by its id.
    """

    def __init__(
        self,
        judge: Judge,
        proposers: Mapping[str, Proposer],
        record: Record,
        round_: Round,
        leader: Judged,
        *,
        repairs: int,
        append: Callable[[type[Event], Mapping[str, object]], None],
        may_go_on: Callable[[], bool],
        teller: Callable[[str], Say],
    ) -> None:
        self._judge = judge
        self._proposers = proposers
        self._record = record
        self._round = round_
        self._leader = leader
        self._repairs = repairs
        self._append = append
        self._may_go_on = may_go_on
        self._teller = teller
        self._lost = 0
        self._paused: PausedError | None = None

    def run(self) -> bool:
        """Judge what is left to judge. Returns whether all was done.

        Raises
        ------
        JudgeFailsError
            The judge itself failed `MOST_LOST` times in a row.
        EndOfRecordError
            A replayed record has no more.
        RunFolderError
            The folder cannot be written.
        PausedError
            A repair waits for its proposer; all else was judged.
        """
        assert self._round.proposed is not None
        every = range(len(self._round.proposed.candidates))
        # What is through, or waits for a repair, needs no judge.
        waiting = [each for each in every if not self._may_go_on() or self._step(each) is not None]
        if not waiting and self._paused is not None:
            raise self._paused
        running: dict[Future[Outcome], tuple[int, _Next]] = {}
        slots = self._judge.slots if waiting else 1
        executor = ThreadPoolExecutor(max_workers=slots, thread_name_prefix="judge")
        try:
            while waiting or running:
                while waiting and len(running) < slots and self._may_go_on():
                    position = waiting.pop(0)
                    step = self._step(position)
                    if step is not None:
                        running[executor.submit(self._one, step)] = (position, step)
                if not running:
                    if waiting:
                        return False
                    continue
                for done in self._wait(running):
                    position, step = running.pop(done)
                    self._took(position, step, done.result())
                    waiting.insert(0, position)
        except BaseException:
            if running:
                self._judge.cancel()
            raise
        finally:
            executor.shutdown(wait=True, cancel_futures=True)
        if self._paused is not None:
            raise self._paused
        return True

    @staticmethod
    def _wait(running: Iterable[Future[Outcome]]) -> Iterable[Future[Outcome]]:
        while True:
            done, _ = wait(running, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            if done:
                return done

    def _one(self, step: _Next) -> Outcome:
        """One candidate, in a thread. Nothing but the run's own ends comes out as an error."""
        bad = unreadable(step.candidate, step.attempt)
        if bad is not None:
            return bad
        try:
            return self._judge.judge(
                step.candidate, self._leader, step.attempt, self._teller(step.candidate.id)
            )
        except (RunFolderError, EndOfRecordError, PausedError):
            raise
        except Exception as error:
            return failure(step.candidate, Stage.TIME, describe(error), step.attempt)

    def _took(self, position: int, step: _Next, outcome: Outcome) -> None:
        judged = Judged(candidate=step.candidate, outcome=outcome)
        self._append(
            WasJudged, {"round": self._round.number, "position": position, "judged": judged}
        )
        lost = outcome.stage is Stage.TIME and outcome.verdict is None
        self._lost = self._lost + 1 if lost else 0
        if self._lost >= MOST_LOST:
            raise JudgeFailsError(f"{self._lost} times in a row: {outcome.reasons[0]}")

    def _step(self, position: int) -> _Next | None:
        """As `_next`; None also where a repair has to wait, which `run` raises at its end."""
        try:
            return self._next(position)
        except PausedError as paused:
            self._paused = paused
            return None

    def _next(self, position: int) -> _Next | None:
        """The next attempt of a proposal; None once the proposal is finished."""
        each = self._round
        assert each.proposed is not None
        candidate, attempt = each.proposed.candidates[position], 1
        while (judged := each.judged.get((position, attempt))) is not None:
            if not judged.outcome.repairable or attempt > self._repairs:
                return None
            if (position, attempt) not in each.repaired:
                self._repair(position, judged)
            repaired = each.repaired[position, attempt].candidate
            if repaired is None:
                return None
            candidate, attempt = repaired, attempt + 1
        return _Next(candidate, attempt)

    def _known(self, candidate: Candidate) -> str | None:
        """The candidate that was the same program, judged or waiting to be."""
        assert self._round.proposed is not None
        repairs = (each.candidate for each in self._round.repaired.values())
        waiting = [*self._round.proposed.candidates, *(each for each in repairs if each)]
        program = digest(candidate.source, candidate.suffix)
        known = {digest(each.source, each.suffix): each.id for each in waiting}
        return self._record.tried.get(program) or known.get(program)

    def _repair(self, position: int, failed: Judged) -> None:
        proposer = self._proposers.get(failed.candidate.proposer)
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
                candidate = candidate_of(proposal, self._round.number, repairs=failed.id)
                known = self._known(candidate)
                if known is not None:
                    candidate, why = None, f"the repair is the same program as {known}"
        self._append(
            Repaired,
            {
                "round": self._round.number,
                "position": position,
                "failed": failed.id,
                "candidate": candidate,
                "why": why,
                "spent": spent,
            },
        )
