"""The timer goes on when a version ends its process, and drops what gives other results."""

from pathlib import Path

import pytest

from agent.problem.kernel import KernelFile
from agent.problem.source import ProblemFile
from agent.sandbox.launch import Zygote
from agent.tune.timing import SourceTimer, Subject
from kb.errors import KbError

KERNEL = Path("benchmarks/judge/honest/leaky_relu_flat.py").read_text()
PROBLEM = ProblemFile.read(Path("benchmarks/judge/problems/leaky_relu.py")).with_constants(
    {"ROWS": 4, "COLS": 64}
)


def timer(zygote: Zygote, kernel: str = KERNEL) -> SourceTimer:
    return SourceTimer(Subject(PROBLEM, KernelFile.parse(kernel), "cpu", trust=True), zygote)


def test_a_version_that_ends_the_process_takes_no_other_with_it(interpreting: Zygote) -> None:
    leaves = KERNEL.replace("    out =", "    import os\n    os._exit(1)\n    out =")
    wrong = KERNEL.replace("0.1 * x", "0.2 * x")
    short = KERNEL.replace("triton.cdiv(x.numel(), 1024)", "0 * x.numel() + 1").replace(
        "BLOCK=1024", "BLOCK=128"
    )
    with timer(interpreting) as timing:
        results = timing.times([KERNEL, leaves, wrong, short, KERNEL + "\n"], 2, 60.0)
        assert timing.item_bytes == 4
    given, ended, other, unwritten, last = results
    assert len(given.ms) == len(last.ms) == 2
    assert "ended during bench_sources" in ended.error
    assert other.error.startswith("its outputs differ by ")
    assert unwritten.error.startswith("its outputs differ by 1e+30")
    assert timing.held_seconds > 0


def test_no_time_is_no_failure(interpreting: Zygote) -> None:
    with timer(interpreting) as timing:
        (result,) = timing.times([KERNEL], 2, 0.0)
    assert not result.tried
    assert not result.error


def test_a_kernel_that_does_not_run_is_an_error(interpreting: Zygote) -> None:
    broken = KERNEL.replace("    out =", "    raise ValueError('not here')\n    out =")
    with (
        pytest.raises(KbError, match="the kernel to tune fails: ValueError: not here"),
        timer(interpreting, broken) as timing,
    ):
        timing.times([KERNEL], 2, 10.0)
