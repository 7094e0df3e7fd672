"""The search: propose, judge, keep a beam, repeat; each step is recorded before the next one.

`Search` holds no state of its own: whatever it decides follows from the record, so a run that was
killed goes on where it was, and a record that is replayed comes to the same decisions.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from agent.optimize import beam as beams
from agent.optimize import budget, events
from agent.optimize.advice import Advisor
from agent.optimize.answer import keep_answer, keep_best
from agent.optimize.candidate import Judged, SearchState
from agent.optimize.judge import Allowance, Judge
from agent.optimize.judging import EndOfRecordError, JudgeFailsError, RoundJudging
from agent.optimize.offers import add_spending, collect
from agent.optimize.outcomes import describe
from agent.optimize.progress import Progress, Silent
from agent.optimize.proposers import Proposer, Spending
from agent.optimize.record import Round
from agent.optimize.run import RunFolder, now
from agent.optimize.starting import require_right
from agent.optimize.summary import Summary, summarise
from agent.pause import PausedError
from judge.progress import Say
from kb.errors import KbError

# A proposer that failed in so many rounds in a row is not asked again.
MAX_FAILURES: Final = 2
# When the best does not hold in the last evaluation, the next ones have their chance.
_MAX_SESSIONS: Final = 3


@dataclass(eq=False)
class Search:
    """One run."""

    folder: RunFolder
    """New, or resumed."""
    judge: Judge
    advisor: Advisor
    proposers: Sequence[Proposer]
    """Their names differ."""
    progress: Progress | None = None
    clock: Callable[[], float] = time.monotonic
    """Seconds, for the wall-time limit."""

    def __post_init__(self) -> None:
        self._proposers = {proposer.name: proposer for proposer in self.proposers}
        self._progress = self.progress or Silent()
        self._started_at = self.clock()
        self._record = self.folder.record
        self._config = self.folder.config
        self._earlier_wall = self._record.wall

    @property
    def _wall(self) -> float:
        return self._earlier_wall + self.clock() - self._started_at

    def run(self) -> Summary:
        """Search until a limit is reached, and return the result.

        Raises
        ------
        KbError
            The start cannot be judged or is not right, or the run folder cannot be written.
        PausedError
            The next step needs something that is missing: a model's reply, a GPU.
        KeyboardInterrupt
            Ctrl-C. The run can be resumed after any of these.
        """
        try:
            if self._record.standing is not None:
                self._append(events.Continued, {"limits": self._config.limits})
            self._begin()
            reason, detail = self._search()
            detail = "; ".join(filter(None, (detail, self._confirm())))
            keep_answer(self.folder)
            self._profile(self._record.best)
            self._append(events.Stopped, {"reason": reason, "detail": detail})
        except BaseException as error:
            # A full disk cannot take this line either.
            with suppress(Exception):
                self._append(
                    events.Interrupted, {"detail": f"{type(error).__name__}: {error}"[:500]}
                )
            raise
        finally:
            self._close()
        return summarise(self._config, self._record, self.folder.root)

    def _begin(self) -> None:
        standing = self._record.standing
        if standing is None and self._config.plan_first:
            standing = self.judge.unmeasured_start(self._config.start)
            self._append(events.Started, {"standing": standing})
        if standing is None:
            self._measure()
        elif standing.measured:
            require_right(standing.start)
            keep_best(self.folder)

    def _measure(self) -> None:
        standing = self.judge.judge_start(self._config.start, self._reporter("start"))
        self._append(events.Started, {"standing": standing})
        require_right(standing.start)
        keep_best(self.folder)

    def _search(self) -> tuple[str, str]:
        """Run rounds until the search ends. Returns the reason and its detail."""
        while True:
            number = len(self._record.closed) + 1
            round_ = self._record.round(number)
            end = budget.stop_reason(self._record, self._config) if round_.advised is None else None
            end = end or self._limit_reached() or self._round(round_)
            if end is not None:
                return end

    def _round(self, round_: Round) -> tuple[str, str] | None:
        """Run one round, or the rest of it. Returns what ends the run, or None."""
        self._profile(self._record.leader)
        if round_.advised is None:
            self._advise(round_)
        state = self._prepare_state(round_)
        # A run that ended without proposals may be resumed with other proposers.
        if round_.proposed is None or not round_.proposed.candidates:
            self._propose(round_, state)
        if not self._standing.measured and round_.proposed and not round_.proposed.candidates:
            state = self._measure_late(round_)
            self._propose(round_, state)
        assert round_.proposed is not None
        if not round_.proposed.candidates:
            return budget.NO_PROPOSALS, budget.no_proposals_reason(self._record)
        if not self._standing.measured:
            state = self._measure_late(round_)
        end = self._judge_round(round_, state.leader)
        if round_.judged:
            # Judged candidates count, whatever ended the round.
            if end is None:
                self._profile(self._next_leader(round_))
                self._reflect(round_, state)
            self._close_round(round_)
        return end

    def _measure_late(self, round_: Round) -> SearchState:
        """The state of a round that was planned before the start was measured."""
        self._measure()
        self._profile(self._record.leader)
        return self._prepare_state(round_)

    @property
    def _standing(self) -> events.Standing:
        assert self._record.standing is not None
        return self._record.standing

    def _prepare_state(self, round_: Round) -> SearchState:
        """The round's state, after all proposers received it."""
        config, record, standing = self._config, self._record, self._standing
        assert round_.advised is not None
        pair = None
        if config.strategy.crossover:
            pair = beams.crossover_pair(record.beam, record.history, record.crossed_pairs)
        state = SearchState.like(
            config,
            device=standing.devices[0] if standing.devices else "cpu",
            gpu=standing.gpu or config.gpu,
            architecture=standing.architecture or config.architecture,
            round=round_.number,
            width=config.strategy.width,
            branching=config.strategy.branching,
            beam=record.beam,
            leader=record.leader,
            start=record.start,
            crossover=pair,
            retired=record.retired,
            history=record.history,
            tried=frozenset(record.tried),
            baselines=record.baselines,
            floor=standing.floor,
            ceilings=standing.ceilings,
            diagnosis=round_.advised.diagnosis,
            context=round_.advised.context,
            notes=record.notes,
            versions=standing.versions or config.versions,
            seconds_left=budget.seconds_left(record, config, self._wall),
            wall_left=budget.wall_left(record, config, self._wall),
        )
        for proposer in self._proposers.values():
            proposer.attend(state)
        return state

    def _advise(self, round_: Round) -> None:
        leader = self._record.leader
        advice = self.advisor.advise(leader, round_.number, self._record.shown_chunks)
        fields = {"round": round_.number, "leader": leader.id}
        self._append(events.Advised, {**fields, **advice._asdict()})

    def _judge_round(self, round_: Round, leader: Judged) -> tuple[str, str] | None:
        asks_model = any(proposer.asks_model for proposer in self.proposers)
        last = budget.last_chance(
            self._record, self._config, round_, self._wall, asks_model=asks_model
        )
        judging = RoundJudging(
            self.judge,
            self._proposers,
            self._record,
            round_,
            leader,
            repairs=self._config.strategy.repairs,
            judge_all=asks_model,
            append=self._append,
            may_go_on=lambda: self._limit_reached(judging=not last) is None,
            reporter=self._reporter,
        )
        if last:
            judging.run_last(self._allowance)
            return self._limit_reached(judging=True)
        try:
            if not judging.run():
                return self._limit_reached(judging=True)
        except EndOfRecordError as error:
            return str(error.args[0]), str(error.args[1])
        except JudgeFailsError as error:
            return budget.JUDGE, str(error)
        return self._limit_reached()

    def _propose(self, round_: Round, state: SearchState) -> None:
        available = [
            proposer
            for name, proposer in self._proposers.items()
            if self._record.rounds_failed(name) < MAX_FAILURES
            # The others go by what is measured.
            and (self._standing.measured or proposer.asks_model)
        ]
        # A model starts from what the others reached, as long as there is a round for it.
        later = self._standing.measured and round_.number == 1 and self._config.limits.rounds > 1
        offers = collect(available, state, self._record.tried, models_later=later)
        pair = state.crossover
        crossover = (pair[0].id, pair[1].id) if pair else None
        self._append(
            events.Proposed, {"round": round_.number, "crossover": crossover, **vars(offers)}
        )

    def _next_leader(self, round_: Round) -> Judged:
        return beams.choose_leader(self._record.leader, round_.in_order())

    def _profile(self, judged: Judged) -> None:
        is_profiled = judged.id in self._record.profiles
        if is_profiled or not self._config.strategy.profiling or not judged.outcome.right:
            return
        result = self.judge.profile(judged.candidate, self._reporter(judged.id))
        self._append(events.Profiled, {"candidate": judged.id, **result._asdict()})

    def _reflect(self, round_: Round, state: SearchState) -> None:
        if round_.reflected is not None:
            return
        notes: list[str] = []
        spent: dict[str, Spending] = {}
        judged = [self._record.find(item.id) for item in round_.in_order()]
        for name, proposer in self._proposers.items() if self._config.strategy.reflection else ():
            before = proposer.spent
            try:
                notes += proposer.reflect(state, judged)
            except PausedError:
                raise
            except Exception as error:
                notes.append(f"{name} could not reflect: {describe(error)}")
            add_spending(spent, proposer, before)
        self._append(
            events.Reflected, {"round": round_.number, "notes": tuple(notes), "spent": spent}
        )

    def _close_round(self, round_: Round) -> None:
        record, strategy = self._record, self._config.strategy
        before, after = record.leader, self._next_leader(round_)
        candidates = [record.start, *record.history]
        retired = frozenset[str]()
        if strategy.retirement:
            retired = (record.retired | beams.stalled_families(candidates, after)) - {after.family}
        beam = beams.survivors(candidates, after, width=strategy.width, retired=retired)
        selection = {"beam": tuple(item.id for item in beam), "retired": tuple(sorted(retired))}
        change = {"leader": after.id, "gain": beams.gain(before, after)}
        self._append(events.Closed, {"round": round_.number, **change, **selection})
        keep_best(self.folder)

    def _confirm(self) -> str:
        """Time the best together with all contenders. If the start is the best, this is needed
        only for baselines without a time. Returns what went wrong, or an empty text."""
        if self._config.interpret or not self._config.strategy.confirm:
            return ""
        for _ in range(_MAX_SESSIONS):
            best, start = self._record.leader, self._record.start
            if best.id in self._record.confirmed or (best.id == start.id and self._baselines_timed):
                break
            try:
                say = self._reporter(best.id)
                result = self.judge.confirm(best, start, say, self._allowance())
            except PausedError:
                raise
            except KbError as error:
                return f"not confirmed: {error}"
            if best.id == start.id and not result.outcome.right:
                # There is nothing else to give back.
                return "the start was not right in the last session"
            self._append(events.Confirmed, result.fields(best.candidate))
        return ""

    @property
    def _baselines_timed(self) -> bool:
        """Whether all baselines of the start have a time."""
        return not self._config.baselines_last or self._record.baselines.keys() >= set(
            self._config.baselines
        )

    def _allowance(self) -> Allowance:
        return budget.allowance(self._record, self._config, self._wall)

    def _reporter(self, candidate: str) -> Say:
        return lambda progress: self._progress.working(candidate, progress.text)

    def _limit_reached(self, *, judging: bool = False) -> tuple[str, str] | None:
        return budget.limit_reached(self._record, self._config, self._wall, judging=judging)

    def _append(self, kind: type[events.Event], fields: Mapping[str, object]) -> None:
        event = kind.model_validate({"wall": round(self._wall, 3), "at": now()} | dict(fields))
        self.folder.append(event)
        self._progress.event(event)

    def _close(self) -> None:
        for proposer in self._proposers.values():
            with suppress(Exception):
                proposer.close()
        self.judge.close()
