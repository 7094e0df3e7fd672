"""Timed launches are checked on values on which an earlier result would not pass."""

from pathlib import Path

import pytest

from judge.evaluate.judge import Options, evaluate
from judge.evaluate.result import Evaluation, Verdict
from judge.sandbox.launch import Zygote

# A bfloat16 dot product of 2^18 uniform numbers is within rounding of a constant.
PROBLEM = """
import torch
ROWS = 2
COLS = 262144
class Model(torch.nn.Module):
    def forward(self, a, v):
        return a @ v
def get_inputs():
    return [draw(ROWS, COLS, dtype=torch.bfloat16), draw(COLS, 1, dtype=torch.bfloat16)]
def get_init_inputs():
    return []
"""
UNIFORM = PROBLEM.replace("draw", "torch.rand")
NORMAL = PROBLEM.replace("draw", "torch.randn")
HONEST = """
import torch
def kernel_function(a, v):
    return a @ v
"""
# Right on every value but those of the problem, where it returns what it computed first.
REPLAYS_UNIFORM = """
import torch
_kept = {}
def kernel_function(a, v):
    uniform = bool(a.min() >= 0) and a.shape[1] == 262144 and float(a.max()) > 0.5
    if not uniform:
        return a @ v
    return _kept.setdefault(a.shape, a @ v).clone()
"""
NOTE = "times are for zero-mean inputs"


@pytest.fixture
def judge(interpreting: Zygote, tmp_path: Path):
    def run(problem: str, kernel: str) -> Evaluation:
        (tmp_path / "problem.py").write_text(problem)
        (tmp_path / "kernel.py").write_text(kernel)
        options = Options(device="cpu", trust=True, baselines=("eager",), quick=True)
        return evaluate(
            tmp_path / "problem.py", tmp_path / "kernel.py", options, zygote=interpreting
        )

    return run


def test_where_a_constant_would_pass_times_are_taken_on_zero_mean_values(judge):
    found = judge(UNIFORM, HONEST)
    assert found.verdict is Verdict.LIBRARY
    assert found.timings
    assert any(NOTE in text for text in found.disclosures)


def test_elsewhere_they_are_taken_on_the_problem_s_own_values(judge):
    found = judge(NORMAL, HONEST)
    assert found.timings
    assert not any(NOTE in text for text in found.disclosures)


def test_a_result_replayed_on_the_problem_s_own_values_is_not_what_is_timed(judge):
    """It is within tolerance there for most draws, so what it would gain has to be taken away."""
    found = judge(UNIFORM, REPLAYS_UNIFORM)
    assert found.verdict is not Verdict.CORRECT
    assert not found.timings or any(NOTE in text for text in found.disclosures)
