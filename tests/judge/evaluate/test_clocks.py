"""Clock readings: what nvidia-smi prints becomes samples, and its absence a note."""

import subprocess
import threading
from collections.abc import Sequence

import pytest

from judge.evaluate.clocks import ClockWatch, read, throttling
from judge.evaluate.result import Clocks, ClockSample


def test_a_line_of_nvidia_smi_becomes_a_sample() -> None:
    asked: list[Sequence[str]] = []

    def query(command: Sequence[str]) -> str:
        asked.append(command)
        return "1980, 3201, 45, 512.34, 0x0000000000000044\n"

    found = read("GPU-1", "during", query)
    assert found == ClockSample(
        when="during", sm_mhz=1980, memory_mhz=3201, temperature_c=45, power_w=512.34,
        throttle=("software power cap", "hardware thermal slowdown"),
    )  # fmt: skip
    assert "--id=GPU-1" in asked[0]
    assert not any("--lock" in part or "--reset" in part for part in asked[0])


def test_what_a_card_does_not_tell_is_absent() -> None:
    found = read("GPU-1", "before", lambda _: "1980, [N/A], [Not Supported], [N/A], [N/A]\n")
    assert (found.sm_mhz, found.memory_mhz, found.temperature_c, found.power_w) == (
        1980, None, None, None,
    )  # fmt: skip
    assert found.throttle == ()


def test_an_idle_card_is_not_throttled() -> None:
    found = read("GPU-1", "before", lambda _: "345, 2619, 30, 70.1, 0x0000000000000001\n")
    assert found.throttle == ()


def test_an_older_driver_is_asked_by_the_older_name() -> None:
    def query(command: Sequence[str]) -> str:
        if any("clocks_event_reasons" in part for part in command):
            raise subprocess.CalledProcessError(2, list(command), "is not a valid field")
        return "1410, 1593, 40, 300, 0x4"

    assert read("GPU-1", "during", query).throttle == ("software power cap",)


def test_without_nvidia_smi_there_is_a_note_and_no_sample() -> None:
    def query(command: Sequence[str]) -> str:
        raise FileNotFoundError(2, "No such file or directory", "nvidia-smi")

    with ClockWatch("GPU-1", query) as watch:
        pass
    assert watch.clocks.samples == ()
    assert "could not be read before the timing" in watch.clocks.note


def test_samples_are_taken_before_during_and_after() -> None:
    enough = threading.Event()
    count = 0

    def query(command: Sequence[str]) -> str:
        nonlocal count
        count += 1
        if count >= 4:
            enough.set()
        return f"{1000 + count}, 3201, 45, 500, 0x4"

    with ClockWatch("GPU-1", query, period_s=0.001) as watch:
        assert enough.wait(10)
    phases = [sample.when for sample in watch.clocks.samples]
    assert phases[0] == "before"
    assert phases[-1] == "after"
    assert set(phases[1:-1]) == {"during"}
    assert "software power cap" in watch.clocks.note


@pytest.mark.parametrize(
    "when,reason,flagged",
    [
        ("during", "hardware thermal slowdown", True),
        ("before", "hardware thermal slowdown", False),
        ("during", "applications clocks setting", False),
    ],
)
def test_only_what_lowers_clocks_during_the_timing_is_throttling(
    when: str, reason: str, flagged: bool
) -> None:
    clocks = Clocks(samples=(ClockSample(when=when, throttle=(reason,)),))
    assert bool(throttling(clocks)) is flagged
