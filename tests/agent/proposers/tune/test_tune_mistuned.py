"""The mistuned kernels are right when every size is changed in their text."""

import random
from typing import Any

import pytest
import torch

from agent.proposers.tune.autotune import read_tunables
from agent.proposers.tune.space import Space
from benchmarks.optimize.mistuned.cases import Case, load
from judge.evaluate.session import Session
from judge.problem.kernel import KernelFile
from tests.judge.worker.little import load_kernel, load_problem, make_inputs, outputs_of, share

CASES = load()


def test_there_are_twenty_kernels_of_a_dozen_operators() -> None:
    assert len(CASES) >= 20
    assert len({each.operator for each in CASES}) >= 13


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_stays_right_with_other_sizes(evaluation: Session, case: Case) -> None:
    tunable, _ = read_tunables(case.kernel)
    space = Space(tunable)
    generator = random.Random(case.name)
    tiles = [i for i, each in enumerate(space.parameters) if each.role == "tile"]
    changed = space.start
    while tiles and changed == space.start:
        # The interpreter takes its time with large blocks, and small ones show what is left out.
        drawn = space.random_point(generator)
        assert drawn is not None
        small = [v for i, v in enumerate(drawn) if i in tiles and isinstance(v, int)]
        changed = drawn if max(small) <= 256 else space.start
    problem = load_problem(evaluation, case.small)
    worker = problem[0]
    given = make_inputs(evaluation, worker)
    worker.contender("eager")
    expected = outputs_of(evaluation, worker, worker.call(given.arguments), "eager")
    form = KernelFile.parse(case.kernel).form.value
    # What is right with all sizes changed was right before.
    candidate, _ = load_kernel(evaluation, space.text(changed), form, problem=problem)
    called = candidate.call(share(candidate, given), poison=True)
    actual = outputs_of(evaluation, candidate, called, "out")
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert close(one, other), space.values(changed)


def close(one: Any, other: Any) -> bool:
    """Equal but for the order of sums in float16 or float32."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    tolerance = 1e-4 if one.dtype == torch.float32 else 2e-2
    return bool(torch.allclose(one.double(), other.double(), rtol=tolerance, atol=tolerance))
