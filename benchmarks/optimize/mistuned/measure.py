"""Tunes one mistuned kernel, then searches a far wider sample, and times both in turn."""

import itertools
import random
import statistics
from collections.abc import Sequence
from typing import Any

from agent.optimize.judge_requests import JudgeState, Request
from agent.proposers.tune.autotune import read_tunables
from agent.proposers.tune.halving import halve
from agent.proposers.tune.material import Subject
from agent.proposers.tune.request import Tuning
from agent.proposers.tune.search import search
from agent.proposers.tune.space import Point, Space
from agent.proposers.tune.timing import SourceTimer
from agent.proposers.tune.tuner import ledger_of, tune_with
from benchmarks.judge.suite import judge_texts
from benchmarks.optimize.mistuned.cases import load
from benchmarks.tasks import Measured
from judge.evaluate.host import describe_host
from judge.evaluate.options import Options
from judge.problem.kernel import KernelFile
from judge.progress import Say
from judge.sandbox.launch import Zygote

# Points of the reference: all of a space that is no larger, else as many at random.
WIDE = 320
# Best of the wide sample from which the reference goes on.
_STARTS = 8
_FINALISTS = 6
_CONTESTS = 3
_LAUNCHES = 30
_CONTEST_SECONDS = 15.0


class Measure(Request[Measured]):
    """Measure one kernel; fields are options of the command."""

    reply = Measured

    name: str
    device: str
    seconds: float
    """For `tune`, from the start of its workers."""
    reference_seconds: float
    """For the wide search."""
    seed: int
    trust: bool
    small: bool
    """At the problem's size for Triton's interpreter."""
    check: bool
    """Whether to judge the winner's results."""

    def answer(self, state: JudgeState, say: Say) -> Measured:
        """See `Request.answer`."""
        record = measure(self, state.zygote(interpret=self.device == "cpu"), say)
        host = describe_host(self.device)
        return Measured(record={**record, "gpu": host.gpu, "versions": host.versions})


def measure(job: Measure, zygote: Zygote | None, say: Say) -> dict[str, Any]:
    """One record; times are milliseconds, medians of launches on inputs outside the cache."""
    (case,) = load([job.name])
    problem, device, seed = case.small if job.small else case.problem, job.device, job.seed
    kernel = KernelFile.parse(case.kernel, f"{case.name}.py")
    subject = Subject(problem=problem, kernel=kernel, device=device, trust=job.trust)
    with SourceTimer(subject, zygote, say) as timer:
        start_seconds = timer.held_seconds
        tunable, listed = read_tunables(case.kernel)
        seconds_left = job.seconds - start_seconds
        request = Tuning(
            problem=problem, kernel=case.kernel, device=device, seconds=seconds_left, seed=seed
        )
        tuned = tune_with(timer, tunable, listed, request, say)
        gpu_seconds = timer.held_seconds
        winner = tuned.versions[0] if tuned.versions else None
        if winner is None:
            reason = "; ".join(tuned.reasons) or "there was no time for any configuration"
            return {"name": case.name, "failed": reason, "gpu_seconds": gpu_seconds}
        space = Space(tunable, timer.item_bytes)
        point = tuple(winner.values[parameter.name] for parameter in space.parameters)
        start = timer.clock()
        best, tried = reference(timer, space, point, job.reference_seconds, seed + 1)
        spent = timer.clock() - start
        texts = list(dict.fromkeys([case.kernel, winner.source, *map(space.text, best)]))
        times = contest(timer, texts)
    given_ms, tuned_ms = times.get(case.kernel), times.get(winner.source)
    best_ms = min(times.values(), default=None)
    verdict: dict[str, Any] = {}
    if job.check:
        options = Options(device=device, timing=False)
        judged = judge_texts(problem, winner.source, options, zygote=zygote)
        verdict["verdict"] = judged.verdict.value
    return {
        "name": case.name,
        "about": case.about,
        "operator": case.operator,
        "constants": case.constants,
        "given_ms": given_ms,
        "tuned_ms": tuned_ms,
        "best_ms": best_ms,
        "over_best": None if not (tuned_ms and best_ms) else tuned_ms / best_ms,
        "speedup": None if not (tuned_ms and given_ms) else given_ms / tuned_ms,
        "gpu_seconds": gpu_seconds,
        "start_seconds": start_seconds,
        "tried": tuned.tried,
        "not_working": tuned.failed,
        "reasons": tuned.reasons,
        "given": tuned.start,
        "found": winner.values,
        "best": next((space.values(p) for p in best if times.get(space.text(p)) == best_ms), None),
        "reference_tried": tried,
        "reference_seconds": spent,
        "source": winner.source,
        **verdict,
    }


def reference(
    timer: SourceTimer, space: Space, tuned: Point, seconds: float, seed: int
) -> tuple[list[Point], int]:
    """The best points of a wide sample and of a search from them; also how many were tried."""

    ledger = ledger_of(space.text, timer, timer.clock() + seconds)
    generator = random.Random(seed)
    sample = wide_sample(space, generator)
    halve(ledger, [tuned, *sample], space.start)
    starts = [trial.point for trial in ledger.ranking()[:_STARTS]]
    result = search(space, ledger, generator, starts=[tuned, *starts], batch=2 * _STARTS)
    return [trial.point for trial in result.ranking[:_FINALISTS]], result.tried


def wide_sample(space: Space, generator: random.Random) -> list[Point]:
    """All allowed points of a small space, `WIDE` at random of a large one."""
    if space.size <= WIDE:
        return [p for p in itertools.product(*space.domains) if space.is_allowed(p)]
    random_points = (space.random_point(generator) for _ in range(4 * WIDE))
    return list(dict.fromkeys(p for p in random_points if p is not None))[:WIDE]


def contest(timer: SourceTimer, texts: Sequence[str]) -> dict[str, float]:
    """Median times of versions, each launched in turn with all others."""
    ms: dict[str, list[float]] = {text: [] for text in texts}
    for _ in range(_CONTESTS):
        timed = timer.times(list(texts), _LAUNCHES, _CONTEST_SECONDS)
        for text, measured in zip(texts, timed, strict=True):
            ms[text] += measured.ms
    return {text: statistics.median(values) for text, values in ms.items() if values}


def within(records: Sequence[dict[str, Any]], share: float = 0.1) -> list[str]:
    """Names of kernels whose tuned time is no more than `share` above the best known."""
    return [record["name"] for record in records if (record.get("over_best") or 9) <= 1 + share]
