"""The fuzzer of the judge: what it changes, a slice of it, and that its published figures hold."""

import ast
import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from benchmarks.judge import differing
from benchmarks.judge.cases import read_suite
from benchmarks.judge.mutation import Mutant, mutants
from judge.evaluate.judge import evaluate
from judge.evaluate.options import Options
from judge.evaluate.result import Verdict

RESULTS = Path(__file__).parents[2] / "benchmarks" / "judge" / "results" / "mutants.json"
PAGE = Path(__file__).parents[2] / "docs" / "evaluation.md"
SLICE = ("softmax_online", "column_sum_two_stage", "leaky_relu_persistent", "matmul_tiles")
EACH = 3

KERNEL = """
import triton
import triton.language as tl


@triton.jit
def _sum(x, y, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y + tl.program_id(0), tl.sum(total) * 0.5)


def kernel_function(x):
    return _sum(x + 1)
"""


def test_every_mutant_is_another_program_that_differs_on_the_gpu_alone() -> None:
    found = mutants(KERNEL, "k", 0, 100)
    whole = ast.unparse(ast.parse(KERNEL))
    assert len({each.text for each in found} | {whole}) == len(found) + 1
    host = whole[whole.index("def kernel_function") :]
    assert all(each.text.rstrip().endswith(host) for each in found)
    assert {each.kind for each in found} >= {
        "operand dropped", "accumulation lost", "bound off by one", "comparison off by one",
        "loop one short", "index off by one", "axis changed", "mask dropped", "padding changed",
        "beginning changed", "constant changed", "operator changed",
    }  # fmt: skip
    assert found == mutants(KERNEL, "k", 0, 100)
    first = mutants(KERNEL, "k", 0, 12)
    assert max(Counter(each.kind for each in first).values()) == 1


@cache
def slice_of(name: str) -> list[Mutant]:
    case = next(each for each in read_suite("honest") if each.name == name)
    telling = ("accumulation lost", "loop one short", "index off by one")
    found = mutants(case.source(), name, 0, 40)
    return [each for each in found if each.kind in telling][:EACH]


# Mutants are made by the worker that tries them, not by each that collects tests.
@pytest.mark.parametrize("number", range(EACH))
@pytest.mark.parametrize("name", SLICE)
def test_a_mutant_is_not_called_right(name: str, number: int, interpreting, tmp_path) -> None:
    mutant = slice_of(name)[number]
    case = next(each for each in read_suite("honest") if each.name == name)
    (tmp_path / "problem.py").write_text(case.problem_source(small=True))
    (tmp_path / "kernel.py").write_text(mutant.text)
    options = Options(interpret=True, timing=False, trust=True)
    found = evaluate(tmp_path / "problem.py", tmp_path / "kernel.py", options, zygote=interpreting)
    assert found.verdict is Verdict.WRONG, mutant.change


COPY = """
import torch
import triton
import triton.language as tl


@triton.jit
def _copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


def kernel_function(x):
    y = torch.empty_like(x)
    _copy[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y
"""
PROBLEM = """
import torch

SIZE = 32


class Model(torch.nn.Module):
    def forward(self, x):
        return x.clone()


def get_inputs():
    return [torch.rand(SIZE)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("old", "new", "outcome"),
    [
        ("program_id(0)", "program_id(1)", "escaped"),  # beyond one block alone
        ("at < n)", "at <= n - 1)", "equal"),
        ("tl.load(x + at", "tl.load(z + at", "raises"),
        ("y = torch", "import time; time.sleep(60)  # y = torch", "untold"),
    ],
)
def test_a_mutant_is_compared_where_its_original_is_right(monkeypatch, old, new, outcome) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(differing, "_GRACE_SECONDS", 3.0)
    # The search ends where it finds a difference; on a busy machine that takes longer than alone.
    seconds = 40.0 if outcome == "escaped" else 4.0
    found, where = differing.differs(PROBLEM, COPY.replace(old, new), COPY, seconds)
    assert found == outcome
    assert bool(where) == (outcome == "escaped")


def test_the_published_figures_are_what_the_results_say() -> None:
    found = json.loads(RESULTS.read_text())
    outcomes = Counter(each["outcome"] for each in found["judged"])
    assert dict(sorted(outcomes.items())) == found["outcomes"]
    assert found["blamed"] == sum(each["blamed"] for each in found["honest_kernels"]) == 0
    assert found["honest"] == len(found["honest_kernels"]) >= 120
    counted = outcomes["caught"] + outcomes["escaped"]
    assert found["share_caught"] == round(outcomes["caught"] / counted, 4)
    published = f"{outcomes['caught']} of {counted}"
    assert published in " ".join(PAGE.read_text().split())
