"""Launch timing in the worker, by a clock that only moves when a launch moves it."""

import gc
import time

import pytest
import torch

from judge.worker.events import Timer


class FakeClock:
    """Seconds that pass only when someone says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def timer() -> tuple[Timer, FakeClock]:
    clock = FakeClock()
    return Timer("cpu", clock=clock), clock


def test_every_launch_has_its_time_in_the_order_asked_for() -> None:
    measured, clock = timer()
    calls: list[int] = []

    def run(milliseconds: int) -> int:
        calls.append(milliseconds)
        clock.now += milliseconds * 1e-3
        return milliseconds

    times = measured.time(run, [[1], [20], [300]], [2, 0, 1, 2], "clock")
    assert calls == [300, 1, 20, 300]
    assert times == pytest.approx([300, 1, 20, 300])


def test_outputs_are_kept_in_launch_order_only_when_asked() -> None:
    measured, _ = timer()
    sets = [[torch.tensor(1.0)], [torch.tensor(2.0)]]
    measured.time(lambda x: x * 10, sets, [1, 0, 1], "clock", keep=True)
    assert [float(output) for output in measured.outputs] == [20, 10, 20]
    measured.time(lambda x: x * 10, sets, [0], "clock")
    assert measured.outputs == []
    measured.time(lambda x: x * 10, sets, [0], "clock", keep=True)
    measured.forget()
    assert measured.outputs == []


def test_outputs_of_the_batch_before_are_let_go_before_the_first_launch() -> None:
    measured, _ = timer()
    held: list[int] = []

    def run(x: torch.Tensor) -> torch.Tensor:
        held.append(len(measured.outputs))
        return x + 1

    for _ in range(2):
        measured.time(run, [[torch.zeros(2)]], [0, 0], "clock", keep=True)
    assert held == [0, 1, 0, 1]


def test_a_launch_that_raises_ends_the_batch_and_collecting_goes_on() -> None:
    measured, _ = timer()

    def run(x: int) -> int:
        assert not gc.isenabled()
        raise RuntimeError("no such launch")

    with pytest.raises(RuntimeError, match="no such launch"):
        measured.time(run, [[1]], [0], "clock")
    assert gc.isenabled()


def test_the_clock_it_was_made_with_is_the_one_it_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Timer("cpu")
    before = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)

    def run() -> None:
        end = before() + 2e-3
        while before() < end:
            pass

    (taken,) = measured.time(run, [[]], [0], "clock")
    assert taken >= 2


@pytest.mark.parametrize("method", ["events", "graph"])
def test_methods_of_a_gpu_are_refused_without_one(method: str) -> None:
    measured, _ = timer()
    with pytest.raises(ValueError, match="needs a CUDA device"):
        measured.time(lambda x: x, [[1]], [0], method)


def test_nothing_can_be_captured_without_a_gpu() -> None:
    measured, _ = timer()
    assert measured.probe(lambda x: x, [1]) == "there is no CUDA device"
