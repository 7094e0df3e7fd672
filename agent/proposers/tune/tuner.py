"""Tunes one kernel on one problem: parameters, space, search, and what came of it."""

import contextlib
import random
import statistics
from collections.abc import Sequence
from typing import Final

from agent.proposers.tune.autotune import opened
from agent.proposers.tune.halving import Ledger, Measured
from agent.proposers.tune.material import Subject
from agent.proposers.tune.request import Tuned, Tuning, Version
from agent.proposers.tune.rewrite import RewriteError
from agent.proposers.tune.search import search
from agent.proposers.tune.space import Point, Space, SpaceLimits
from agent.proposers.tune.timing import SourceTimer
from agent.proposers.tune.tunable import Tunable
from judge.problem.kernel import KernelFile
from judge.progress import Say, silent
from judge.sandbox.launch import Zygote

# Launches of the last comparison with the given file.
_LAST_LAUNCHES: Final = 40
_LISTED: Final = 20
# Seconds that the last comparison is left.
_LAST_SECONDS: Final = 3.0


def tune(request: Tuning, *, zygote: Zygote | None = None, say: Say = silent) -> Tuned:
    """Tune a kernel file; see `Tuning`.

    Raises
    ------
    KbError
        The problem or the kernel cannot be run at all, or the card is busy.
    """
    kernel = KernelFile.parse(request.kernel)
    subject = Subject.like(request, kernel=kernel)
    tunable, listed = opened(request.kernel)
    with contextlib.ExitStack() as stack:
        if zygote is None:  # before the card is held: it loads torch for seconds
            zygote = stack.enter_context(Zygote(interpret=request.device == "cpu"))
        timer = stack.enter_context(SourceTimer(subject, zygote, say))
        left = request.seconds - timer.held_seconds
        found = tune_with(timer, tunable, listed, request.model_copy(update={"seconds": left}), say)
    return found.model_copy(update={"held_seconds": timer.held_seconds})


def tune_with(
    timer: SourceTimer,
    tunable: Tunable,
    listed: Sequence[Tunable],
    request: Tuning,
    say: Say = silent,
) -> Tuned:
    """Search within an open timer."""
    start = timer.clock()
    space = Space(tunable, SpaceLimits(item_bytes=timer.item_bytes), request.hints)

    def measure(points: Sequence[Point], launches: int, seconds: float) -> list[Measured]:
        return written(space, timer, points, launches, seconds)

    deadline = start + request.seconds - _LAST_SECONDS
    ledger = Ledger(measure, deadline, timer.clock)
    found = search(
        space,
        ledger,
        random.Random(request.seed),  # noqa: S311 (a search)
        starts=starts_of(space, listed),
        batch=request.batch,
        say=say,
    )
    versions = [
        Version(
            source=space.text(each.point),
            values=space.named(each.point),
            ms=each.median,
            launches=len(each.ms),
        )
        for each in found.ranking[:_LISTED]
    ]
    reasons: dict[str, int] = {}
    for trial in ledger.trials.values():
        if trial.error:
            reason = trial.error[:120]
            reasons[reason] = reasons.get(reason, 0) + 1
    given_ms, versions = _compared(timer, request.kernel, versions)
    return Tuned(
        given_ms=given_ms,
        versions=tuple(versions),
        start=tunable.start,
        points=space.size,
        tried=found.tried,
        failed=found.failed,
        reasons=dict(sorted(reasons.items(), key=lambda each: -each[1])[:5]),
        generations=found.generations,
        exhausted=found.exhausted,
        seconds=timer.clock() - start,
        ahead_seconds=timer.ahead_seconds,
    )


def written(
    space: Space, timer: SourceTimer, points: Sequence[Point], launches: int, seconds: float
) -> list[Measured]:
    """Time points of a file's space; one that cannot be written out has failed."""
    results: list[Measured | None] = []
    sources: list[str] = []
    for point in points:
        try:
            sources.append(space.text(point))
            results.append(None)
        except RewriteError as error:
            results.append(Measured(error=str(error)))
    timed = iter(timer.times(sources, launches, seconds))
    return [next(timed) if each is None else each for each in results]


def starts_of(space: Space, listed: Sequence[Tunable]) -> list[Point]:
    """Configurations that the file listed for an autotuner, as points."""
    points = []
    for each in listed:
        values = each.start
        if values.keys() == {parameter.name for parameter in space.parameters}:
            point = tuple(values[parameter.name] for parameter in space.parameters)
            if all(v in d for v, d in zip(point, space.domains, strict=True)):
                points.append(point)
    return points


def _compared(
    timer: SourceTimer, given: str, versions: list[Version]
) -> tuple[float | None, list[Version]]:
    """Time the given file and the best versions in turn: their final times."""
    best = [each for each in versions[:3] if each.source != given]
    texts = [given, *(each.source for each in best)]
    timed = timer.times(texts, _LAST_LAUNCHES, _LAST_SECONDS)
    medians = [statistics.median(each.ms) if each.ms else None for each in timed]
    given_ms = medians[0]
    final = dict(zip(texts, medians, strict=True))
    again = []
    for each in versions:
        ms = final.get(each.source)
        again.append(each if ms is None else each.model_copy(update={"ms": ms}))
    return given_ms, sorted(again, key=lambda each: each.ms)
