"""Timing with real sandboxed workers on the CPU: an honest kernel, a cache and a liar."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from judge.evaluate.result import TimingReport
from judge.evaluate.session import Session, Worker
from judge.evaluate.timing import Conditions, Contender, Effort, time_contenders
from judge.sandbox import processes
from judge.worker.messages import LoadKernel, LoadProblem, TensorSpec

PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return (x * 2).sum(1)

def get_inputs():
    return [torch.randn(64, 128)]

def get_init_inputs():
    return []
"""
HONEST = """
def kernel_function(x):
    return x.sum(1) * 2
"""
CACHE = """
kept = {}
def kernel_function(x):
    return kept.setdefault(x.data_ptr(), x.sum(1) * 2)
"""
# Sleeps for 10 ms a launch, and has its process report a thousandth of that.
LIAR = """
import time
from judge.worker import events

honest = events.Timer.time
events.Timer.time = lambda *args, **options: [ms / 1000 for ms in honest(*args, **options)]

def kernel_function(x):
    time.sleep(0.01)
    return x.sum(1) * 2
"""
SPINNING = """
import threading
def spin():
    while True:
        pass
threading.Thread(target=spin, daemon=True).start()
"""
OUTPUTS = [TensorSpec(shape=(64,), dtype="float32")]


def inputs_of(seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.randn(64, 128)


def check_launch(seed: int, outputs: Sequence[Any]) -> str | None:
    expected = inputs_of(seed).double().sum(1) * 2
    return None if torch.allclose(outputs[0].double(), expected, atol=1e-4) else "wrong"


def kernel(session: Session, name: str, source: str) -> Contender:
    worker = session.worker(name)
    worker.load_kernel(
        LoadKernel(
            source=source, module_name="kernel", form="kernel_function", device="cpu",
            input_names=["x"],
        )
    )  # fmt: skip
    return Contender(name, worker, OUTPUTS, checked=True)


def states(worker: Worker) -> set[str]:
    process: Any = worker.process
    below = processes.descendants(process.pid)[process.own_processes :]
    threads = [thread for pid in below for thread in Path(f"/proc/{pid}/task").iterdir()]
    return {(thread / "stat").read_text().rpartition(")")[2].split()[0] for thread in threads}


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session("cpu") as opened:
        yield opened


def test_a_paused_worker_does_nothing_until_it_is_resumed_or_ended(session: Session) -> None:
    worker = session.worker("any")
    # A thread of its own that is never idle.
    worker.load_problem(LoadProblem(source=PROBLEM + SPINNING, device="cpu"))
    assert worker.pause()
    assert states(worker) == {"T"}
    worker.resume()
    assert states(worker) != {"T"}
    assert len(worker.describe_inputs(1)) == 1
    assert worker.pause()
    worker.stop()
    assert not worker.alive


@pytest.fixture(scope="module")
def found(session: Session) -> TimingReport:
    problem = session.worker("problem")
    problem.load_problem(LoadProblem(source=PROBLEM, device="cpu"))
    eager = session.worker("eager")
    eager.load_problem(LoadProblem(source=PROBLEM, device="cpu"))
    eager.contender("eager")
    contenders = [
        kernel(session, "candidate", CACHE),
        kernel(session, "liar", LIAR),
        kernel(session, "honest", HONEST),
        Contender("eager", eager, OUTPUTS, checked=False),
    ]
    conditions = Conditions(
        problem=problem,
        inputs=problem.describe_inputs(1),
        exporter=session.buffers,
        check_launch=check_launch,
        limits=Effort(launches=48),
    )
    return time_contenders(contenders, conditions, precision="ieee")


def test_every_contender_is_timed(found: TimingReport) -> None:
    assert {each.contender for each in found.timings} == {"candidate", "liar", "honest", "eager"}
    assert all(each.launches >= 48 and each.median_ms > 0 for each in found.timings)


def test_a_cached_result_is_found_in_timed_launches(found: TimingReport) -> None:
    assert any("right when called, not when timed" in text for text in found.cheats)


def test_a_process_that_understates_its_times_is_found_by_the_judges_clock(
    found: TimingReport,
) -> None:
    (liar,) = [note for note in found.notes if "the judge measured" in note and "liar" in note]
    claimed = next(each.median_ms for each in found.timings if each.contender == "liar")
    assert claimed < 1
    assert "liar reports" in liar


def test_nothing_is_held_against_the_honest_kernels_results(found: TimingReport) -> None:
    assert not any("honest" in note and "clock" not in note for note in found.notes)
