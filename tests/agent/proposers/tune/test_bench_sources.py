"""Many versions in one worker: times, comparisons, failures; and compiling ahead for a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from judge.evaluate.session import CommandFailedError, Session, Worker
from judge.worker import messages as m
from judge.worker.bench_sources import difference
from tests.judge.worker.little import SOFTMAX, Given, load_problem, make_inputs

VERSION = """
import torch
import triton
import triton.language as tl

@triton.jit
def softmax_rows(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=-float("inf"))
    e = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + at, e / tl.sum(e, axis=0), mask=inside)

def kernel_function(x):
    y = torch.empty_like(x)
    softmax_rows[(x.shape[0],)](x, y, x.shape[1], BLOCK=32)
    return y
"""


def bench(worker: Worker, given: Given, sources: list[str], **options: object) -> m.Benched:
    worker.open([each for each in given.exported if each is not None])
    kernel = m.LoadKernel(
        source=VERSION,
        module_name="version",
        form="kernel_function",
        device="cpu",
        input_names=["x"],
    )
    fields = {"launches": 3, "method": "clock", "seconds": 60.0, "compile_seconds": 5.0} | options
    command = m.BenchSources(kernel=kernel, sources=sources, sets=[given.arguments], **fields)
    return worker.bench_sources(command, timeout=90)


@pytest.fixture
def given(evaluation: Session) -> Given:
    problem, _ = load_problem(evaluation, SOFTMAX)
    return make_inputs(evaluation, problem)


def test_versions_are_timed_and_compared_with_the_given_one(
    evaluation: Session, given: Given
) -> None:
    sources = [
        VERSION,
        VERSION.replace("BLOCK=32", "BLOCK=64"),
        VERSION.replace("BLOCK=32", "BLOCK=16"),  # 20 columns: four are not written
        VERSION.replace("e / tl.sum", "1.01 * e / tl.sum"),
        VERSION.replace("BLOCK=32", "BLOCK=33"),
        VERSION.replace("return y", "return y[:1]"),
        VERSION.replace("def kernel_function", "def other"),
        VERSION.replace("y = torch", "raise SystemExit(3); y = torch"),
    ]
    reply = bench(evaluation.worker("versions"), given, sources, passes=2)
    same, wider, short, wrong, odd, shape, missing, leaves = reply.results
    assert [len(each.ms) for each in (same, wider, short, wrong)] == [6, 6, 6, 6]
    assert all(ms > 0 for ms in same.ms)
    assert same.difference == 0
    assert wider.difference is not None
    assert wider.difference < 1e-6
    assert short.difference is not None
    assert short.difference >= 1e30, "what is not written must not look right"
    assert wrong.difference == pytest.approx(0.01, rel=1e-3)
    assert shape.difference is None
    assert "power of" in odd.error
    assert "kernel_function" in missing.error
    assert leaves.error.startswith("SystemExit")
    assert not (odd.ms or missing.ms or leaves.ms)
    assert not reply.lost


def test_time_runs_out_for_the_rest_and_failures_are_remembered(
    evaluation: Session, given: Given
) -> None:
    slow = VERSION.replace("y = torch", "import time; time.sleep(2.5); y = torch")
    broken = VERSION.replace("y = torch", "raise ValueError('first time'); y = torch")
    worker = evaluation.worker("versions")
    reply = bench(worker, given, [broken, slow, VERSION], seconds=2.0)
    assert [each.tried for each in reply.results] == [True, True, False]
    assert reply.results[0].error == "ValueError: first time"
    assert len(reply.results[1].ms) == 3
    again = bench(worker, given, [broken, VERSION], cutoff=4.0)
    assert again.results[0].error == "ValueError: first time"
    assert again.results[1].tried


def test_hopeless_versions_are_launched_twice_only(evaluation: Session, given: Given) -> None:
    slow = VERSION.replace("y = torch", "import time; time.sleep(2.0); y = torch")
    reply = bench(evaluation.worker("versions"), given, [VERSION, slow], cutoff=4.0, launches=5)
    assert [len(each.ms) for each in reply.results] == [5, 2]


def test_a_given_version_that_fails_is_an_error(evaluation: Session, given: Given) -> None:
    worker = evaluation.worker("versions")
    worker.open([each for each in given.exported if each is not None])
    kernel = m.LoadKernel(
        source="def kernel_function(x):\n    raise RuntimeError('given')\n",
        module_name="version", form="kernel_function", device="cpu", input_names=["x"],
    )  # fmt: skip
    command = m.BenchSources(
        kernel=kernel, sources=[VERSION], sets=[given.arguments], launches=1, method="clock",
        seconds=5, compile_seconds=5,
    )  # fmt: skip
    with pytest.raises(CommandFailedError, match="given"):
        worker.bench_sources(command, timeout=30)


def test_differences() -> None:
    one = torch.tensor([1.0, float("nan"), float("inf"), 2.0])
    assert difference([one], [one.clone()]) == 0
    assert difference([one], [torch.tensor([1.0, 5.0, float("inf"), 2.0])]) == 1e30
    assert difference([torch.zeros(3)], [torch.zeros(3)]) == 0
    assert difference([torch.ones(3)], [torch.zeros(3)]) == 1e30
    assert difference([torch.tensor([1, 2, 3, 4])], [torch.tensor([1, 2, 3, 5])]) == 0.25
    assert difference([torch.ones(2)], [torch.ones(2), torch.ones(2)]) is None
    assert difference([torch.ones(2)], [torch.ones(2, dtype=torch.float64)]) is None
    low = torch.ones(4).to(torch.float8_e4m3fn)
    assert difference([low], [low.clone()]) == 0


AHEAD = """
import os, sys, time
import torch, triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from judge.worker.compile_ahead import Compiled, collect_jobs, compile_jobs

class Driver:  # compiling needs no card, only its name
    def get_current_target(self): return GPUTarget("cuda", 90, 32)
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0

triton.runtime.driver.set_active(Driver())

@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

def version(block, warps):
    def run(x):
        out = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block, num_warps=warps)
        return out
    return run

def cubins():
    return sum(name.endswith(".cubin") for _, _, names in os.walk(os.environ["TRITON_CACHE_DIR"])
               for name in names)

def compile_ahead(runs, inputs, *rest):
    return compile_jobs(collect_jobs(runs, inputs), *rest)

def after(seconds):
    return time.perf_counter() + seconds

x = torch.randn(1000)
done = compile_ahead({"128": version(128, 1), "512": version(512, 4), "100": version(100, 4)},
                     [x], 2, 60.0, after(60))
assert done["128"].done and done["512"].done, done
assert "power of 2" in done["100"].error and not done["100"].slow, done
assert cubins() == 2, cubins()
late = compile_ahead({"64": version(64, 1), "32": version(32, 1)}, [x], 1, 60.0, after(0.001))
assert late == {"64": Compiled(), "32": Compiled()}, late
slow = compile_ahead({"64": version(64, 1)}, [x], 1, 0.01, after(60))
assert "compiling takes more than 0.01 s" in slow["64"].error and slow["64"].slow, slow
assert triton.runtime.JITFunction._do_compile.__name__ == "_do_compile"

@triton.autotune(configs=[triton.Config({"BLOCK": b}) for b in (64, 128)], key=["n"])
@triton.jit
def tuned(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

def searching(x):
    tuned[(4,)](x, torch.empty_like(x), x.numel())

assert compile_ahead({"tuned": searching}, [x], 1, 60.0, after(60)) == {}
assert not tuned.cache
print("compiled")
"""


def test_versions_are_compiled_ahead_in_other_processes(tmp_path: Path) -> None:
    script = tmp_path / "ahead.py"
    script.write_text(AHEAD)
    root = Path(__file__).parents[4]
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.stdout == "compiled\n", done.stderr[-2000:]
