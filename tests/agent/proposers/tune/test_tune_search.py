"""The search finds good configurations of made-up surfaces in the time it has."""

import math
import random

import pytest

from agent.proposers.tune import space as space_module
from agent.proposers.tune.halving import Ledger, Timing, halve
from agent.proposers.tune.parameters import find_parameters
from agent.proposers.tune.search import search
from agent.proposers.tune.space import Hint, Point, Space
from judge.progress import Progress
from tests.agent.proposers.tune.surfaces import TILES, Clock, made

SEEDS = 20
SECONDS = 20.0


def test_it_comes_within_a_tenth_of_the_optimum_in_nine_of_ten_rugged_spaces() -> None:
    good = 0
    for seed in range(SEEDS):
        space, surface, bench, ledger = made(seed, SECONDS)
        assert space.size > 1000
        found = search(space, ledger, random.Random(seed))
        good += surface.cost(found.ranking[0].point) <= 1.1 * surface.optimum()
        assert bench.clock.now <= SECONDS * 1.05
        assert found.tried < space.size / 10
        assert ledger.trials[space.start].ms
    assert good >= 0.9 * SEEDS


def test_a_search_ends_when_three_generations_brought_next_to_nothing() -> None:
    space, _, _, ledger = made(1, 600.0)
    ms: dict[Point, float] = {}

    def hardly_better(points: list[Point], launches: int, seconds: float) -> list[Timing]:
        # What comes later is a little better, so that the best always has untried neighbours.
        return [Timing([ms.setdefault(p, 1 - 1e-5 * len(ms))] * launches) for p in points]

    ledger.measure = hardly_better
    told: list[Progress] = []
    search(space, ledger, random.Random(0), say=told.append)
    assert len(told) == 1 + 3


def test_a_kernel_that_stays_behind_another_is_given_up() -> None:
    tried = {}
    for rival in (math.inf, 1.0):
        space, surface, _, ledger = made(3, 60.0)
        found = search(space, ledger, random.Random(5), rival=rival * surface.optimum() / 2)
        tried[rival] = found.tried
    assert tried[1.0] < tried[math.inf]


def test_the_same_seed_and_times_give_the_same_search() -> None:
    runs = []
    for _ in range(2):
        space, _, bench, ledger = made(3, 8.0)
        search(space, ledger, random.Random(5))
        runs.append(bench.asked)
    assert runs[0] == runs[1]
    space, _, bench, ledger = made(3, 8.0)
    search(space, ledger, random.Random(6))
    assert bench.asked != runs[0]


def test_the_incumbent_is_never_dropped() -> None:
    clock = Clock()
    launches: dict[int, int] = {}

    def measure(points: list[int], count: int, seconds: float) -> list[Timing]:
        for each in points:
            launches[each] = launches.get(each, 0) + count
        return [Timing([1.0 + each] * count) for each in points]

    ledger: Ledger[int] = Ledger(measure, deadline=1.0, clock=clock)
    ranking = halve(ledger, list(range(40)), 99, (3, 7, 20))
    assert ranking[0].point == 0
    assert launches[99] == 30
    assert launches[0] == 30
    assert launches[30] == 3


def test_noise_alone_drops_nobody() -> None:
    clock = Clock()
    noise = random.Random(1)

    def measure(points: list[int], count: int, seconds: float) -> list[Timing]:
        return [Timing([1 + 0.2 * noise.random() for _ in range(count)]) for _ in points]

    ledger: Ledger[int] = Ledger(measure, deadline=1.0, clock=clock)
    halve(ledger, list(range(6)), 0, (4, 4))
    assert sum(len(each.ms) == 8 for each in ledger.trials.values()) > 3


def test_what_fails_everywhere_is_left_as_it_is() -> None:
    space, _, bench, ledger = made(1, 30.0)
    index = next(i for i, each in enumerate(space.parameters) if each.name == "BK")
    plain = bench.__call__

    def semantic(points: list, launches: int, seconds: float) -> list[Timing]:
        results = plain(points, launches, seconds)
        return [
            got if point[index] == space.start[index] else Timing(error="its outputs differ")
            for point, got in zip(points, results, strict=True)
        ]

    ledger.measure = semantic
    found = search(space, ledger, random.Random(0))
    assert all(each.point[index] == space.start[index] for each in found.ranking)
    assert all(point[index] == space.start[index] for batch in bench.asked[4:] for point in batch)


def test_a_kernel_that_always_fails_ends_the_search() -> None:
    space, _, _, ledger = made(1, 30.0)
    ledger.measure = lambda points, launches, seconds: [Timing(error="no") for _ in points]
    found = search(space, ledger, random.Random(0))
    assert not found.ranking
    assert found.failed == found.tried > 0


def test_limits_of_the_card_keep_points_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_module, "_SHARED_BYTES", 100_000)
    space = Space(find_parameters(TILES), item_bytes=4)
    names = [each.name for each in space.parameters]

    def point(**values: int) -> tuple[int, ...]:
        return tuple(values.get(name, 0) or space.start[i] for i, name in enumerate(names))

    assert space.is_allowed(point(BM=64, BN=64, num_warps=4, num_stages=3))
    assert not space.is_allowed(point(BM=256, BN=256, BK=256, num_warps=32, num_stages=3))
    assert not space.is_allowed(point(BM=256, BN=256, num_warps=1))
    assert all(space.is_allowed(each) for each in space.neighbours(space.start))
    assert min(space.domains[names.index("BM")]) == 16


def test_hints_order_neighbours() -> None:
    tunable = find_parameters(TILES)
    deeper = Space(tunable, hints=[Hint.DEEPER])
    stages = [each.name for each in deeper.parameters].index("num_stages")
    first = deeper.neighbours(deeper.start)[0]
    assert first[stages] == 4
    smaller = Space(tunable, hints=[Hint.SMALLER])
    first = smaller.neighbours(smaller.start)[0]
    assert sum(first) < sum(smaller.start)
    assert set(smaller.neighbours(smaller.start)) == set(deeper.neighbours(deeper.start))


def test_what_compiles_too_long_keeps_what_is_heavier_out() -> None:
    space, _, _, ledger = made(1, 30.0)
    names = [each.name for each in space.parameters]
    sides = names.index("BM"), names.index("BN")
    warps = names.index("num_warps")

    def load(point: tuple) -> int:
        return point[sides[0]] * point[sides[1]] // point[warps]

    plain = ledger.measure

    def slow(points: list, launches: int, seconds: float) -> list[Timing]:
        results = plain(points, launches, seconds)
        return [
            Timing(error="given up", slow=True) if load(point) >= 4096 else got
            for point, got in zip(points, results, strict=True)
        ]

    ledger.measure = slow
    search(space, ledger, random.Random(0))
    heavy = tuple(256 if i in sides else 8 if i == warps else v for i, v in enumerate(space.start))
    assert not space.is_allowed(heavy)
    assert space.is_allowed(space.start)


def test_presets_are_points_of_the_space() -> None:
    space, *_ = made(0, 1.0)
    presets = space.presets()
    assert len(presets) > 3
    assert all(space.is_allowed(each) for each in presets)
    assert all(v in d for each in presets for v, d in zip(each, space.domains, strict=True))
