"""Timing on a real GPU: the worker's timer, the ceilings, the clocks, and contenders that cheat."""

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch

from judge.evaluate.ceilings import measure as measure_ceilings
from judge.evaluate.clocks import ClockWatch, card_id
from judge.evaluate.result import Ceilings, TimingReport
from judge.evaluate.session import Session
from judge.evaluate.timing import Conditions, Contender, Effort, Work, time_contenders
from judge.worker.events import CaptureError, Timer
from judge.worker.messages import LoadKernel, LoadProblem, TensorSpec

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

DEVICE = "cuda:0"
HOLD = 1_000_000


@pytest.fixture
def timer() -> Timer:
    return Timer(DEVICE)


def test_events_time_the_device_and_not_the_host(timer: Timer) -> None:
    x = torch.zeros(1024, device=DEVICE)

    def slow_host(y: torch.Tensor) -> torch.Tensor:
        end = time.perf_counter() + 2e-4
        while time.perf_counter() < end:
            pass
        return y + 1

    timer.time(slow_host, [[x]], [0] * 3, "events", hold_cycles=HOLD)
    held = timer.time(slow_host, [[x]], [0] * 20, "events", hold_cycles=HOLD)
    free = timer.time(slow_host, [[x]], [0] * 20, "events")
    assert statistics.median(held) < 0.05
    assert statistics.median(free) > 0.15


def test_events_grow_with_the_work(timer: Timer) -> None:
    def run(cycles: int) -> None:
        torch.cuda._sleep(cycles)

    timer.time(run, [[10**6]], [0] * 5, "events", hold_cycles=HOLD)
    times = timer.time(run, [[2 * 10**6], [2 * 10**7]], [0, 1] * 10, "events", hold_cycles=HOLD)
    ratio = statistics.median(times[1::2]) / statistics.median(times[0::2])
    assert ratio == pytest.approx(10, rel=0.15)


def test_a_graph_computes_on_the_contents_of_the_day_and_is_captured_once(timer: Timer) -> None:
    sets = [[torch.full((256,), float(i), device=DEVICE)] for i in range(4)]
    calls: list[int] = []

    def run(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x * 2

    order = list(range(4)) * 3
    times = timer.time(run, sets, order, "graph", hold_cycles=HOLD, per_replay=4, keep=True)
    assert len(times) == 3
    assert all(0 < ms < 1 for ms in times)
    captured = len(calls)
    for index, (x,) in enumerate(sets):
        x.fill_(10.0 + index)
    torch.cuda.synchronize()
    timer.time(run, sets, list(range(4)), "graph", hold_cycles=HOLD, per_replay=4, keep=True)
    assert len(calls) == captured
    assert [float(output[0]) for output in timer.outputs] == [20, 22, 24, 26]
    others = [[torch.ones(256, device=DEVICE)] for _ in range(4)]
    timer.time(run, others, list(range(4)), "graph", per_replay=4, keep=True)
    assert len(calls) > captured
    assert [float(output[0]) for output in timer.outputs] == [2] * 4


def test_what_cannot_be_captured_is_told_and_leaves_the_process_usable(timer: Timer) -> None:
    x = torch.ones(16, device=DEVICE)
    stream = torch.cuda.current_stream()
    for run in (lambda y: y * float(y.sum().item()), lambda y: y[y > 0].cpu()):
        assert timer.probe(run, [x]) is not None
        with pytest.raises(CaptureError):
            timer.time(run, [[x]], [0], "graph")
    assert torch.cuda.current_stream() == stream
    assert torch.isfinite(torch.randn(8, device=DEVICE)).all()
    assert timer.probe(lambda y: y * 2, [x]) is None
    assert len(timer.time(lambda y: y * 2, [[x]], [0], "events", hold_cycles=HOLD)) == 1


@pytest.fixture(scope="module")
def ceilings() -> Ceilings:
    return measure_ceilings(DEVICE)


def test_the_copy_ceiling_is_that_of_a_copy_timed_by_hand(ceilings: Ceilings) -> None:
    source = torch.empty(2**31, dtype=torch.uint8, device=DEVICE).random_()
    target = torch.empty_like(source)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(3):
        target.copy_(source)
    start.record()
    for _ in range(50):
        target.copy_(source)
    end.record()
    end.synchronize()
    by_hand = 50 * 2 * source.numel() / (start.elapsed_time(end) * 1e-3)
    assert ceilings.copy_bps == pytest.approx(by_hand, rel=0.02)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_another_card_than_the_current_one_has_ceilings_too(ceilings: Ceilings) -> None:
    other = measure_ceilings("cuda:1")
    assert torch.cuda.current_device() == 0
    assert other.copy_bps == pytest.approx(ceilings.copy_bps, rel=0.1)


def test_ceilings_are_plausible_for_any_card(ceilings: Ceilings) -> None:
    assert 0.9 * ceilings.copy_bps < ceilings.read_bps < 1.5 * ceilings.copy_bps
    assert 0.7 * ceilings.copy_bps < ceilings.write_bps < 1.5 * ceilings.copy_bps
    rates = ceilings.matmul_flops
    assert rates["bfloat16"] > rates["tf32"] > rates["float32"]
    assert rates["float16"] == pytest.approx(rates["bfloat16"], rel=0.2)


def test_clocks_are_read_and_the_card_is_known_by_its_uuid() -> None:
    assert card_id(DEVICE).startswith("GPU-")
    with ClockWatch(card_id(DEVICE), period_s=0.2) as watch:
        time.sleep(1.0)
    samples = watch.clocks.samples
    assert {sample.when for sample in samples} == {"before", "during", "after"}
    assert all(sample.sm_mhz and sample.memory_mhz and sample.temperature_c for sample in samples)


PROBLEM = """
import torch
from torch import nn

ROWS = {rows}
COLS = 4096

class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x) + 1

def get_inputs():
    return [torch.randn(ROWS, COLS)]

def get_init_inputs():
    return []
"""
TRITON = """
import torch
import triton
import triton.language as tl

@triton.jit
def _gelu(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    y = 0.5 * x * (1 + tl.math.erf(x * 0.7071067811865476)) + 1
    tl.store(out_ptr + offsets, y, mask=offsets < count)

def kernel_function(x):
    out = torch.empty_like(x)
    _gelu[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out
"""
LIAR = (
    TRITON
    + """
from judge.worker import events
honest = events.Timer.time
events.Timer.time = lambda *args, **options: [ms / 3 for ms in honest(*args, **options)]
"""
)
# Works on a stream of its own that does not wait for the current one: while that is held.
HIDING = (
    TRITON
    + """
side = torch.cuda.Stream()
plain = kernel_function

def kernel_function(x):
    with torch.cuda.stream(side):
        out = plain(x)
    torch.cuda.current_stream().wait_stream(side)
    out.record_stream(torch.cuda.current_stream())
    return out
"""
)
CACHE = (
    TRITON
    + """
kept, plain = {}, kernel_function

def kernel_function(x):
    return kept.setdefault(x.data_ptr(), plain(x))
"""
)


class Run:
    """Times the contenders of one problem of so many rows."""

    def __init__(self, session: Session, rows: int) -> None:
        self.session = session
        self.rows = rows
        self.checks = 0
        self.outputs = [TensorSpec(shape=(rows, 4096), dtype="float32")]
        self.problem = session.worker("problem")
        self.problem.load_problem(LoadProblem(source=PROBLEM.format(rows=rows), device=DEVICE))

    def check_launch(self, seed: int, outputs: Sequence[Any]) -> str | None:
        self.checks += 1
        (got,) = outputs
        self.problem.make_inputs(seed, [self.lent.name])
        expected = torch.nn.functional.gelu(self.lent.tensor.double()) + 1
        return None if torch.allclose(got.double(), expected, atol=1e-4) else "wrong"

    def contender(self, name: str, source: str | None) -> Contender:
        worker = self.session.worker(name)
        if source is None:
            worker.load_problem(LoadProblem(source=PROBLEM.format(rows=self.rows), device=DEVICE))
            worker.contender("eager")
        else:
            worker.load_kernel(
                LoadKernel(
                    source=source, module_name="kernel", form="kernel_function", device=DEVICE,
                    input_names=["x"],
                )
            )  # fmt: skip
        return Contender(name, worker, self.outputs, checked=source is not None)

    def report(self, **sources: str) -> TimingReport:
        self.lent = self.session.buffers.allocate(f"check.{self.rows}", self.outputs[0])
        self.problem.open([self.lent])
        contenders = [self.contender(name, source) for name, source in sources.items()]
        contenders.append(self.contender("eager", None))
        nbytes = self.outputs[0].nbytes
        conditions = Conditions(
            problem=self.problem,
            inputs=self.problem.describe_inputs(1),
            exporter=self.session.buffers,
            check_launch=self.check_launch,
            limits=Effort(launches=60, replays=20),
        )
        work = Work(read_bytes=nbytes, write_bytes=nbytes)
        return time_contenders(contenders, conditions, precision="ieee", work=work)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(DEVICE) as opened:
        yield opened


@pytest.fixture(scope="module")
def small(session: Session) -> TimingReport:
    """2 MB in, 2 MB out: a few µs."""
    return Run(session, 128).report(candidate=TRITON, liar=LIAR, cache=CACHE)


@pytest.fixture(scope="module")
def medium(session: Session) -> TimingReport:
    """64 MB in, 64 MB out: tens of µs, too short for the clock to tell hidden work."""
    return Run(session, 1 << 12).report(candidate=TRITON, hiding=HIDING)


@pytest.fixture(scope="module")
def large(session: Session) -> TimingReport:
    """1 GB in, 1 GB out: half a millisecond on an H200."""
    return Run(session, 1 << 16).report(candidate=TRITON, liar=LIAR, hiding=HIDING, cache=CACHE)


def test_short_kernels_are_timed_by_graphs_and_long_ones_by_events(
    small: TimingReport, large: TimingReport
) -> None:
    assert {each.method for each in small.timings} == {"graph"}, small.notes
    assert {each.method for each in large.timings} == {"events"}


@pytest.mark.parametrize("size", ["small", "medium", "large"])
def test_an_honest_kernel_is_not_accused(size: str, request: pytest.FixtureRequest) -> None:
    found: TimingReport = request.getfixturevalue(size)
    assert (found.cheats, found.wrong) == ((), ())
    passed = {check.contender: check.passed for check in found.walls}
    assert passed["candidate"]
    assert passed["eager"]
    candidate = next(each for each in found.timings if each.contender == "candidate")
    assert candidate.floor_fraction is not None
    assert candidate.floor_fraction < 1.05


def test_a_large_elementwise_kernel_is_near_the_copy_floor(large: TimingReport) -> None:
    candidate = next(each for each in large.timings if each.contender == "candidate")
    assert candidate.copy_floor_fraction is not None
    assert candidate.copy_floor_fraction > 0.75


@pytest.mark.parametrize("size", ["small", "large"])
def test_a_third_of_the_time_claimed_is_found(size: str, request: pytest.FixtureRequest) -> None:
    found: TimingReport = request.getfixturevalue(size)
    assert any("liar reports" in note for note in found.notes), found.notes


@pytest.mark.parametrize("size", ["medium", "large"])
def test_work_hidden_from_the_events_is_found(size: str, request: pytest.FixtureRequest) -> None:
    found: TimingReport = request.getfixturevalue(size)
    assert any("hiding: works on another stream" in note for note in found.notes), found.notes


@pytest.mark.parametrize("size", ["small", "large"])
def test_cached_results_are_found(size: str, request: pytest.FixtureRequest) -> None:
    found: TimingReport = request.getfixturevalue(size)
    assert any(note.startswith("cache") for note in found.notes), found.notes
