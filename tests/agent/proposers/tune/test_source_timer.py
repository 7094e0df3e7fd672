"""The timer goes on when a version ends its process, and drops what gives other results."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.proposers.tune import turns
from agent.proposers.tune.material import Material, Subject
from agent.proposers.tune.timing import SourceTimer
from judge.problem.kernel import KernelFile
from judge.problem.source import ProblemFile
from judge.sandbox.launch import Zygote
from judge.worker import messages as m
from kb.errors import KbError

KERNEL = Path("tests/fixtures/judge/honest/leaky_relu_flat.py").read_text()
PROBLEM = ProblemFile.read(Path("tests/fixtures/judge/problems/leaky_relu.py")).with_constants(
    {"ROWS": 4, "COLS": 64}
)


def timer(zygote: Zygote, kernel: str = KERNEL) -> SourceTimer:
    return SourceTimer(
        Subject(problem=PROBLEM, kernel=KernelFile.parse(kernel), device="cpu", trust=True), zygote
    )


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


def test_the_given_kernel_compiles_while_the_card_is_free_and_the_search_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that takes half a minute to compile has to be tuned all the more."""
    now = [100.0]
    monkeypatch.setattr(turns.time, "monotonic", lambda: now[0])
    subject = Subject(problem=PROBLEM, kernel=KernelFile.parse(KERNEL), device="cuda:0")
    timing = SourceTimer(subject)
    command = m.LoadKernel(
        source=KERNEL, module_name="version", form="kernel_function", device="cuda:0"
    )
    sets: list[list[m.Argument]] = [[m.ValueArgument(value=1)]]
    timing._material = Material([], [], sets, command, None, 1e-3)
    timing.turns = turns.Turns(None)
    asked: list[tuple[str, bool, tuple[str, ...], bool]] = []

    def answer(worker: object, command: m.BenchSources) -> m.Benched:
        del worker
        holds = timing.turns._since is not None
        asked.append((command.stage, command.refer, tuple(command.sources), holds))
        first = command.sources == [KERNEL]
        now[0] += 30.0 if first and command.stage == "compile" else 1.0
        results = [m.BenchedSource(ms=[1.0], difference=0.0) for _ in command.sources]
        return m.Benched(results=results)

    monkeypatch.setattr(SourceTimer, "_bench", lambda self, *given: answer(*given))
    monkeypatch.setattr(SourceTimer, "_worker", lambda self: object())
    until = timing.clock() + 10.0
    (found,) = timing.times([KERNEL + "\n"], 10, 10.0)
    assert found.ms == [1.0]
    other = (KERNEL + "\n",)
    assert asked == [
        ("note", False, (KERNEL,), True),
        ("compile", False, (KERNEL,), False),
        ("note", True, other, True),
        ("compile", True, other, False),
        ("time", True, other, True),
    ]
    assert until - timing.clock() == pytest.approx(7.0)
    assert timing.held_seconds == pytest.approx(3.0)
    timing.times([KERNEL + "\n\n"], 10, 10.0)
    assert [each[0] for each in asked[5:]] == ["note", "compile", "time"]


def test_the_clock_stands_still_while_others_hold_the_card_as_long_as_there_is_patience(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(turns.time, "monotonic", lambda: now[0])

    @contextmanager
    def busy(card: str, say: object) -> Iterator[None]:
        del card, say
        now[0] += 20.0
        yield

    monkeypatch.setattr(turns, "locked", busy)
    mine = turns.Turns("card", patience=50.0)
    passed = []
    for _ in range(4):
        before = mine.clock()
        with mine.turn():
            now[0] += 1.0
        passed.append(mine.clock() - before)
    assert passed == [1.0, 1.0, 11.0, 21.0]
    assert (mine.overdue, mine.held_seconds) == (30.0, 4.0)
    before = mine.clock()
    with mine.pause_clock(), mine.turn():
        now[0] += 5.0
    assert mine.clock() - before == 20.0, "beyond patience, waiting is never left out"
    mine.lift_limits()
    before = mine.clock()
    with mine.turn():
        now[0] += 1.0
    assert mine.clock() - before == 1.0


def test_every_deadline_has_passed_once_the_card_was_held_for_as_long_as_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(turns.time, "monotonic", lambda: now[0])
    mine = turns.Turns(None, hold_seconds=5.0)
    deadline = mine.clock() + 60.0
    with mine.turn():
        now[0] += 3.0
    now[0] += 20.0
    assert (deadline - mine.clock(), mine.hold_left) == (37.0, 2.0), "free while it compiles"
    with mine.turn():
        now[0] += 2.0
        assert mine.clock() > deadline
    assert mine.clock() > deadline
    assert mine.hold_left == 0.0
    mine.lift_limits()
    assert mine.clock() < deadline, "there is time for the last comparison"
