"""A judge and proposers that follow a script, so that the search alone is tested.

A source says in comments what the judge will say of it: `# ms 0.5`, `# wrong`, `# crash`.
"""

import random
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from agent.optimize.advice import Advice
from agent.optimize.candidate import (
    Baseline,
    Candidate,
    Context,
    Hypothesis,
    Judged,
    Outcome,
    ProblemInfo,
    Proposal,
    SearchState,
    Stage,
)
from agent.optimize.config import Limits, RunConfig, Strategy
from agent.optimize.events import Event, Standing
from agent.optimize.judge import WHOLE, Allowance, Confirmation, ProfileResult
from agent.optimize.loop import Search
from agent.optimize.outcomes import failure
from agent.optimize.proposers import Proposer, Spending
from agent.optimize.run import RunFolder
from agent.optimize.starting import start_candidate
from judge.evaluate.result import Ratio, Verdict
from judge.evaluate.statistics import repeatability
from judge.progress import Progress, Say, Step

PROBLEM = "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"
_MS = re.compile(r"^VALUE = ([0-9.]+)", re.MULTILINE)


def kernel(ms: float, mark: str = "") -> str:
    """A kernel file of which the judge will say this time; `mark`: wrong, crash, compile."""
    return f"def kernel_function(x):\n    return x\nVALUE = {ms!r}\n" + (
        f"{mark.upper()} = 1\n" if mark else ""
    )


def start(ms: float = 1.0) -> Proposal:
    return Proposal(source=kernel(ms), proposer="start", family="baseline")


def proposal(ms: float, family: str = "tiling", mark: str = "", **more: object) -> Proposal:
    told = {"source": kernel(ms, mark), "proposer": "scripted", "family": family}
    return Proposal.model_validate(told | more)


def ms_of(source: str) -> float:
    found = _MS.search(source)
    assert found is not None
    return float(found.group(1))


def ratio(over: str, ms: float, mine: float) -> Ratio:
    apart = max(ms, mine) / min(ms, mine) > 1 + repeatability(max(ms, mine))
    value = ms / mine
    return Ratio(
        of="candidate", over=over, ratio=value, low=value * 0.99, high=value * 1.01,
        significant=apart,
    )  # fmt: skip


class ScriptedJudge:
    """Says what sources say of themselves; counts what it was asked."""

    def __init__(
        self,
        slots: int = 1,
        before: Callable[[str], None] = lambda _: None,
        start_seconds: float = 10.0,
    ) -> None:
        self.slots = slots
        self.asked: list[str] = []
        self.profiled: list[str] = []
        self.refuted: set[float] = set()
        """Times of candidates that are wrong in the last evaluation."""
        self.allowed: list[Allowance] = []
        """Whether each last evaluation was a short one."""
        self.closed = self.cancelled = False
        self._before = before
        self._start_seconds = start_seconds

    def judge_start(self, given: Proposal | None, say: Say) -> Standing:
        assert given is not None
        say(Progress("starting workers", Step.HOLD))
        self._before("standing")
        candidate = start_candidate(given)
        ms = ms_of(candidate.source)
        outcome = Outcome(
            candidate=candidate.id, stage=Stage.DONE, verdict=Verdict.CORRECT, median_ms=ms,
            p10_ms=ms, p90_ms=ms, floor_fraction=0.1 / ms,
            gpu_seconds=self._start_seconds,
        )  # fmt: skip
        if "WRONG" in candidate.source:
            outcome = Outcome(
                candidate=candidate.id, stage=Stage.VERIFY, verdict=Verdict.WRONG,
                reasons=("full shape: 3 of 4 elements are off",),
            )  # fmt: skip
        baselines = {
            name: Baseline(median_ms=value, p10_ms=value, p90_ms=value, floor_fraction=0.1 / value)
            for name, value in (("start", ms), ("eager", 2.0), ("compile", 0.8))
        }
        return Standing(
            start=Judged(candidate=candidate, outcome=outcome), baselines=baselines, gpu="H200",
            architecture="sm_90a", devices=("cuda:0",),
        )  # fmt: skip

    def judge(self, candidate: Candidate, leader: Judged, attempt: int, say: Say) -> Outcome:
        say(Progress("checking"))
        self.asked.append(candidate.id)
        self._before("judge")
        source = candidate.source
        if "CRASH" in source:
            raise RuntimeError("CUDA error: an illegal memory access was encountered\n" * 3)
        if "COMPILE" in source:
            return failure(candidate, Stage.COMPILE, "CompilationError", attempt)
        if "WRONG" in source:
            wrong = failure(candidate, Stage.VERIFY, "full shape: off", attempt)
            return wrong.model_copy(update={"verdict": Verdict.WRONG, "gpu_seconds": 5.0})
        if "CHEAT" in source:
            cheat = failure(candidate, Stage.VERIFY, "does no work", attempt)
            return cheat.model_copy(update={"verdict": Verdict.CHEAT})
        ms = ms_of(source)
        ratios = (ratio("leader", leader.outcome.median_ms or 1.0, ms), ratio("eager", 2.0, ms))
        return Outcome(
            candidate=candidate.id, stage=Stage.DONE, verdict=Verdict.CORRECT, median_ms=ms,
            p10_ms=ms, p90_ms=ms, ratios=ratios, floor_fraction=0.1 / ms, attempts=attempt,
            gpu_seconds=10.0,
        )  # fmt: skip

    def profile(self, candidate: Candidate, say: Say) -> ProfileResult:
        say(Progress("profiling"))
        self.profiled.append(candidate.id)
        self._before("profile")
        metrics = {"gpu__time_duration.sum": ms_of(candidate.source) * 1e6}
        return ProfileResult(metrics, (), 2.0)

    def confirm(
        self, best: Judged, start: Judged, say: Say, allowed: Allowance = WHOLE
    ) -> Confirmation:
        say(Progress("confirming"))
        self.allowed.append(allowed)
        self._before("confirm")
        ms = ms_of(best.candidate.source)
        if ms in self.refuted or "WRONG" in best.candidate.source:
            wrong = failure(best.candidate, Stage.VERIFY, "wrong on a new seed")
            return Confirmation(wrong.model_copy(update={"verdict": Verdict.WRONG}), {})
        over = {"start": start.outcome.median_ms or 1.0, "eager": 2.0, "compile": 0.8}
        ratios = tuple(ratio(name, value, ms) for name, value in over.items())
        outcome = Outcome(
            candidate=best.id, stage=Stage.DONE, verdict=Verdict.CORRECT, median_ms=ms, p10_ms=ms,
            p90_ms=ms, ratios=ratios, floor_fraction=0.1 / ms, gpu_seconds=10.0,
            attempts=best.outcome.attempts, profile=best.outcome.profile,
        )  # fmt: skip
        timed = {n: Baseline(median_ms=v, p10_ms=v, p90_ms=v) for n, v in over.items()}
        return Confirmation(outcome, timed, ("a short session",) if allowed.short else ())

    def cancel(self) -> None:
        self.cancelled = True

    def close(self) -> None:
        self.closed = True


class ScriptedAdvisor:
    """Knows as many chunks as there are rounds."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, ...]] = []

    def advise(self, leader: Judged, round_: int, shown: Collection[str]) -> Advice:
        self.shown.append(tuple(shown))
        return Advice(None, Context(text=f"about {leader.id}", chunks=(f"chunk{round_}",)))


class Scripted(Proposer):
    """Proposes what a list says, round by round; repairs by taking the mark away."""

    def __init__(
        self, rounds: Sequence[Sequence[Proposal]], name: str = "scripted", fix: bool = True
    ) -> None:
        self.name = name
        self._rounds = rounds
        self._fix = fix
        self.states: list[SearchState] = []
        self.reflected: list[list[Judged]] = []
        self.closed = 0

    def propose(self, state: SearchState) -> Sequence[Proposal]:
        self.states.append(state)
        self._spent += Spending(tokens_in=100, tokens_out=10, money=0.5)
        if state.round > len(self._rounds):
            return []
        given = self._rounds[state.round - 1]
        return [each.model_copy(update={"proposer": self.name}) for each in given]

    def repair(self, proposal: Proposal, failure: Outcome) -> Proposal | None:
        if not self._fix:
            return None
        self._spent += Spending(tokens_in=50, money=0.25)
        source = kernel(ms_of(proposal.source))
        return proposal.model_copy(update={"source": source, "note": failure.reasons[0]})

    def reflect(self, state: SearchState, judged: Sequence[Judged]) -> Sequence[str]:
        self.reflected.append(list(judged))
        return [f"round {state.round}: {len(judged)} judged"]

    def close(self) -> None:
        self.closed += 1


class Wandering(Proposer):
    """Proposes variations of the beam by the state's own chance: deterministic and endless."""

    def __init__(self, name: str = "wandering") -> None:
        self.name = name

    def propose(self, state: SearchState) -> Sequence[Proposal]:
        chance = state.random(self.name)
        return [self._vary(parent, chance) for parent in state.beam for _ in range(3)]

    def _vary(self, parent: Judged, chance: random.Random) -> Proposal:
        ms = max(0.2, (parent.outcome.median_ms or 1.0) * chance.uniform(0.7, 1.2))
        mark = chance.choice(["", "", "", "", "wrong", "compile", "crash", "cheat"])
        family = chance.choice(["tiling", "vectorize", "fusion", "occupancy", "tune"])
        return Proposal(
            source=kernel(round(ms, 4), mark), parents=(parent.id,), proposer=self.name,
            family=family, hypothesis=Hypothesis(claim="it is faster"),
        )  # fmt: skip

    def repair(self, proposal: Proposal, failure: Outcome) -> Proposal | None:
        if failure.attempts > 1:
            return None
        return proposal.model_copy(update={"source": kernel(ms_of(proposal.source))})


class Listener:
    """Collects what is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.lines: list[tuple[str, str]] = []

    def event(self, event: Event) -> None:
        self.events.append(event)

    def working(self, candidate: str, line: str) -> None:
        self.lines.append((candidate, line))


def config(
    limits: Limits | None = None, first: Proposal | None = None, **strategy: object
) -> RunConfig:
    return RunConfig(
        problem=ProblemInfo(name="little.py", source=PROBLEM, sha256="0" * 64),
        given=True,
        start=first or start(),
        proposers=("scripted",),
        limits=limits or Limits(),
        strategy=Strategy.model_validate(strategy),
    )


def search(folder: RunFolder, judge: ScriptedJudge, *proposers: object, **more: object) -> Search:
    return Search(
        folder, judge, more.pop("advisor", None) or ScriptedAdvisor(), proposers,  # type: ignore[arg-type]
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def decisions(folder: RunFolder) -> list[tuple[object, ...]]:
    """All that a run decided, without times of day."""
    record = folder.record
    rounds = [
        (
            closed.round,
            closed.leader,
            closed.beam,
            closed.retired,
            round(closed.gain, 9),
            tuple((j.id, j.outcome.stage, j.outcome.attempts) for j in each.in_order()),
            each.proposed.crossover if each.proposed else None,
        )
        for _, each in sorted(record.rounds.items())
        if (closed := each.closed) is not None
    ]
    assert record.stopped is not None
    return [*rounds, (record.best.id, record.stopped.reason)]


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
