"""What a run's events add up to: the one account that a resume, a replay and a report read."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.optimize.candidate import Baseline, Candidate, Judged
from agent.optimize.dedupe import digest
from agent.optimize.events import (
    Advised,
    Closed,
    Confirmed,
    Event,
    Profiled,
    Proposed,
    Reflected,
    Repaired,
    Standing,
    Started,
    Stopped,
    WasJudged,
)
from agent.optimize.proposers import Spending


@dataclass(slots=True)
class Round:
    """One round as far as it came."""

    number: int
    advised: Advised | None = None
    proposed: Proposed | None = None
    judged: dict[tuple[int, int], Judged] = field(default_factory=dict)
    """(Position of the proposal, attempt) → what came of it."""
    repaired: dict[tuple[int, int], Repaired] = field(default_factory=dict)
    """(Position, attempt that failed) → its repair."""
    reflected: Reflected | None = None
    closed: Closed | None = None

    def in_order(self) -> list[Judged]:
        """What was judged, by position and attempt, in whatever order it came in."""
        return [judged for _, judged in sorted(self.judged.items(), key=lambda item: item[0])]


@dataclass(slots=True)
class Record:
    """The fold of a journal."""

    standing: Standing | None = None
    rounds: dict[int, Round] = field(default_factory=dict)
    profiles: dict[str, Profiled] = field(default_factory=dict)
    confirmed: Confirmed | None = None
    stopped: Stopped | None = None
    """None while the run goes on."""
    wall: float = 0.0
    spent: dict[str, Spending] = field(default_factory=dict)
    """By proposer."""
    judge_seconds: float = 0.0
    """GPU time of judging and profiling."""
    tried: dict[str, str] = field(default_factory=dict)
    """Digest of a program → id of the first candidate with it."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> "Record":
        """The record of these events."""
        record = cls()
        for event in events:
            record.add(event)
        return record

    def add(self, event: Event) -> None:
        """Take one more event into account."""
        self.wall = max(self.wall, event.wall)
        if not isinstance(event, Stopped | Confirmed):
            self.stopped = None
        match event:
            case Started():
                self.standing = event.standing
                self._count(event.standing.start)
            case Profiled():
                self.profiles[event.candidate] = event
                self.judge_seconds += event.gpu_seconds
            case Advised():
                self.round(event.round).advised = event
            case Proposed():
                self.round(event.round).proposed = event
                self._spend(event.spent)
            case WasJudged():
                place = (event.position, event.judged.outcome.attempts)
                self.round(event.round).judged[place] = event.judged
                self._count(event.judged)
            case Repaired():
                attempt = self._attempt(event)
                self.round(event.round).repaired[event.position, attempt] = event
                self._spend(event.spent)
            case Reflected():
                self.round(event.round).reflected = event
                self._spend(event.spent)
            case Closed():
                self.round(event.round).closed = event
            case Confirmed():
                self.confirmed = event
                self.judge_seconds += event.judged.outcome.gpu_seconds
            case Stopped():
                self.stopped = event

    def round(self, number: int) -> Round:
        """The round of this number; an empty one where nothing is known of it."""
        return self.rounds.setdefault(number, Round(number))

    @property
    def start(self) -> Judged:
        """The start, with its profile. There must be a standing."""
        assert self.standing is not None
        return self.with_profile(self.standing.start)

    @property
    def history(self) -> tuple[Judged, ...]:
        """All that was judged after the start, in order of round, position and attempt."""
        return tuple(
            self.with_profile(judged)
            for _, each in sorted(self.rounds.items())
            for judged in each.in_order()
        )

    @property
    def closed(self) -> list[Closed]:
        """The rounds' decisions so far."""
        found = (each.closed for _, each in sorted(self.rounds.items()))
        return [each for each in found if each is not None]

    @property
    def leader(self) -> Judged:
        """The best after the last closed round."""
        closed = self.closed
        return self.find(closed[-1].leader) if closed else self.start

    @property
    def beam(self) -> tuple[Judged, ...]:
        """The survivors of the last closed round."""
        closed = self.closed
        return tuple(self.find(each) for each in closed[-1].beam) if closed else (self.start,)

    @property
    def retired(self) -> frozenset[str]:
        """Families that were given up."""
        closed = self.closed
        return frozenset(closed[-1].retired) if closed else frozenset()

    @property
    def crossed(self) -> frozenset[frozenset[str]]:
        """Pairs that were offered for combination."""
        proposed = (each.proposed for each in self.rounds.values())
        return frozenset(frozenset(p.crossover) for p in proposed if p and p.crossover)

    @property
    def notes(self) -> tuple[str, ...]:
        """What reflection said, in order."""
        found = (each.reflected for _, each in sorted(self.rounds.items()))
        return tuple(note for each in found if each is not None for note in each.notes)

    @property
    def shown(self) -> tuple[str, ...]:
        """Ids of chunks, and slugs, that contexts have shown."""
        advised = (each.advised for _, each in sorted(self.rounds.items()))
        return tuple(dict.fromkeys(c for a in advised if a is not None for c in a.context.chunks))

    @property
    def total(self) -> Spending:
        """Of all proposers."""
        return sum(self.spent.values(), Spending())

    @property
    def gpu_seconds(self) -> float:
        """Of judging and of proposers."""
        return self.judge_seconds + self.total.gpu_seconds

    @property
    def baselines(self) -> dict[str, Baseline]:
        """The latest times of the start and the problem's own forms."""
        known = dict(self.standing.baselines) if self.standing else {}
        return known | (self.confirmed.baselines if self.confirmed else {})

    def find(self, candidate: str) -> Judged:
        """A candidate by id.

        Raises
        ------
        KeyError
            It was not judged.
        """
        if self.standing is not None and self.standing.start.id == candidate:
            return self.start
        found = next((each for each in self.history if each.id == candidate), None)
        if found is None:
            raise KeyError(candidate)
        return found

    def with_profile(self, judged: Judged) -> Judged:
        """With the metrics that were measured since."""
        profiled = self.profiles.get(judged.id)
        if profiled is None or profiled.metrics is None:
            return judged
        outcome = judged.outcome.model_copy(update={"profile": profiled.metrics})
        return judged.model_copy(update={"outcome": outcome})

    def fruitless(self, least_gain: float) -> int:
        """How many of the last rounds in a row brought less than this gain."""
        number = 0
        for each in reversed(self.closed):
            if each.gain >= least_gain:
                break
            number += 1
        return number

    def failing(self, proposer: str) -> int:
        """In how many of the last rounds in a row a proposer failed to propose."""
        number = 0
        for _, each in sorted(self.rounds.items(), reverse=True):
            if each.proposed is None:
                continue
            if proposer not in each.proposed.failures:
                break
            number += 1
        return number

    def ranking(self) -> tuple[Judged, ...]:
        """All that is right, the leader first, then by time."""
        everything = [self.start, *self.history]
        timed = [each for each in everything if each.outcome.timed and each.id != self.leader.id]
        key = sorted(timed, key=lambda each: (each.outcome.median_ms or 0.0, each.id))
        return (self.leader, *key)

    def candidates(self) -> Iterable[Candidate]:
        """Every candidate with a file: judged, or about to be."""
        if self.standing is not None:
            yield self.standing.start.candidate
        for _, each in sorted(self.rounds.items()):
            if each.proposed is not None:
                yield from each.proposed.candidates
            yield from (fix.candidate for fix in each.repaired.values() if fix.candidate)

    def _count(self, judged: Judged) -> None:
        self.judge_seconds += judged.outcome.gpu_seconds
        program = digest(judged.candidate.source, judged.candidate.suffix)
        self.tried.setdefault(program, judged.id)

    def _spend(self, spent: dict[str, Spending]) -> None:
        for name, each in spent.items():
            self.spent[name] = self.spent.get(name, Spending()) + each

    def _attempt(self, event: Repaired) -> int:
        places = self.round(event.round).judged.items()
        return next(
            attempt
            for (position, attempt), judged in places
            if position == event.position and judged.id == event.failed
        )
