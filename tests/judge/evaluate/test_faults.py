"""A failure of the problem's own side is never a dropped case that a wrong kernel profits from."""

from pathlib import Path

import pytest

from judge.evaluate.judge import evaluate
from judge.evaluate.options import Options
from judge.evaluate.result import Evaluation, Verdict

PROBLEM = """
import pathlib
import torch

ROWS = 6
COLS = 37


class Model(torch.nn.Module):
    def forward(self, x):
        {fault}
        return x * 2


def get_inputs():
    return [torch.rand(ROWS, COLS)]


def get_init_inputs():
    return []
"""
KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def _double(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count)
    tl.store(out_ptr + at, x * 2, mask=at < count)


def kernel_function(x):
    out = torch.empty_like(x)
    _double[(triton.cdiv(x.numel(), 32),)](x, out, x.numel(), BLOCK=32)
    return out
"""
# Counts calls of the model in this process; a fresh process begins anew.
CALLS = "Model.calls = getattr(Model, 'calls', 0) + 1"


@pytest.fixture
def judge(interpreting, tmp_path: Path):
    def run(fault: str) -> Evaluation:
        (tmp_path / "problem.py").write_text(PROBLEM.format(fault=fault))
        (tmp_path / "kernel.py").write_text(KERNEL)
        return evaluate(
            tmp_path / "problem.py", tmp_path / "kernel.py",
            Options(interpret=True, timing=False, trust=True), zygote=interpreting,
        )  # fmt: skip

    return run


def raising(what: str, after: int) -> str:
    return f"{CALLS}\n        if Model.calls > {after}: raise {what}"


def test_what_does_not_repeat_in_a_fresh_process_ends_the_evaluation(judge) -> None:
    found = judge(raising("ValueError('no')", 8))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert (
        "failed (ValueError) while the kernel's process ran, but alone it ran" in found.reasons[0]
    )


@pytest.mark.parametrize(
    "shortage",
    ["OSError(28, 'No space left on device')", "MemoryError()", "torch.OutOfMemoryError()"],
)
def test_a_shortage_of_the_machine_ends_the_evaluation(judge, shortage: str) -> None:
    found = judge(raising(shortage, 0))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "the reference failed" in found.reasons[0]


def test_what_the_problem_itself_refuses_is_still_left_out(judge) -> None:
    found = judge("assert not torch.isinf(x).any(), 'finite numbers only'")
    assert found.verdict is Verdict.CORRECT, found.reasons
    assert [each.kind for each in found.cases if not each.counted] == ["inf"]
