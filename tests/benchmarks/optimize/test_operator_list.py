"""The operators: what the lists promise, and that each can be judged at smaller sizes."""

import math
from collections import Counter

import pytest
import torch

from benchmarks.optimize import problems
from benchmarks.optimize.operators import LISTS, load
from judge.problem.shapes import input_shapes
from judge.problem.source import ProblemFile
from judge.problem.variants import propose

NAMES = [each.name for each in load()]
# Inputs and output in the operator's own format; the oracle takes two to four times as much.
MOST_BYTES = 4 << 30


def executed(text, name):
    namespace = {}
    exec(compile(text, name, "exec"), namespace)
    return namespace


def cast(inputs, dtype):
    return [each.to(dtype) if each.is_floating_point() else each for each in inputs]


def in_its_format(model, given, dtype):
    """PyTorch has some pooling in bfloat16 on the GPU alone; there float32 stands in."""
    try:
        return model.to(dtype)(*given)
    except NotImplementedError:
        return model.float()(*cast(given, torch.float32)).to(dtype)


def test_there_are_twenty_operators_and_twenty_more_and_none_of_the_five_problems():
    assert [len(load(lists=(each,))) for each in LISTS] == [20, 20]
    assert len(set(NAMES)) == len(NAMES) == 40
    assert not set(NAMES) & set(problems.NAMES)
    assert {each.dtype for each in load()} == {"bfloat16", "float32"}
    assert all(each.about.endswith(".") for each in load())


def test_every_family_has_at_least_four_operators():
    families = Counter(each.family for each in load())
    assert set(families) == {
        "elementwise", "reductions", "norms", "softmax", "pooling", "matmul", "convolutions",
        "scans", "attention", "losses",
    }  # fmt: skip
    assert min(families.values()) >= 4


@pytest.mark.parametrize("name", NAMES)
def test_an_operator_is_read_scaled_and_right_in_its_own_format(name):
    (operator,) = load([name])
    file = ProblemFile.read(operator.path)
    shapes = input_shapes(file.text, name)
    item = getattr(torch, operator.dtype).itemsize
    assert shapes is not None
    assert sum(math.prod(each) for each in shapes) * item < MOST_BYTES // 2
    reduced, *variants = propose(file, 0, reduced=1, variants=3, limit_elements=1 << 12)
    assert reduced.label == "reduced"
    assert variants
    for variant in (reduced, *variants):
        problem = executed(file.with_constants(variant.constants), name)
        torch.manual_seed(0)
        model = problem["Model"](*problem["get_init_inputs"]())
        given = cast(problem["get_inputs"](), getattr(torch, operator.dtype))
        with torch.no_grad():
            low = in_its_format(model, given, getattr(torch, operator.dtype))
            high = model.double()(*cast(given, torch.float64))
        assert low.shape == high.shape
        if low.is_floating_point():
            assert (low.double() - high).norm() <= 0.02 * high.norm()
        else:
            assert torch.equal(low, high)
