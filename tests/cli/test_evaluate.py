"""`kb evaluate`: the verdict and the exit status, on a terminal and as JSON."""

import json
import os
import subprocess

import pytest
import torch
from support import KB

from judge.evaluate.render import render
from judge.evaluate.result import (
    Case,
    Ceilings,
    Evaluation,
    Floor,
    PowerCheck,
    Ratio,
    Timing,
    Verdict,
)
from judge.sandbox.layers import Layer, LayerName
from kb.printable import WIDTH

PROBLEM = """
import torch

ROWS = 4
COLS = 20


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


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
def _relu(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, tl.maximum(x, FLOOR), mask=offsets < count)


def kernel_function(x):
    out = torch.empty_like(x)
    _relu[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "problem.py").write_text(PROBLEM)
    (tmp_path / "right.py").write_text(KERNEL.replace("FLOOR", "0.0"))
    (tmp_path / "wrong.py").write_text(KERNEL.replace("FLOOR", "0.001"))
    return tmp_path


def run(folder, *arguments):
    return subprocess.run(
        [KB, "evaluate", *map(str, arguments)],
        cwd=folder, capture_output=True, text=True, timeout=200, check=False,
        env=os.environ | {"COLUMNS": "80"},
    )  # fmt: skip


def test_a_right_kernel_exits_with_zero_and_prints_the_verdict_first(files):
    done = run(files, "problem.py", "right.py", "--interpret", "--trust")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "CORRECT: right.py on problem.py"
    assert max(map(len, lines)) <= 80
    assert "Triton's interpreter" in done.stdout
    assert "contender" not in done.stdout  # no times without a GPU
    assert "checking the full shape" in done.stderr


def test_a_wrong_kernel_exits_with_three_and_json_shows_where(files):
    done = run(files, "problem.py", "wrong.py", "--interpret", "--trust", "--json")
    assert done.returncode == 3, done.stderr
    found = Evaluation.model_validate(json.loads(done.stdout))
    assert found.verdict is Verdict.WRONG
    wrong = next(case for case in found.cases if not case.passed)
    assert wrong.counterexamples[0].expected == 0
    assert found.timings == ()


def test_a_problem_that_cannot_be_read_is_one_line_and_exit_one(files):
    done = run(files, "nowhere.py", "right.py", "--interpret")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("kb: cannot read nowhere.py")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_one_line_names_the_interpreter(files):
    done = run(files, "problem.py", "right.py")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "kb: no GPU was found; --interpret checks a Triton kernel's results without one, at "
        "reduced sizes"
    ]


def test_cuda_needs_a_gpu_and_is_told_so(files):
    (files / "kernel.cu").write_text(
        "/*\n---\nentry: f\ninputs: [x]\noutputs:\n  - {name: y, like: x}\n"
        "arguments: [x, y, stream]\n---\n*/\n"
        'extern "C" int f(const float*, float*, void*) { return 0; }\n'
    )
    done = run(files, "problem.py", "kernel.cu", "--interpret")
    assert done.returncode == 1
    assert "is CUDA and needs a GPU" in done.stderr


def test_wrong_usage_exits_with_two(files):
    assert run(files, "problem.py").returncode == 2
    assert run(files, "problem.py", "right.py", "--dtype", "int3").returncode == 2
    assert run(files, "problem.py", "right.py", "--seed-count", "4").returncode == 2
    unknown = run(files, "problem.py", "right.py", "--baselines", "eager,best")
    assert unknown.returncode == 2
    assert "no baseline 'best'" in unknown.stderr


def test_the_help_says_what_the_exit_status_means(files):
    help_text = " ".join(run(files, "--help").stdout.split())
    assert "3 wrong, 4 cheat, 5 inconclusive" in help_text
    for option in ("--json", "--dtype", "--interpret", "--against", "--no-timing", "--trust",
                   "--tf32", "--seed-count", "--device", "--baselines"):  # fmt: skip
        assert option in help_text


def timing(contender, median, fraction, flagged=()):
    return Timing(
        contender=contender, method="events", median_ms=median, p10_ms=median * 0.99,
        p90_ms=median * 1.02, launches=120, floor_fraction=fraction, flagged=flagged,
    )  # fmt: skip


def evaluation():
    case = Case(
        shape="full", kind="normal", seed_index=0, counted=True, passed=True, max_abs=1e-3,
        max_rel=2e-3, norm_ratio=1.7e-3, tolerance=7.5e-3, tolerance_max_rel=1.5e-2,
    )  # fmt: skip
    return Evaluation(
        problem="rmsnorm_channels.py", problem_sha256="0", kernel="kernel.py", kernel_sha256="1",
        language="triton", dtype="bfloat16", precision="ieee", device="cuda:0", interpreted=False,
        gpu="NVIDIA H200", versions={"torch": "2.11.0", "triton": "3.6.0"}, date="2026-01-01",
        verdict=Verdict.CORRECT, reasons=(), disclosures=("it issues work on its own stream " * 4,),
        oracle="float64", cases=(case,),
        power=(PowerCheck(mutation="zeros", rejected_by="full shape, normal values"),),
        timings=(
            timing("candidate", 1.70, 1.04, ("1.04 of the floor: faster than all bytes",)),
            timing("eager", 8.25, 0.213),
            timing("max-autotune", 1.7004, 0.97),
            timing("1:a_very_long_kernel_file_name.py", 0.012345, None),
        ),
        ratios=(
            Ratio(of="candidate", over="eager", ratio=4.853, low=4.81, high=4.9, significant=True),
            Ratio(
                of="candidate", over="max-autotune", ratio=1.0002, low=0.998, high=1.003,
                significant=False,
            ),
        ),
        floor=Floor(
            read_bytes=3758096384, write_bytes=3758096384, flops=0.0, ms=1.76, bound="memory"
        ),
        ceilings=Ceilings(
            read_bps=4.1e12, write_bps=4.0e12, copy_bps=4.27e12,
            matmul_flops={"bfloat16": 7.9e14}, measured_at="2026-01-01",
        ),
        sandbox=(
            Layer(name=LayerName.LANDLOCK, active=True), Layer(name=LayerName.MOUNTS, active=False),
        ),
        seconds=61.0,
    )  # fmt: skip


def test_times_are_a_table_of_eighty_columns_with_what_is_odd_marked():
    lines = render(evaluation()).splitlines()
    assert max(map(len, lines)) <= WIDTH
    rows = {line.split()[0]: line for line in lines if line}
    assert "1.04!" in rows["candidate"]
    assert "4.853 (4.810 to 4.900)" in rows["eager"]
    assert rows["max-autotune"].endswith("none (0.998 to 1.003)")
    assert "- candidate: 1.04 of the floor: faster than all bytes" in lines
    assert "Sandbox: landlock; not active: mounts" in lines
    assert any(line.startswith("Floor 1.76 ms (memory)") for line in lines)
