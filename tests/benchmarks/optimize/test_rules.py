"""The ablation of the search's rules: landscapes are measured, searches walk on them."""

import itertools
import json

import pytest

from agent.problem.source import ProblemFile
from agent.sandbox.launch import Zygote
from agent.tune.autotune import opened
from agent.tune.space import Limits, Space
from benchmarks.optimize.operators.cases import Operator, load
from benchmarks.optimize.rules import __main__ as rules
from benchmarks.optimize.rules import landscape
from benchmarks.optimize.rules.walk import Landscape, place_of, source_of, walk
from kb.errors import KbError

KERNEL = """
import triton
import triton.language as tl


@triton.jit
def _double(x, y, count, TILE: tl.constexpr, ROWS: tl.constexpr, OTHER: tl.constexpr):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    more = tl.arange(0, ROWS)[:, None] + tl.arange(0, OTHER)[None, :]
    tl.store(y + at, 2 * tl.load(x + at, mask=at < count) + tl.sum(more), mask=at < count)


def kernel_function(x, tile=1024, rows=16, other=32, num_warps=4):
    y = x.clone()
    _double[(x.numel() // tile,)](
        x, y, x.numel(), TILE=tile, ROWS=rows, OTHER=other, num_warps=num_warps
    )
    return y
"""


def record(best: tuple[int, int, int]) -> dict[str, object]:
    """Three kernels of which the second is fastest, at `best`; the third does not always work."""
    kernels = []
    for k in range(3):
        points = []
        for place in itertools.product(range(3), repeat=3):
            away = sum(abs(a - b) for a, b in zip(place, best, strict=True))
            ms = 1.0 + 0.3 * away + (0.0 if k == 1 else 1.5)
            values = {"num_warps": 2 ** place[0], "num_stages": place[1] + 1, f"tile{k}": place[2]}
            works = k < 2 or sum(place) % 3 != 1
            points.append({"values": values, "ms": ms if works else None})
        settings = list(points[0]["values"])  # type: ignore[call-overload]
        kernels.append({"family": f"family{k}", "settings": settings, "points": points})
    return {"name": "made", "eager_ms": 9.0, "kernels": kernels}


def test_a_grid_holds_the_given_point_and_its_neighbours() -> None:
    tunable, _ = opened(KERNEL)
    space = Space(tunable, Limits())
    names, points = landscape.grid(space)
    assert points[0] == space.start
    assert len(set(points)) == len(points) <= 3 ** len(names)
    assert "num_warps" in names
    assert len(names) <= 4
    for index, each in enumerate(space.parameters):
        values = {point[index] for point in points}
        assert each.value in values
        assert len(values) <= (3 if each.name in names else 1)
    assert all(space.allowed(point) for point in points)


def test_a_place_is_told_by_its_source() -> None:
    place = (2, (4, 3, 64, True))
    assert place_of(source_of(place)) == place
    assert place_of("def kernel_function(x):\n    return x\n") is None


def test_a_search_walks_until_its_budget_is_spent_and_again_the_same_way() -> None:
    made = Landscape.of(record((2, 2, 2)))
    assert made.best_ms == 1.0
    found = walk(made, 3, 32, crossover=True, retirement=True)
    assert len(found.best) == 32
    assert found.best == sorted(found.best, reverse=True)
    assert found.best[-1] == 1.0
    assert walk(made, 3, 32, crossover=True, retirement=True) == found
    assert walk(made, 4, 32, crossover=True, retirement=True) != found


def test_each_rule_has_its_switch() -> None:
    made = Landscape.of(record((2, 2, 2)))
    walks = {
        name: [walk(made, seed, 48, **each) for seed in range(4)]
        for name, each in rules.ARMS.items()
    }
    combined = {name: sum(w.combined for w in each) for name, each in walks.items()}
    retired = {name: sum(w.retired for w in each) for name, each in walks.items()}
    assert combined["both"] > 0
    assert combined["no-retirement"] > 0
    assert combined["no-crossover"] == combined["neither"] == 0
    assert retired["both"] > 0
    assert retired["no-crossover"] > 0
    assert retired["no-retirement"] == retired["neither"] == 0


def test_arms_are_compared_by_seed(tmp_path, capsys) -> None:
    place = tmp_path / "landscapes.json"
    place.write_text(json.dumps({"gpus": ["H200"], "records": {"made": record((1, 2, 0))}}))
    out = tmp_path / "rules.json"
    assert rules.main(["--landscapes", str(place), "--out", str(out), "--seeds", "3"]) == 0
    told = json.loads(out.read_text())
    assert told["operators"]["made"]["best_ms"] == 1.0
    assert told["operators"]["made"]["work"] < told["operators"]["made"]["points"] == 81
    for arm in rules.ARMS:
        at = told["arms"][arm]["at"]
        assert at["64"]["over_the_best_point"] <= at["16"]["over_the_best_point"]
    assert told["arms"]["neither"]["at"]["16"]["faster_than_neither"] == 1.0
    assert "no-retirement" in capsys.readouterr().out
    place.write_text('{"records": {}}')
    with pytest.raises(KbError, match="holds no landscape"):
        rules.main(["--landscapes", str(place), "--out", str(out)])


def test_a_landscape_is_measured(tmp_path, monkeypatch) -> None:
    """In the interpreter: every point that works has a time, kernels have their families."""
    (operator,) = load(["group_norm"])
    path = tmp_path / "group_norm.py"
    small = {"BATCH": 2, "CHANNELS": 32, "HEIGHT": 4, "WIDTH": 4}
    path.write_text(ProblemFile.read(operator.path).with_constants(small))
    little = Operator(operator.name, path, "float32", operator.about, operator.family, operator.of)
    for name, value in (
        ("_MOST_SETTINGS", 1),
        ("_VALUES", 2),
        ("_LAUNCHES", 1),
        ("_MORE_LAUNCHES", 1),
    ):
        monkeypatch.setattr(landscape, name, value)
    with Zygote(interpret=True) as zygote:
        found = landscape.measure(
            little, device="cpu", zygote=zygote, seconds=60.0, seed=0, trust=True
        )
    assert len({each["family"] for each in found["kernels"]}) > 1
    for each in found["kernels"]:
        assert len(each["settings"]) == 1
        assert any(point["ms"] for point in each["points"])
    made = Landscape.of(found)
    assert len(made.starts) == len(found["kernels"])
    assert all(start in made.ms for start in made.starts)
