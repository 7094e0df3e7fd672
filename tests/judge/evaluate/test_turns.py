"""Work out of its stream's turn is told by the contents that an output or its copy belongs to."""

import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import pytest
import torch

from judge.evaluate import turns
from judge.worker.messages import Time, Times

EARLY, LATE = 1.0, 2.0


class FakeSets:
    """One set whose contents are one number; seeds are the numbers."""

    def __init__(self) -> None:
        self.arguments = [[{"buffer": "x"}]]
        self.value = torch.zeros(1)
        self.seeds: list[float] = []
        self.spare_seed = LATE

    def renew(self) -> None:
        self.seeds = [EARLY]

    def restore(self) -> None:
        self.value.fill_(EARLY)

    def replace_first(self) -> None:
        self.value.fill_(LATE)


class FakeWorker:
    """Holds its stream until the later contents are there; `run` is given contents to read."""

    def __init__(
        self, sets: FakeSets, run: Callable[[float, float], float], finished: bool
    ) -> None:
        self.sets = sets
        self.run = run
        self.finished = finished
        self.output = 0.0

    def time(self, command: Time) -> Times:
        assert command.hold_cycles > 0
        end = time.monotonic() + 10
        while float(self.sets.value) != LATE and time.monotonic() < end:
            time.sleep(0.001)
        # Read here, the earlier contents would be the later ones wherever this thread was held up.
        self.output = self.run(self.sets.seeds[0], float(self.sets.value))
        if command.copy_outputs and not self.finished:
            self.output = -1.0
        return Times(ms=[0.1], kept=1)


def found(
    run: Callable[[float, float], float], latest_s: float = 60.0, finished: bool = True
) -> str | None:
    sets: Any = FakeSets()
    worker: Any = FakeWorker(sets, run, finished)

    def check(seed: int, outputs: Sequence[Any]) -> str | None:
        return None if outputs[0] == 10 * seed else "off by a lot"

    with mock.patch.object(turns, "LATEST_S", latest_s):
        return turns.out_of_turn(worker, sets, lambda: [worker.output], check)


def test_a_launch_that_waits_for_its_stream_is_fine() -> None:
    assert found(lambda early, late: 10 * late) is None


def test_a_launch_on_a_stream_of_its_own_is_found() -> None:
    said = found(lambda early, late: 10 * early)
    assert said is not None
    assert "ahead of the caller's stream" in said


def test_an_output_that_is_there_only_later_is_found() -> None:
    said = found(lambda early, late: 10 * late, finished=False)
    assert said is not None
    assert "finds the output unfinished (off by a lot)" in said


def test_an_output_of_neither_contents_is_told_as_wrong() -> None:
    said = found(lambda early, late: 10 * early + 3)
    assert said is not None
    assert "off by a lot" in said


def test_contents_that_came_too_late_prove_nothing() -> None:
    with pytest.raises(turns.UntestedError):
        found(lambda early, late: 10 * early, latest_s=-1.0)
