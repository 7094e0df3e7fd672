"""Contenders in rounds: honest ones are timed, dishonest ones found, a failure stays its own.

Workers here run in the test's own process, on the judge's own buffers, with the worker's own timer
and a clock that moves only when a launch moves it; so times are exact and nothing can be flaky.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

from judge.evaluate import planning, timing
from judge.evaluate.buffers import Exported, Exporter
from judge.evaluate.interleave import Plan, Track
from judge.evaluate.result import Ceilings, TimingReport
from judge.evaluate.session import CommandFailedError, Worker, WorkerDiedError
from judge.evaluate.sets import MAX_SETS, caches_matter, sets_fitting, sets_needed
from judge.evaluate.timing import Conditions, Contender, Effort, Work
from judge.worker.buffers import spec_of
from judge.worker.events import Timer
from judge.worker.messages import Capturable, InputSpec, TensorSpec, Time, Times

ROWS, COLS = 4, 8
INPUTS = [
    InputSpec(name="x", tensor=TensorSpec(shape=(ROWS, COLS), dtype="float32")),
    InputSpec(name="scale", value=3),
]
OUTPUTS = [TensorSpec(shape=(ROWS,), dtype="float32")]
Run = Callable[..., torch.Tensor]


def make(seed: int) -> torch.Tensor:
    return torch.randn(ROWS, COLS, generator=torch.Generator().manual_seed(seed))


def right(x: torch.Tensor, scale: int) -> torch.Tensor:
    return x.sum(1) * scale


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class FakeWorker(Worker):
    """A worker in this process: `run` takes `milliseconds` of the fake clock a launch.

    `claims` is the share of the true time that it reports. Messages take 0.2 ms.
    """

    alive = True

    def __init__(self, run: Run = right, milliseconds: float = 1.0, claims: float = 1.0) -> None:
        self._prefix, self._groups, self._lend_count = f"{id(self)}", {}, 0
        self.last_seconds = 0.0
        self.paused = False
        self.can_pause = True
        self.opened: dict[str, Any] = {}
        self.batches: list[tuple[Time, list[torch.Tensor]]] = []
        """Every command, with the contents that its sets had."""
        self.made: list[int] = []
        self.fetched: list[int] = []
        self._claims = claims
        self._clock = Clock()
        self._timer = Timer("cpu", clock=self._clock)

        def launch(*inputs: Any) -> torch.Tensor:
            self._clock.now += milliseconds * 1e-3
            return run(*inputs)

        self._launch = launch

    def pause(self) -> bool:
        self.paused = self.can_pause
        return self.can_pause

    def resume(self) -> None:
        self.paused = False

    def open(self, buffers: Sequence[Exported]) -> None:
        assert not self.paused
        for each in buffers:
            assert each.name not in self.opened
            self.opened[each.name] = each.tensor

    def close_buffers(self, names: Sequence[str]) -> None:
        assert not self.paused
        for name in names:
            del self.opened[name]

    def make_inputs(self, seed: int, into: Sequence[str | None], kind: object) -> None:
        assert not self.paused
        assert list(into)[1:] == [None]
        self.made.append(seed)
        self.opened[str(into[0])].copy_(make(seed))

    def time(self, command: Time, *, timeout: float) -> Times:
        assert not self.paused
        sets = [
            [self.opened[a.buffer] if hasattr(a, "buffer") else a.value for a in each]
            for each in command.sets
        ]
        self.batches.append((command, [inputs[0].clone() for inputs in sets]))
        before = self._clock.now
        times = self._timer.time(
            self._launch, sets, command.order, command.method,
            hold_cycles=command.hold_cycles, per_replay=command.per_replay, keep=command.keep,
        )  # fmt: skip
        self.last_seconds = self._clock.now - before + 2e-4
        kept = self._timer.outputs
        return Times(ms=[ms * self._claims for ms in times], kept=len(kept))

    def fetch(self, into: Sequence[str | None], *, launch: int) -> None:
        assert not self.paused
        self.fetched.append(launch)
        (name,) = into
        output = self._timer.outputs[launch]
        self.opened[str(name)].copy_(output() if callable(output) else output)

    def drop(self, *, launches: bool) -> None:
        assert launches
        self._timer.forget()


class Judge:
    """Times contenders and collects what the judge asked."""

    def __init__(self) -> None:
        self.exporter = Exporter("cpu")
        self.eager = FakeWorker(milliseconds=2.0)

    def check_launch(self, seed: int, outputs: Sequence[Any]) -> str | None:
        (output,) = outputs
        expected = right(make(seed), 3)
        assert spec_of(output) == OUTPUTS[0]
        return None if torch.allclose(output, expected, rtol=1e-4, atol=1e-4) else "wrong by a lot"

    def time(self, candidate: FakeWorker, *others: FakeWorker, **options: Any) -> TimingReport:
        given = [("candidate", candidate, True), ("eager", self.eager, False)]
        given += [(f"other{i}", worker, True) for i, worker in enumerate(others)]
        for _, worker, _ in given:
            worker._exporter = self.exporter
        conditions = Conditions(
            problem=self.eager,  # type: ignore[arg-type]
            inputs=INPUTS,
            exporter=self.exporter,
            check_launch=self.check_launch,
            limits=options.pop("limits", Effort(launches=80)),
        )
        return timing.time_contenders(
            [Contender(name, worker, OUTPUTS, checked) for name, worker, checked in given],  # type: ignore[arg-type]
            conditions,
            precision="ieee",
            **options,
        )


@pytest.fixture
def judge() -> Iterator[Judge]:
    made = Judge()
    with made.exporter:
        yield made


def test_honest_contenders_get_their_times_and_nothing_is_held_against_them(judge: Judge) -> None:
    candidate, other = FakeWorker(milliseconds=0.5), FakeWorker(milliseconds=4.0)
    found = judge.time(candidate, other)
    medians = {each.contender: each.median_ms for each in found.timings}
    assert medians == pytest.approx({"candidate": 0.5, "eager": 2.0, "other0": 4.0})
    assert all(each.method == "clock" and each.launches >= 80 for each in found.timings)
    assert all(each.flagged == () for each in found.timings)
    ratios = {each.over: (each.of, each.ratio, each.significant) for each in found.ratios}
    assert ratios == {
        "eager": ("candidate", pytest.approx(4.0), True),
        "other0": ("candidate", pytest.approx(8.0), True),
    }
    assert [(each.contender, each.passed) for each in found.walls] == [
        ("candidate", True), ("eager", True), ("other0", True),
    ]  # fmt: skip
    assert (found.cheats, found.wrong, found.notes) == ((), (), ())
    checked = {"candidate": candidate, "eager": judge.eager, "other0": other}
    assert [name for name, worker in checked.items() if worker.fetched] == ["candidate", "other0"]


def test_a_speedup_inside_the_noise_is_none(judge: Judge) -> None:
    found = judge.time(FakeWorker(milliseconds=1.995))
    (ratio,) = found.ratios
    assert not ratio.significant


def test_contents_never_repeat_and_each_set_is_launched_once_a_batch(judge: Judge) -> None:
    candidate = FakeWorker()
    judge.time(candidate)
    seen: set[bytes] = set()
    measured = candidate.batches[-10:]  # warming up comes first and may see anything
    for command, contents in measured:
        assert sorted(command.order) == list(range(len(command.sets)))
        batch = {each.numpy().tobytes() for each in contents}
        assert len(batch) == len(contents)
        assert not batch & seen
        seen |= batch
    assert len(set(judge.eager.made)) == len(judge.eager.made)
    assert len({tuple(command.order) for command, _ in measured}) > 1
    assert len(set(candidate.fetched)) > 1


def test_contents_of_a_checked_contender_were_seen_by_no_other_before(judge: Judge) -> None:
    seen: set[bytes] = set()
    overlaps: list[str] = []

    def watched(name: str) -> FakeWorker:
        worker = FakeWorker()
        real = worker.time

        def time(command: Time, *, timeout: float) -> Times:
            reply = real(command, timeout=timeout)
            contents = {each.numpy().tobytes() for each in worker.batches[-1][1]}
            if contents & seen:
                overlaps.append(name)
            seen.update(contents)
            return reply

        worker.time = time  # type: ignore[method-assign]
        return worker

    judge.eager = watched("eager")
    judge.time(watched("candidate"), watched("other"))
    # Warming up repeats contents; measured rounds repeat them for eager alone, and there only where
    # the random order has it come after another.
    warming = 3 * 3
    assert not {"candidate", "other"} & set(overlaps[warming:])


def test_contenders_are_stopped_while_another_one_has_its_turn(judge: Judge) -> None:
    # The eager worker makes the inputs here, so that one cannot be.
    workers = [FakeWorker() for _ in range(3)]
    together: set[int] = set()
    for worker in workers:
        real = worker.time

        def time(command: Time, *, timeout: float, real: Any = real) -> Times:
            together.add(sum(not each.paused for each in workers))
            return real(command, timeout=timeout)

        worker.time = time  # type: ignore[method-assign]
    judge.time(*workers)
    assert together == {3, 1}  # all run while warming up
    assert not any(each.paused for each in workers)


def test_it_is_said_where_contenders_cannot_be_stopped(judge: Judge) -> None:
    worker = FakeWorker()
    worker.can_pause = False
    found = judge.time(worker)
    assert any("could not be paused" in note for note in found.notes)


def test_all_buffers_are_closed_and_freed_afterwards(judge: Judge) -> None:
    candidate = FakeWorker()
    judge.time(candidate)
    assert candidate.opened == {}
    assert judge.eager.opened == {}
    judge.time(FakeWorker())  # names are free again


def cached_by_address() -> Run:
    cache: dict[int, torch.Tensor] = {}
    return lambda x, scale: cache.setdefault(x.data_ptr(), right(x, scale))


def cached_for_a_batch() -> Run:
    """Returns what the same memory gave one batch before."""
    cache: dict[int, torch.Tensor] = {}

    def run(x: torch.Tensor, scale: int) -> torch.Tensor:
        before = cache.get(x.data_ptr())
        cache[x.data_ptr()] = right(x, scale)
        return cache[x.data_ptr()] if before is None else before

    return run


def computed_late(x: torch.Tensor, scale: int) -> Any:
    return lambda: right(x, scale)


def skipping() -> Run:
    calls = iter(range(10**6))
    return lambda x, scale: torch.zeros(ROWS) if next(calls) % 16 else right(x, scale)


def one_memory() -> Run:
    output = torch.empty(ROWS)
    return lambda x, scale: output.copy_(right(x, scale))


def overwriting(x: torch.Tensor, scale: int) -> torch.Tensor:
    output = right(x, scale)
    x.zero_()
    return output


@pytest.mark.parametrize(
    "run,said",
    [
        pytest.param(cached_by_address(), "right when called, not when timed", id="cached"),
        pytest.param(computed_late, "only when their outputs are fetched", id="late"),
        pytest.param(skipping(), "right when called, not when timed", id="skipping"),
        pytest.param(overwriting, "writes to its inputs", id="overwriting"),
    ],
)
def test_a_candidate_that_cheats_the_timing_is_found(judge: Judge, run: Run, said: str) -> None:
    found = judge.time(FakeWorker(run, milliseconds=0.1))
    assert any(said in text for text in found.cheats), found


def test_results_of_the_batch_before_are_told_as_such(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With two sets the same set is at the same place in every second batch or so.
    monkeypatch.setattr(planning, "sets_needed", lambda *_, **__: 2)
    found = judge.time(FakeWorker(cached_for_a_batch()), limits=Effort(launches=60))
    assert any("results of an earlier batch" in text for text in found.cheats), found


def test_an_output_that_a_later_launch_overwrites_is_wrong_not_a_cheat(judge: Judge) -> None:
    found = judge.time(FakeWorker(one_memory()))
    assert any("overwritten by a later launch" in text for text in found.wrong), found
    assert found.cheats == ()


def test_a_rare_wrong_launch_is_wrong_without_a_sign_of_intent() -> None:
    track = Track(checks=12, wrong=["the output of a timed launch is wrong: by a lot"])
    track.times = {r: [1.0] for r in range(12)}
    found = timing.report(
        timing.Measurement(Plan("clock", 1), {"candidate": track}), precision="ieee"
    )
    assert found.cheats == ()
    (wrong,) = found.wrong
    assert "1 of 12 checked launches" in wrong


def test_a_time_that_the_judges_clock_refutes_is_a_cheat(judge: Judge) -> None:
    found = judge.time(FakeWorker(milliseconds=2.0, claims=0.5))
    (cheat,) = found.cheats
    assert "candidate reports 1 ms" in cheat
    assert [check.passed for check in found.walls] == [False, True]
    assert found.timings[0].flagged == ("the judge's clock disagrees with this time",)


def test_a_claim_of_no_time_or_of_other_launches_is_a_cheat(judge: Judge) -> None:
    found = judge.time(FakeWorker(claims=0.0))
    assert any("took no time" in text for text in found.cheats)
    short = FakeWorker()
    real = short.time
    short.time = lambda command, timeout: Times(ms=real(command, timeout=timeout).ms[:1], kept=1)  # type: ignore[method-assign]
    found = judge.time(short)
    assert any("1 times" in text for text in found.cheats)
    assert [each.contender for each in found.timings] == ["eager"]


@pytest.mark.parametrize(
    "error",
    [
        CommandFailedError("worker", "time", "RuntimeError", "out of luck"),
        WorkerDiedError("worker", "time", "out of luck"),
    ],
)
@pytest.mark.parametrize("after", [0, 5])
def test_one_contenders_failure_leaves_the_others_times(
    judge: Judge, error: Exception, after: int
) -> None:
    failing = FakeWorker()
    real, calls = failing.time, iter(range(10**6))

    def time(command: Time, *, timeout: float) -> Times:
        if next(calls) >= after:
            raise error
        return real(command, timeout=timeout)

    failing.time = time  # type: ignore[method-assign]
    found = judge.time(FakeWorker(milliseconds=0.5), failing)
    assert found.timings[0].median_ms == pytest.approx(0.5)
    assert found.timings[0].launches >= 80
    assert (found.cheats, found.wrong) == ((), ())
    assert any("other0 failed" in note and "out of luck" in note for note in found.notes)


def test_a_candidate_that_fails_while_timed_is_wrong(judge: Judge) -> None:
    def run(x: torch.Tensor, scale: int) -> torch.Tensor:
        raise RuntimeError("only when timed")

    candidate = FakeWorker()
    error = CommandFailedError("candidate", "time", "RuntimeError", "only when timed")
    candidate.time = lambda command, timeout: (_ for _ in ()).throw(error)  # type: ignore[method-assign]
    found = judge.time(candidate)
    assert found.wrong == ("failed while it was timed: RuntimeError: only when timed",)
    assert [each.contender for each in found.timings] == ["eager"]
    assert found.ratios == ()


def test_an_error_of_the_oracle_is_the_judges_not_the_candidates(judge: Judge) -> None:
    def broken(seed: int, outputs: Sequence[Any]) -> str | None:
        raise WorkerDiedError("problem", "oracle", "out of memory")

    judge.check_launch = broken  # type: ignore[method-assign]
    with pytest.raises(WorkerDiedError, match="problem"):
        judge.time(FakeWorker())


def test_times_are_set_against_the_floor(judge: Judge) -> None:
    ceilings = Ceilings(read_bps=2e9, write_bps=2e9, copy_bps=1e9, measured_at="")
    work = Work(read_bytes=2_000_000, write_bytes=0)
    found = judge.time(FakeWorker(milliseconds=0.5), work=work, ceilings=ceilings)
    candidate, eager = found.timings
    assert (candidate.floor_fraction, eager.floor_fraction) == pytest.approx((2.0, 0.5))
    assert (candidate.copy_floor_fraction, eager.copy_floor_fraction) == pytest.approx((4.0, 1.0))
    assert len(candidate.flagged) == 1
    assert candidate.flagged[0].startswith("2.00 of the floor")
    assert eager.flagged == ()


def test_inputs_that_no_seed_changes_are_said(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "make", lambda seed: torch.ones(ROWS, COLS))
    found = judge.time(FakeWorker())
    assert any("same inputs for every seed" in note for note in found.notes)


def test_without_eager_times_are_not_calibrated() -> None:
    track = Track(times={r: [1.0] for r in range(9)})
    found = timing.report(timing.Measurement(Plan("clock", 1), {"a": track}), precision="ieee")
    assert not found.calibrated
    assert found.walls == ()


def test_sets_hold_four_times_the_cache_within_limits() -> None:
    megabyte = 1 << 20
    assert sets_needed(10 * megabyte, 50 * megabyte) == 20
    assert sets_needed(8 << 30, 50 * megabyte) == 2
    assert sets_needed(100, 50 * megabyte) == MAX_SETS
    assert sets_needed(50 * megabyte, 50 * megabyte, at_least=32) == 32
    assert sets_needed(100, 50 * megabyte, cold=False) == 4
    assert sets_needed(100, 50 * megabyte, at_least=32, cold=False) == 32


def test_caches_matter_unless_launches_take_far_longer_than_reading() -> None:
    megabyte = 1 << 20
    assert caches_matter(megabyte, 0.05)
    assert caches_matter(500 * megabyte, 50.0)
    assert not caches_matter(megabyte, 1.5)
    assert caches_matter(megabyte, 0.0)  # not known


def test_sets_fit_into_a_share_of_the_free_memory() -> None:
    assert sets_fitting(per_set=10, free=100) == 5
    assert sets_fitting(per_set=60, free=100) == 0


class FakeInterleaver:
    """Answers `warm_up` as a card does whose host needs more than a short hold."""

    def __init__(self, host_ms: dict[str, float], device_ms: float = 0.05) -> None:
        self.host_ms = host_ms
        self.device_ms = device_ms

    def warm_up(self, plan: Plan) -> dict[str, float]:
        held = plan.hold_cycles / 2e6  # 2 GHz
        return {name: self.device_ms + max(0.0, host - held) for name, host in self.host_ms.items()}


@pytest.mark.parametrize(
    "slowest_host_ms,cycles",
    [(0.1, planning.HOLDS[0]), (1.5, planning.HOLDS[1]), (6.0, planning.HOLDS[2])],
)
def test_the_hold_is_as_long_as_the_slowest_host_needs(slowest_host_ms: float, cycles: int) -> None:
    fake: Any = FakeInterleaver({"candidate": 0.02, "slow": slowest_host_ms})
    plan = Plan("events", 2, planning.HOLDS[0])
    found, times = planning._lengthen_hold(fake, plan, fake.warm_up(plan))
    assert found.hold_cycles == cycles
    assert times["slow"] == pytest.approx(0.05)


def test_a_contender_that_cannot_be_captured_is_named() -> None:
    class Uncapturable:
        def probe(self, inputs: object) -> Capturable:
            return Capturable(capturable=False, reason="it waits for the device")

    class Sets:
        arguments = ((),)

    reason = planning._why_not(Contender("eager", Uncapturable(), OUTPUTS, False), Sets())  # type: ignore[arg-type]
    assert reason is not None
    assert "eager" in reason
    assert "it waits for the device" in reason
