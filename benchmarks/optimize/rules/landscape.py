"""Measures every point of a grid for each of an operator's kernels, in one process."""

import itertools
import random
import statistics
from collections.abc import Sequence
from typing import Any

from agent.optimize.starting import eager_start
from agent.problem.kernel import Form, KernelFile
from agent.problem.source import ProblemFile
from agent.recipe.stock import CorpusShelf
from agent.sandbox.launch import Zygote
from agent.tune.autotune import opened
from agent.tune.rewrite import RewriteError
from agent.tune.space import Limits, Point, Space
from agent.tune.timing import SourceTimer, Subject
from agent.tune.tunable import Role
from benchmarks.optimize.operators.cases import Operator
from benchmarks.optimize.operators.coverage import proposed
from kb.errors import KbError

# Settings of one kernel that vary, and values of each: the given one and its neighbours.
_MOST_SETTINGS = 4
_VALUES = 3
# Kernels of one operator at most, and sources that are timed together.
_MOST_KERNELS = 5
_BATCH = 48
_LAUNCHES = 5
# What is this near to the best of its kernel is timed again, longer: these decide.
_NEAR = 1.25
_MORE_LAUNCHES = 20


def grid(space: Space) -> tuple[list[str], list[Point]]:
    """Names of the settings that vary, and all allowed points of them: warps and stages, which all
    kernels share, before sizes."""
    order = {Role.WARPS: 0, Role.STAGES: 1, Role.TILE: 2}
    ranked = sorted(
        range(len(space.parameters)),
        key=lambda i: (order.get(space.parameters[i].role, 3), i),
    )
    free = [i for i in ranked if len(space.domains[i]) > 1][:_MOST_SETTINGS]
    choices: list[Sequence[Any]] = [(value,) for value in space.start]
    for i in free:
        domain, here = space.domains[i], space.domains[i].index(space.start[i])
        low = max(0, min(here - _VALUES // 2, len(domain) - _VALUES))
        choices[i] = domain[low : low + _VALUES]
    points = [space.start]
    points += [p for p in itertools.product(*choices) if p != space.start and space.allowed(p)]
    return [space.parameters[i].name for i in sorted(free)], points


def measure(
    operator: Operator, *, device: str, zygote: Zygote, seconds: float, seed: int, trust: bool
) -> dict[str, Any]:
    """The landscape of one operator; times are milliseconds, medians of launches on inputs that
    are not in the cache.

    Raises
    ------
    KbError
        It cannot be run here, or there are not two kernels of distinct techniques.
    """
    proposals = [
        each
        for each in proposed(operator, CorpusShelf(), None)[0]
        if KernelFile.parse(each.source).form is Form.KERNEL_FUNCTION
    ][:_MOST_KERNELS]
    if len({each.family for each in proposals}) < 2:
        raise KbError("there are no two kernels of distinct techniques")
    problem = ProblemFile.read(operator.path).text
    reference = eager_start(problem).source
    subject = Subject(
        problem,
        KernelFile.parse(proposals[0].source),
        device,
        operator.dtype,
        trust=trust,
        reference=KernelFile.parse(reference),
    )
    with SourceTimer(subject, zygote) as timer:
        spaces = [
            Space(opened(each.source)[0], Limits(item_bytes=timer.item_bytes)) for each in proposals
        ]
        grids = [grid(space) for space in spaces]
        places = [(k, point) for k, (_, points) in enumerate(grids) for point in points]
        found = _timed(timer, spaces, places, seconds, seed)
        again = _nearest(found)
        for place, ms in _timed(timer, spaces, again, seconds, seed, _MORE_LAUNCHES).items():
            found[place] = found[place] if ms is None else ms
        eager = timer.times([reference], _MORE_LAUNCHES, seconds)[0]
        held = timer.held
    return {
        "name": operator.name,
        "dtype": operator.dtype,
        "eager_ms": statistics.median(eager.ms) if eager.ms else None,
        "gpu_seconds": round(held, 1),
        "kernels": [
            {
                "note": each.note,
                "family": each.family,
                "settings": grids[k][0],
                "points": [
                    {"values": _named(spaces[k], point, grids[k][0]), "ms": found.get((k, point))}
                    for point in grids[k][1]
                    if (k, point) in found
                ],
            }
            for k, each in enumerate(proposals)
        ],
    }


def _timed(
    timer: SourceTimer,
    spaces: Sequence[Space],
    places: Sequence[tuple[int, Point]],
    seconds: float,
    seed: int,
    launches: int = _LAUNCHES,
) -> dict[tuple[int, Point], float | None]:
    """Median times; None for what does not work. What there was no time for is left out."""
    until = timer.clock() + seconds
    starts = [place for place in places if place[1] == spaces[place[0]].start]
    others = [place for place in places if place not in set(starts)]
    random.Random(seed).shuffle(others)  # so that no kernel is left out where time runs out
    order = [*starts, *others]
    found: dict[tuple[int, Point], float | None] = {}
    for first in range(0, len(order), _BATCH):
        left = until - timer.clock()
        if left <= 0:
            break
        batch, texts = [], []
        for k, point in order[first : first + _BATCH]:
            try:
                texts.append(spaces[k].text(point))
                batch.append((k, point))
            except RewriteError:
                found[k, point] = None
        for place, each in zip(batch, timer.times(texts, launches, left), strict=True):
            if each.tried or each.ms:
                found[place] = statistics.median(each.ms) if each.ms and not each.error else None
    return found


def _nearest(found: dict[tuple[int, Point], float | None]) -> list[tuple[int, Point]]:
    best: dict[int, float] = {}
    for (k, _), ms in found.items():
        if ms is not None:
            best[k] = min(ms, best.get(k, ms))
    return [(k, p) for (k, p), ms in found.items() if ms is not None and ms <= _NEAR * best[k]]


def _named(space: Space, point: Point, names: Sequence[str]) -> dict[str, Any]:
    values = space.named(point)
    return {name: values[name] for name in names}
