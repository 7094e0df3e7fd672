"""Tunes one kernel on one problem: parameters, space, search, and what came of it."""

import random
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from agent.proposers.tune.autotune import read_tunables
from agent.proposers.tune.halving import Ledger, P, Timing, Trial
from agent.proposers.tune.material import Subject
from agent.proposers.tune.request import Tuned, Tuning, Version
from agent.proposers.tune.rewrite import RewriteError
from agent.proposers.tune.search import search
from agent.proposers.tune.space import Point, Space
from agent.proposers.tune.timing import SourceTimer
from agent.proposers.tune.tunable import Tunable
from judge.problem.kernel import KernelFile
from judge.progress import Say, silent
from judge.sandbox.launch import Zygote

# Launches of the last comparison with the given file.
_LAST_LAUNCHES: Final = 40
_LISTED: Final = 20
# Seconds that a last comparison is left.
LAST_SECONDS: Final = 3.0


def tune(request: Tuning, *, zygote: Zygote, say: Say = silent) -> Tuned:
    """Tune a kernel file; see `Tuning`.

    Raises
    ------
    KbError
        The problem or the kernel cannot be run at all, or the card is busy.
    """
    subject = Subject.like(request, kernel=KernelFile.parse(request.kernel))
    tunable, alternatives = read_tunables(request.kernel)
    with SourceTimer(subject, zygote, say, patience=request.patience) as timer:
        left = {"seconds": timer.left(request.seconds)}
        result = tune_with(timer, tunable, alternatives, request.model_copy(update=left), say)
    return result.model_copy(update={"held_seconds": timer.held_seconds})


def tune_with(
    timer: SourceTimer,
    tunable: Tunable,
    alternatives: Sequence[Tunable],
    request: Tuning,
    say: Say = silent,
) -> Tuned:
    """Search within an open timer."""
    space = Space(tunable, timer.item_bytes, request.hints)
    ledger = ledger_of(space.text, timer, timer.clock() + request.seconds - LAST_SECONDS)
    result = search(
        space,
        ledger,
        random.Random(request.seed),  # noqa: S311 (a search)
        starts=starts_of(space, alternatives),
        batch=request.batch,
        say=say,
    )
    versions = versions_of(space, result.ranking[:_LISTED])
    reasons = Counter(error[:120] for error in ledger.errors)
    given_ms, versions = _compare(timer, request.kernel, versions)
    return Tuned(
        given_ms=given_ms,
        versions=tuple(versions),
        start=tunable.start,
        tried=result.tried,
        failed=result.failed,
        reasons=dict(reasons.most_common(5)),
    )


def ledger_of(text: Callable[[P], str], timer: SourceTimer, deadline: float) -> Ledger[P]:
    """A ledger of points that are written as `text`; one that cannot be written has failed."""

    def measure(points: Sequence[P], launches: int, seconds: float) -> list[Timing]:
        results: list[Timing | None] = []
        sources: list[str] = []
        for point in points:
            try:
                sources.append(text(point))
                results.append(None)
            except RewriteError as error:
                results.append(Timing(error=str(error)))
        timed = iter(timer.times(sources, launches, seconds))
        return [next(timed) if result is None else result for result in results]

    return Ledger(measure, deadline, timer.clock)


def starts_of(space: Space, alternatives: Sequence[Tunable]) -> list[Point]:
    """Configurations that the file listed for an autotuner, as points."""
    names = [parameter.name for parameter in space.parameters]
    starts = [tunable.start for tunable in alternatives if tunable.start.keys() == set(names)]
    points = [tuple(values[name] for name in names) for values in starts]
    return [p for p in points if all(v in d for v, d in zip(p, space.domains, strict=True))]


def versions_of(space: Space, trials: Sequence[Trial[Point]]) -> list[Version]:
    """What was tried, written out."""
    return [
        Version(source=space.text(trial.point), values=space.values(trial.point), ms=trial.median)
        for trial in trials
    ]


def with_times(versions: Sequence[Version], final: Mapping[str, float | None]) -> list[Version]:
    """Versions with their final times; those that have none keep the earlier one."""
    return [
        version
        if (ms := final.get(version.source)) is None
        else version.model_copy(update={"ms": ms})
        for version in versions
    ]


def final_times(timer: SourceTimer, texts: Sequence[str], launches: int) -> dict[str, float | None]:
    """Median of each file's times, launched in turn; None where one fails."""
    timer.turns.lift_limits()  # what was found is lost without its time
    timed = timer.times(texts, launches, LAST_SECONDS)
    medians = [statistics.median(measured.ms) if measured.ms else None for measured in timed]
    return dict(zip(texts, medians, strict=True))


def _compare(
    timer: SourceTimer, original: str, versions: list[Version]
) -> tuple[float | None, list[Version]]:
    """Time the given file and the best versions in turn: their final times."""
    best = [version for version in versions[:3] if version.source != original]
    final = final_times(timer, [original, *(version.source for version in best)], _LAST_LAUNCHES)
    return final[original], sorted(with_times(versions, final), key=lambda version: version.ms)
