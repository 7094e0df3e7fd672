"""The real search on a measured landscape: a judge that looks times up, a proposer without a model.

A candidate's source names its kernel and its point, so that the search's own rules (duplicates,
beam, families, crossover, retirement, budget) see kernel files.
"""

import ast
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.evaluate.result import Ratio, Verdict
from agent.evaluate.statistics import repeatability
from agent.optimize.advice import Advice
from agent.optimize.candidate import (
    Baseline,
    Candidate,
    Context,
    Judged,
    Outcome,
    ProblemInfo,
    Proposal,
    SearchState,
    Stage,
)
from agent.optimize.config import Limits, RunConfig, Strategy
from agent.optimize.dedupe import digest
from agent.optimize.events import Event, Standing
from agent.optimize.judge import Confirmation, Profiled
from agent.optimize.loop import Search
from agent.optimize.outcomes import failure
from agent.optimize.record import Record
from agent.optimize.starting import candidate_of

Place = tuple[int, tuple[Any, ...]]
"""A kernel by number, and the values of its settings."""
_PROBLEM = "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"


@dataclass(slots=True)
class Landscape:
    """Times of all points of an operator's kernels."""

    name: str
    eager_ms: float
    families: list[str]
    settings: list[list[str]]
    ms: dict[Place, float | None] = field(default_factory=dict)
    starts: list[Place] = field(default_factory=list)

    @classmethod
    def of(cls, record: dict[str, Any]) -> "Landscape":
        """From a record of `landscape.measure`; the first point of a kernel is the given one."""
        made = cls(record["name"], record["eager_ms"], [], [])
        for k, kernel in enumerate(record["kernels"]):
            made.families.append(kernel["family"])
            made.settings.append(kernel["settings"])
            places = [(k, tuple(each["values"].values())) for each in kernel["points"]]
            made.ms |= {
                place: each["ms"] for place, each in zip(places, kernel["points"], strict=True)
            }
            made.starts += places[:1]
        return made

    @property
    def best_ms(self) -> float:
        """Of all points, or eager's."""
        return min([self.eager_ms, *(ms for ms in self.ms.values() if ms is not None)])

    def nearest(self, kernel: int, values: Sequence[Any]) -> list[Place]:
        """The points of a kernel, those that differ in the fewest settings first."""
        mine = [place for place in self.ms if place[0] == kernel]
        return sorted(mine, key=lambda p: sum(a != b for a, b in zip(p[1], values, strict=True)))


def source_of(place: Place) -> str:
    """A kernel file that stands for a point."""
    return f"def kernel_function(x):\n    return x\n\n\nPLACE = {place!r}\n"


def place_of(source: str) -> Place | None:
    """The point that a file stands for; None for the start, which is none."""
    _, found, text = source.partition("PLACE = ")
    if not found:
        return None
    kernel, values = ast.literal_eval(text.strip())
    return int(kernel), tuple(values)


class TableJudge:
    """Says what was measured. A candidate costs a second."""

    slots = 1

    def __init__(self, landscape: Landscape) -> None:
        self._landscape = landscape
        self.best: list[float] = []
        """The best time after each candidate."""

    def standing(self, given: Proposal | None, say: Callable[[str], None]) -> Standing:
        """Eager PyTorch."""
        del say
        assert given is not None
        ms = self._landscape.eager_ms
        candidate = candidate_of(given)
        outcome = self._outcome(candidate.id, ms).model_copy(update={"gpu_seconds": 0.0})
        baseline = Baseline(median_ms=ms, p10_ms=ms, p90_ms=ms)
        start = Judged(candidate=candidate, outcome=outcome)
        return Standing(start=start, baselines={"start": baseline}, devices=("cuda:0",))

    def judge(
        self, candidate: Candidate, leader: Judged, attempt: int, say: Callable[[str], None]
    ) -> Outcome:
        """By the table; beside the leader, as the real judge times it."""
        del say
        place = place_of(candidate.source)
        ms = self._landscape.ms[place] if place is not None else None
        before = self.best[-1] if self.best else self._landscape.eager_ms
        self.best.append(min(before, math.inf if ms is None else ms))
        if ms is None:
            wrong = failure(candidate, Stage.VERIFY, "it did not work when measured", attempt)
            return wrong.model_copy(update={"verdict": Verdict.WRONG, "gpu_seconds": 1.0})
        theirs = leader.outcome.median_ms
        assert theirs is not None
        apart = max(ms, theirs) / min(ms, theirs) > 1 + repeatability(max(ms, theirs))
        paired = Ratio(
            of="candidate", over="leader", ratio=theirs / ms, low=theirs / ms, high=theirs / ms,
            significant=apart,
        )  # fmt: skip
        return self._outcome(candidate.id, ms, (paired,), attempt)

    @staticmethod
    def _outcome(
        candidate: str, ms: float, ratios: tuple[Ratio, ...] = (), attempt: int = 1
    ) -> Outcome:
        return Outcome(
            candidate=candidate, stage=Stage.DONE, verdict=Verdict.CORRECT, median_ms=ms, p10_ms=ms,
            p90_ms=ms, ratios=ratios, attempts=attempt, gpu_seconds=1.0,
        )  # fmt: skip

    def profile(self, candidate: Candidate, say: Callable[[str], None]) -> Profiled:
        """Nothing."""
        del candidate, say
        return Profiled(None)

    def confirm(
        self, best: Judged, start: Judged, say: Callable[[str], None], *, short: bool = False
    ) -> Confirmation:
        """Not asked for."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing is held."""


class NoAdvice:
    """A search without diagnosis and context."""

    def advise(self, leader: Judged, round_: int, shown: Collection[str]) -> Advice:
        """See `Advisor`."""
        del leader, round_, shown
        return Advice(None, Context())


class Mutations:
    """Combinations, every kernel as it is, then one changed setting of each survivor.

    The loop takes as many as it has room for, so kernels come in over the first rounds.

    A combination is asked for by the state's `crossover`: the one kernel with those settings of the
    other that have the same names, or the measured point next to that.
    """

    name = "mutations"

    def __init__(self, landscape: Landscape) -> None:
        self._landscape = landscape

    def propose(self, state: SearchState) -> Sequence[Proposal]:
        """See `Proposer.propose`."""
        landscape = self._landscape
        tried = set(state.tried)
        found: list[Proposal] = []

        def offer(place: Place, parents: tuple[str, ...]) -> bool:
            proposal = self._proposal(place, parents)
            key = digest(proposal.source)
            if key in tried or proposal.family in state.retired:
                return False
            tried.add(key)
            found.append(proposal)
            return True

        if state.crossover is not None:
            one, two = state.crossover
            for first, second in ((one, two), (two, one)):
                self._combined(first, second, offer)
        for place in landscape.starts:
            offer(place, ())
        chance = state.random(self.name)
        for judged in state.beam:
            here = place_of(judged.candidate.source)
            if here is None:
                continue
            near = landscape.nearest(*here)
            chance.shuffle(near)  # those that are as near as each other
            near.sort(key=lambda p: sum(a != b for a, b in zip(p[1], here[1], strict=True)))
            made = 0
            for other in near:
                made += offer(other, (judged.id,))
                if made == state.branching:
                    break
        if not found:  # all around the survivors was tried
            left = list(landscape.ms)
            chance.shuffle(left)
            for place in left:
                offer(place, ())
                if len(found) == state.width * state.branching:
                    break
        return found

    def _combined(
        self, first: Judged, second: Judged, offer: Callable[[Place, tuple[str, ...]], bool]
    ) -> None:
        one, two = place_of(first.candidate.source), place_of(second.candidate.source)
        assert one is not None
        assert two is not None
        theirs = dict(zip(self._landscape.settings[two[0]], two[1], strict=True))
        names = self._landscape.settings[one[0]]
        wanted = [theirs.get(name, own) for name, own in zip(names, one[1], strict=True)]
        for place in self._landscape.nearest(one[0], wanted)[:1]:
            offer(place, (first.id, second.id))

    def _proposal(self, place: Place, parents: tuple[str, ...] = ()) -> Proposal:
        return Proposal(
            source=source_of(place),
            parents=parents,
            proposer=self.name,
            family=self._landscape.families[place[0]],
        )

    def repair(self, proposal: Proposal, failure: Outcome) -> None:
        """None: what does not work has no better version."""
        del proposal, failure


@dataclass(slots=True)
class _Memory:
    """A run folder that writes nothing."""

    config: RunConfig
    record: Record = field(default_factory=Record)
    root: Path = Path("memory")

    def append(self, event: Event) -> None:
        self.record.add(event)

    def keep_best(self, source: str, suffix: str, head: str) -> None:
        del source, suffix, head


@dataclass(frozen=True, slots=True)
class Walk:
    """What one search came to."""

    best: list[float]
    """The best time after each candidate that was judged."""
    combined: int
    """Candidates with two parents."""
    combined_led: int
    """Of them, those that became the leader."""
    retired: int
    """Families that were given up."""


def walk(landscape: Landscape, seed: int, candidates: int, **rules: bool) -> Walk:
    """One search until so many candidates were judged, with `Strategy`'s switches as in `rules`."""
    config = RunConfig(
        problem=ProblemInfo(name=f"{landscape.name}.py", source=_PROBLEM, sha256="0" * 64),
        given=True,
        start=Proposal(
            source="def kernel_function(x):\n    return x\n", proposer="start", family="baseline"
        ),
        proposers=(Mutations.name,),
        baselines=("eager",),
        seed=seed,
        # The budget alone ends it: arms are compared at equal cost.
        limits=Limits(rounds=10 * candidates, gpu_seconds=float(candidates)),
        strategy=Strategy(
            confirm=False, profiling=False, profile_leaders=False, patience=10 * candidates, **rules
        ),
    )
    folder, judge = _Memory(config), TableJudge(landscape)
    Search(folder, judge, NoAdvice(), [Mutations(landscape)]).run()  # type: ignore[arg-type]
    closed = folder.record.closed
    both = {e.id for e in folder.record.history if len(e.candidate.parents) > 1}
    return Walk(
        best=judge.best[:candidates],
        combined=len(both),
        combined_led=len(both & {each.leader for each in closed}),
        retired=len({name for each in closed for name in each.retired}),
    )
