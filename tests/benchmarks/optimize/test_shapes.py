"""Shapes are drawn by a seed, are of about as much work, and what becomes of them is counted."""

import itertools
import json
import math

import pytest
from judged import FakeJudge, kernel

from agent.problem.shapes import input_shapes
from benchmarks.optimize.operators.cases import load
from benchmarks.optimize.running import Judges, Runner
from benchmarks.optimize.shapes import __main__ as shapes
from benchmarks.optimize.shapes.draw import draws
from benchmarks.optimize.sharing import alone


def elements(source, name):
    return sum(math.prod(each) for each in input_shapes(source, name))


@pytest.mark.parametrize("operator", load(), ids=lambda operator: operator.name)
def test_every_operator_has_shapes_of_about_as_much_work(operator):
    text = operator.path.read_text()
    given = elements(text, operator.name)
    found = list(itertools.islice(draws(text, operator.name, 3, large=False), 4))
    assert len(found) == 4
    assert found == list(itertools.islice(draws(text, operator.name, 3, large=False), 4))
    for each in found:
        assert each.constants
        assert 0.5 <= elements(each.source, operator.name) / given <= 2.0
        compile(each.source, operator.name, "exec")
    (large,) = itertools.islice(draws(text, operator.name, 3, large=True), 1)
    assert large.label == "large"
    assert max(math.prod(each) for each in input_shapes(large.source, operator.name)) > 1 << 31


def test_windows_and_strides_are_varied():
    (pool,) = load(["max_pool1d"])
    found = list(itertools.islice(draws(pool.path.read_text(), pool.name, 0, large=False), 12))
    settings = [each.constants for each in found if each.label == "settings"]
    assert {name for each in settings for name in each} >= {"WINDOW", "STRIDE", "DILATION"}


def test_what_is_right_and_keeps_its_speed_is_counted(tmp_path, monkeypatch):
    kernels = tmp_path / "operators.json"
    record = {"source": kernel(0.5), "note": "the best"}
    kernels.write_text(json.dumps({"records": {"mish": record}}))
    out = tmp_path / "shapes.json"
    options = shapes._options(
        ["--out", str(out), "--only", "mish", "--kernels", str(kernels), "--draws", "3"]
    )
    judge = FakeJudge()
    found = alone(shapes.BENCHMARK, options, Runner(tmp_path, Judges(lambda: judge)))
    told = found["records"]["mish"]
    assert told["kernel"] == "the best"
    assert told["base"]["floor_fraction"] == 0.2
    assert [each["kept"] for each in told["drawn"]] == [1.0, 1.0, 1.0]
    assert found["summary"]["right"] == found["summary"]["kept_at_least"] == 3
    assert len({tuple(each["constants"].items()) for each in told["drawn"]}) == 3
