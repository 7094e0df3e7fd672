"""The state that a run's events add up to. Resume, replay and reports all read it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile

from agent.optimize import events
from agent.optimize.candidate import Baseline, Candidate, Judged
from agent.optimize.dedupe import digest
from agent.optimize.proposers import Spending


@dataclass(slots=True)
class Round:
    """One round, possibly unfinished."""

    number: int
    advised: events.Advised | None = None
    proposed: events.Proposed | None = None
    judged: dict[tuple[int, int], Judged] = field(default_factory=dict)
    """Result by (position of the proposal, attempt)."""
    repaired: dict[tuple[int, int], events.Repaired] = field(default_factory=dict)
    """Repair by (position, failed attempt)."""
    reflected: events.Reflected | None = None
    closed: events.Closed | None = None

    @property
    def candidates(self) -> list[Candidate]:
        """The proposals and their repairs, judged or waiting."""
        proposed = self.proposed.candidates if self.proposed is not None else ()
        return [*proposed, *(fix.candidate for fix in self.repaired.values() if fix.candidate)]

    def in_order(self) -> list[Judged]:
        """The judged candidates, sorted by position and attempt."""
        return [judged for _, judged in sorted(self.judged.items(), key=lambda item: item[0])]


@dataclass(slots=True)
class Record:
    """The fold of a journal."""

    standing: events.Standing | None = None
    prepared: events.Standing | None = None
    """The start before it was measured, if the run began with planning."""
    rounds: dict[int, Round] = field(default_factory=dict)
    profiles: dict[str, events.Profiled] = field(default_factory=dict)
    confirmed: dict[str, events.Confirmed] = field(default_factory=dict)
    """Results of final sessions, by candidate."""
    stopped: events.Stopped | None = None
    """None while the run goes on."""
    fresh_from: int = 0
    """Number of closed rounds when an ended run was resumed; these no longer count as fruitless."""
    resumed_after: int = 0
    """Last round with proposals when the run was last resumed."""
    wall: float = 0.0
    started_wall: float = 0.0
    """Wall time at which the start was judged, in seconds."""
    spent: dict[str, Spending] = field(default_factory=dict)
    """By proposer."""
    judge_seconds: float = 0.0
    """GPU time of judging and profiling."""
    tried: dict[str, str] = field(default_factory=dict)
    """Id of the first candidate, by digest of its program."""

    @classmethod
    def of(cls, journal: Iterable[events.Event]) -> "Record":
        """The record of these events."""
        record = cls()
        for event in journal:
            record.add(event)
        return record

    def add(self, event: events.Event) -> None:  # noqa: PLR0912 (a branch for each event)
        """Apply one event."""
        self.wall = max(self.wall, event.wall)
        if isinstance(event, events.Continued):
            planned = (n for n, round_ in self.rounds.items() if round_.proposed is not None)
            self.resumed_after = max(planned, default=0)
        if isinstance(event, events.Continued) and self.stopped is not None:
            # It ended and was asked to go on: earlier rounds without gain do not end it again.
            self.fresh_from = len(self.closed)
        if not isinstance(event, events.Stopped):
            self.stopped = None
        match event:
            case events.Started():
                self.standing = event.standing
                self.started_wall = event.wall
                if not event.standing.measured:
                    self.prepared = event.standing
                self._add_judged(event.standing.start)
            case events.Profiled():
                self.profiles[event.candidate] = event
                self.judge_seconds += event.gpu_seconds
            case events.Advised():
                self.round(event.round).advised = event
            case events.Proposed():
                self.round(event.round).proposed = event
                self._spend(event.spent)
            case events.WasJudged():
                key = (event.position, event.judged.outcome.attempts)
                self.round(event.round).judged[key] = event.judged
                self._add_judged(event.judged)
            case events.Repaired():
                attempt = self._attempt(event)
                self.round(event.round).repaired[event.position, attempt] = event
                self._spend(event.spent)
            case events.Reflected():
                self.round(event.round).reflected = event
                self._spend(event.spent)
            case events.Closed():
                self.round(event.round).closed = event
            case events.Confirmed():
                self.confirmed[event.judged.id] = event
                self.judge_seconds += event.judged.outcome.gpu_seconds
            case events.Stopped():
                self.stopped = event

    def round(self, number: int) -> Round:
        """The round of this number; an empty one where nothing is known of it."""
        return self.rounds.setdefault(number, Round(number))

    @property
    def _by_number(self) -> list[Round]:
        return [round_ for _, round_ in sorted(self.rounds.items())]

    @property
    def start(self) -> Judged:
        """The start, with its profile. There must be a standing."""
        assert self.standing is not None
        return self._updated(self.standing.start)

    @property
    def history(self) -> tuple[Judged, ...]:
        """All that was judged after the start, in order of round, position and attempt."""
        return tuple(
            self._updated(judged) for round_ in self._by_number for judged in round_.in_order()
        )

    @property
    def closed(self) -> list[events.Closed]:
        """The rounds' decisions so far."""
        return [round_.closed for round_ in self._by_number if round_.closed is not None]

    @property
    def leader(self) -> Judged:
        """The best after the last closed round, of what was not refuted since."""
        closed = self.closed
        leader = self.find(closed[-1].leader) if closed else self.start
        measured = self.standing is None or self.standing.measured
        if leader.outcome.right or not measured:
            return leader
        number = closed[-1].round if closed else 0
        timed = [self.start, *(item for item in self.history if item.candidate.round <= number)]
        timed = [judged for judged in timed if judged.outcome.timed]
        return min(timed, key=lambda judged: (judged.outcome.median_ms or 0.0, judged.id))

    @property
    def best(self) -> Judged:
        """What the run returns: the leader, unless a last evaluation beside the start shows that
        it is no faster than that beyond the noise."""
        leader = self.leader
        confirmed = self.confirmed.get(leader.id)
        over = confirmed.judged.outcome.over("start") if confirmed is not None else None
        if over is not None and not (over.significant and over.ratio > 1):
            return self.start
        return leader

    @property
    def beam(self) -> tuple[Judged, ...]:
        """The survivors of the last closed round."""
        closed, leader = self.closed, self.leader
        members = [self.find(id_) for id_ in closed[-1].beam] if closed else []
        return (leader, *(item for item in members if item.outcome.right and item.id != leader.id))

    @property
    def retired(self) -> frozenset[str]:
        """Families that were retired."""
        closed = self.closed
        return frozenset(closed[-1].retired) if closed else frozenset()

    @property
    def crossed_pairs(self) -> frozenset[frozenset[str]]:
        """Pairs that were offered for combination."""
        proposals = (round_.proposed for round_ in self.rounds.values())
        return frozenset(frozenset(item.crossover) for item in proposals if item and item.crossover)

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of reflection, in order."""
        reflected = (round_.reflected for round_ in self._by_number if round_.reflected is not None)
        return tuple(note for event in reflected for note in event.notes)

    @property
    def shown_chunks(self) -> tuple[str, ...]:
        """Ids of chunks, and slugs, that contexts have shown."""
        advised = (round_.advised for round_ in self._by_number if round_.advised is not None)
        return tuple(dict.fromkeys(chunk for event in advised for chunk in event.context.chunks))

    @property
    def total(self) -> Spending:
        """Resources used by all proposers."""
        return sum(self.spent.values(), Spending())

    @property
    def gpu_seconds(self) -> float:
        """GPU seconds of the judge and of the proposers."""
        return self.judge_seconds + self.total.gpu_seconds

    @property
    def baseline_seconds(self) -> float:
        """How long compiling and tuning baselines took; in no GPU time."""
        started = self.standing.baseline_seconds if self.standing is not None else 0.0
        return started + sum(confirmed.baseline_seconds for confirmed in self.confirmed.values())

    @property
    def baselines(self) -> dict[str, Baseline]:
        """The latest times of the start and the problem's own forms."""
        times = dict(self.standing.baselines) if self.standing else {}
        for confirmed in self.confirmed.values():
            times |= confirmed.baselines
        return times

    def find(self, candidate: str) -> Judged:
        """A candidate by id.

        Raises
        ------
        KeyError
            It was not judged.
        """
        if self.standing is not None and self.standing.start.id == candidate:
            return self.start
        for judged in self.history:
            if judged.id == candidate:
                return judged
        raise KeyError(candidate)

    def rounds_without_gain(self, least_gain: float) -> int:
        """Number of latest rounds in a row with less than this gain."""
        latest = reversed(self.closed[self.fresh_from :])
        return len(list(takewhile(lambda event: event.gain < least_gain, latest)))

    def rounds_failed(self, proposer: str) -> int:
        """Number of latest rounds in a row in which this proposer failed. Rounds in which it was
        not asked, and rounds before the last resume, do not count."""
        number = 0
        for round_ in reversed(self._by_number):
            if round_.proposed is None or proposer not in round_.proposed.offered:
                continue
            if proposer not in round_.proposed.failures or round_.number <= self.resumed_after:
                break
            number += 1
        return number

    def candidates(self) -> Iterable[Candidate]:
        """Every candidate, judged or waiting. Each has a file."""
        if self.standing is not None:
            yield self.standing.start.candidate
        for round_ in self._by_number:
            yield from round_.candidates

    def _updated(self, judged: Judged) -> Judged:
        """The candidate, updated with later profiles and with a failed final session."""
        outcome = judged.outcome
        confirmed = self.confirmed.get(judged.id)
        if confirmed is not None and not confirmed.judged.outcome.right:
            outcome = confirmed.judged.outcome
        profiled = self.profiles.get(judged.id)
        if profiled is not None and profiled.metrics is not None:
            outcome = outcome.model_copy(update={"profile": profiled.metrics})
        if outcome is judged.outcome:
            return judged
        return judged.model_copy(update={"outcome": outcome})

    def _add_judged(self, judged: Judged) -> None:
        self.judge_seconds += judged.outcome.gpu_seconds
        program = digest(judged.candidate.source, judged.candidate.suffix)
        self.tried.setdefault(program, judged.id)

    def _spend(self, spent: dict[str, Spending]) -> None:
        for name, spending in spent.items():
            self.spent[name] = self.spent.get(name, Spending()) + spending

    def _attempt(self, event: events.Repaired) -> int:
        places = self.round(event.round).judged.items()
        return next(
            attempt
            for (position, attempt), judged in places
            if position == event.position and judged.id == event.failed
        )
