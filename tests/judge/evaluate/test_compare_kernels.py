"""What one pass over memory adds up is what PyTorch's operators do."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

CHECK = """
import math
import sys
import torch
from judge.evaluate import compare as plain
from judge.evaluate import compare_kernels as kernels
from judge.evaluate.tolerance import candidate_limits

torch.set_default_device(sys.argv[1])
SIZE = 20_011
if sys.argv[1] != "cuda":  # the interpreter is slow: two programs of three blocks
    SIZE, kernels._STEPS = 5_011, 3
plain._CHUNK, plain._LARGE = 4000, 2**60
torch.manual_seed(0)
FORMATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 7e4, 1e39, -1e39, 1e-42, 1.0)


def check(got, values):
    largest = float(torch.finfo(got.dtype).max)
    sums = kernels.sum_squares(values, got.dtype, largest)
    expected_sums = plain._sum_squares(values, got.dtype, largest)
    assert math.isclose(sums[0], expected_sums[0], rel_tol=1e-12), (sums, expected_sums)
    rounds = got.dtype != torch.bfloat16 or got.is_cuda  # the interpreter cuts bits off
    assert sums[1] == expected_sums[1], (sums, expected_sums)
    assert sums[2] == expected_sums[2] or not rounds, (sums, expected_sums)
    expected = plain.expect(values, got.dtype)
    for limits in (candidate_limits(got.dtype), None):
        one = plain.compare(got, expected, limits)
        found = plain._Comparison(expected, limits, 0)
        other = found.result(plain._Sums(*kernels.difference(got, values, **found.measures)))
        for name in ("problem", "max_abs", "max_rel", "norm_ratio", "unequal"):
            left, right = getattr(one, name), getattr(other, name)
            if not rounds and (limits is None or name == "unequal"):
                continue
            same = left == right or (name != "problem" and math.isclose(left, right, rel_tol=1e-9))
            assert same, (name, got.dtype, limits, left, right)


for dtype in FORMATS:
    for wide in (torch.float64, torch.float32):
        values = torch.randn(SIZE, dtype=wide)
        check(values.to(dtype), values)                       # right
        check((values * 1.5).to(dtype), values)               # wrong
        check(values.to(dtype), torch.zeros_like(values))     # nothing to compare with
        check(torch.zeros_like(values, dtype=dtype), torch.zeros_like(values))
        check(values.to(dtype), values.to(dtype).to(wide))    # representable
        if (dtype.itemsize == 2) != (wide == torch.float32):
            continue  # the other pairs add nothing about special numbers
        for number in SPECIAL:  # in one, in the other, in both
            for left, right in ((number, 1.0), (1.0, number), (number, number)):
                got, exact = values.to(dtype), values.clone()
                got[-1_003] = torch.tensor(left, dtype=torch.float64).to(dtype)
                exact[-1_003] = torch.tensor(right, dtype=torch.float64).to(wide)
                check(got, exact)
"""


def test_a_single_pass_says_what_pytorch_says(interpreted: Callable[..., str]) -> None:
    interpreted(CHECK, "cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_single_pass_says_what_pytorch_says_on_a_gpu() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", CHECK, "cuda"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
