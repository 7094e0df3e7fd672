"""Where outputs are few, a kernel is held to eager's error on inputs close by as well."""

from pathlib import Path

import pytest

from judge.evaluate import neighbours
from judge.evaluate.judge import evaluate
from judge.evaluate.options import Options
from judge.evaluate.result import Case, Evaluation, Verdict

# Nearly the same distributions: the divergence is 0.001, what it is computed from about 6.
PROBLEM = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        p, q = torch.log_softmax(x, -1), torch.log_softmax(y, -1)
        return (p.exp() * (p - q)).sum() / x.shape[0]


def get_inputs():
    return [torch.randn(8, 300) / 32, torch.randn(8, 300) / 32]


def get_init_inputs():
    return []
"""
KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def _divergence(x, y, out, rows, n, BLOCK: tl.constexpr):
    mean = 0.0
    for row in range(rows):
        top, total, high, rest, cross = -float("inf"), 0.0, -float("inf"), 0.0, 0.0
        for start in range(0, n, BLOCK):
            at = start + tl.arange(0, BLOCK)
            inside = at < n
            a = tl.load(x + row * n + at, mask=inside, other=-float("inf"))
            b = tl.load(y + row * n + at, mask=inside, other=-float("inf"))
            now = tl.maximum(top, tl.max(a, 0))
            powers = tl.exp(a - now)
            scale = tl.exp(top - now)
            total = total * scale + tl.sum(powers, 0)
            cross = cross * scale + tl.sum(tl.where(inside, powers * (a - b), 0.0), 0)
            top = now
            now = tl.maximum(high, tl.max(b, 0))
            rest = rest * tl.exp(high - now) + tl.sum(tl.exp(b - now), 0)
            high = now
        mean += (cross / total - (top + tl.log(total)) + (high + tl.log(rest))){mistake}
    tl.store(out, mean / rows)


def kernel_function(x, y):
    out = torch.empty((), device=x.device)
    _divergence[(1,)](x, y, out, x.shape[0], x.shape[1], BLOCK=128)
    return out
"""


@pytest.fixture
def judge(interpreting, tmp_path: Path):
    def run(mistake: str = "", *, spread: str = "32") -> Evaluation:
        (tmp_path / "problem.py").write_text(PROBLEM.replace("/ 32", f"/ {spread}"))
        (tmp_path / "kernel.py").write_text(KERNEL.replace("{mistake}", mistake))
        options = Options(interpret=True, timing=False, trust=True)
        return evaluate(
            tmp_path / "problem.py", tmp_path / "kernel.py", options, zygote=interpreting
        )

    return run


def test_a_right_kernel_of_a_loss_that_cancels_is_right_again_and_again(judge) -> None:
    for _ in range(3):
        found = judge()
        assert found.verdict is Verdict.CORRECT, found.reasons


def test_a_mistake_of_a_fiftieth_is_wrong_there_as_well(judge) -> None:
    found = judge(" * 1.02")
    assert found.verdict is Verdict.WRONG


@pytest.mark.parametrize("spread", ["512", "1024"])
def test_a_right_kernel_is_not_wrong_where_the_loss_is_a_few_roundings(judge, spread) -> None:
    # The loss is 4e-6 or 1e-6: of these the roundings of numbers near 6 are up to a tenth.
    found = judge(spread=spread)
    assert found.verdict in {Verdict.CORRECT, Verdict.INCONCLUSIVE}, found.reasons


def test_who_writes_zero_there_is_not_right(judge) -> None:
    found = judge(" * 0", spread="512")
    assert found.verdict not in {Verdict.CORRECT, Verdict.INCONCLUSIVE}, found.reasons


FAILED = Case(
    shape="full", kind="normal", seed_index=0, counted=True, passed=False, max_abs=1e-3,
    norm_ratio=1e-4, max_rel=1e-4, tolerance=5e-6, tolerance_max_rel=5e-5, problem="off",
)  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "close"),
    [
        ({}, True),
        ({"norm_ratio": float("inf"), "max_rel": float("inf")}, True),  # zero was to come out
        ({"norm_ratio": 1e-3}, False),
        ({"norm_ratio": 1e-2, "max_rel": 1e-2, "max_abs": 4e-7}, True),  # a few roundings
        ({"norm_ratio": 0.1, "max_rel": 0.1, "max_abs": 4e-7}, True),  # eager may as well
        ({"norm_ratio": 0.1, "max_rel": 0.1}, False),
        ({"norm_ratio": 1e-7, "max_rel": 1e-7}, False),  # it wrote its inputs, or beside them
        ({"max_abs": float("inf"), "norm_ratio": float("inf")}, False),
        ({"passed": True}, False),
        ({"counted": False}, False),
        ({"refused": True}, False),
        ({"max_abs": None, "norm_ratio": None, "max_rel": None}, False),  # it raised
    ],
)
def test_only_what_is_off_by_little_is_looked_at_again(changed, close: bool) -> None:
    assert neighbours.is_close(FAILED.model_copy(update=changed), roundings=5e-7) is close
