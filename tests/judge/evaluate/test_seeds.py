"""PyTorch itself is an accepted start, and no verdict's class depends on the secret seeds."""

from pathlib import Path

import pytest

from judge.evaluate.judge import evaluate
from judge.evaluate.options import EAGER, Options
from judge.evaluate.result import Evaluation, Verdict
from judge.problem.forms import as_kernel

PROBLEM = """
import torch

ROWS = {rows}
COLS = {columns}


class Model(torch.nn.Module):
    def forward(self, x{more}):
        return {forward}


def get_inputs():
    return [torch.rand(ROWS, COLS){inputs}]


def get_init_inputs():
    return []
"""
LABELS = ", torch.randint(0, COLS, (ROWS,))"
HARD = {
    "a long sum in bfloat16": ("torch.cumsum(x, 1)", "", ""),
    "a mean over many losses": ("torch.nn.functional.cross_entropy(x, y)", ", y", LABELS),
    "a divergence": (
        "torch.nn.functional.kl_div(torch.log_softmax(x, -1), torch.softmax(y, -1), "
        "reduction='batchmean')", ", y", ", torch.rand(ROWS, COLS)",
    ),
    "a margin": (
        "torch.nn.functional.triplet_margin_loss(x, y, z)", ", y, z",
        ", torch.rand(ROWS, COLS), torch.rand(ROWS, COLS)",
    ),
    "a saturated output": ("torch.sigmoid(x.sum(-1))", "", ""),
}  # fmt: skip
RECURRENT = """
import torch

BATCH = 4
STEPS = 64
WIDTH = 16


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.GRU(width, width, batch_first=True)

    def forward(self, x, state):
        return self.layer(x, state)[1]


def get_inputs():
    return [torch.rand(BATCH, STEPS, WIDTH), torch.rand(1, BATCH, WIDTH)]


def get_init_inputs():
    return [WIDTH]
"""
RANDOM = {
    "dropout": ("torch.softmax(torch.nn.functional.dropout(x, 0.2), -1)", "", ""),
    "a random state": ("x + 0.01 * torch.randn(x.shape)", "", ""),
}
SEEDS = 3


@pytest.fixture
def judge(interpreting, tmp_path: Path):
    def run(problem: str, kernel: str) -> Evaluation:
        (tmp_path / "problem.py").write_text(problem)
        (tmp_path / "kernel.py").write_text(kernel)
        options = Options(device="cpu", dtype="bfloat16", timing=False, trust=True)
        return evaluate(
            tmp_path / "problem.py", tmp_path / "kernel.py", options, zygote=interpreting
        )

    return run


def problem_of(forward: str, more: str, inputs: str) -> str:
    return PROBLEM.format(rows=256, columns=512, forward=forward, more=more, inputs=inputs)


@pytest.mark.parametrize("name", HARD | RANDOM)
def test_pytorch_itself_is_accepted_at_any_seed(judge, name: str) -> None:
    problem = problem_of(*(HARD | RANDOM)[name])
    for _ in range(SEEDS):
        found = judge(problem, as_kernel(problem, EAGER))
        assert found.verdict is Verdict.LIBRARY, (found.reasons, found.disclosures)
        assert found.reasons == ("it is the problem's own model, run by PyTorch",)


@pytest.mark.parametrize("name", HARD)
def test_the_same_operators_in_another_file_get_the_same_class_at_any_seed(judge, name) -> None:
    problem = problem_of(*HARD[name])
    other = problem.replace("class Model(", "class ModelNew(")
    verdicts = {judge(problem, other).verdict for _ in range(SEEDS)}
    assert verdicts == {Verdict.LIBRARY}


def test_a_first_state_that_many_steps_forget_is_told_at_few_steps(judge) -> None:
    other = RECURRENT.replace("class Model(", "class ModelNew(")
    found = judge(RECURRENT, other)
    assert found.verdict is Verdict.LIBRARY, found.reasons
    # The seed may choose one step itself; else a shape of three is added.
    assert any(each.constants.get("STEPS") in {1, 3} for each in found.cases)
    forgets = other.replace("(x, state)[1]", "(x, 0 * state)[1]")
    assert judge(RECURRENT, forgets).verdict is Verdict.WRONG


def test_what_cannot_be_shown_of_pytorch_itself_is_told(judge) -> None:
    problem = problem_of(*RANDOM["dropout"])
    found = judge(problem, as_kernel(problem, EAGER))
    assert any("not verified: no case" in each for each in found.disclosures), found.disclosures


def test_a_wrong_kernel_of_a_hard_problem_is_still_wrong(judge) -> None:
    problem = problem_of(*HARD["a long sum in bfloat16"])
    wrong = problem.replace("class Model(", "class ModelNew(").replace("(x, 1)", "(x * 1.5, 1)")
    assert judge(problem, wrong).verdict is Verdict.WRONG
