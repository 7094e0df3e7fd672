"""What evaluations mean for a search, cached baselines, and cards that are shared out."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted import PROBLEM, kernel, proposal, start

from agent.optimize.baselines import BaselineCache, CacheEntry, CacheKey
from agent.optimize.candidate import Baseline, Candidate, Judged, ProblemInfo, Stage
from agent.optimize.config import Limits, RunConfig, Strategy
from agent.optimize.gpu_judge import GpuJudge
from agent.optimize.judge import Allowance
from agent.optimize.judge_pool import JudgePool
from agent.optimize.judge_process import JudgeError, JudgeLostError, JudgeProcess
from agent.optimize.judge_requests import (
    Describe,
    DeviceInfo,
    Evaluate,
    EvaluationReply,
    JudgeState,
    ProfileReply,
    Stopwatch,
    TakeProfile,
)
from agent.optimize.outcomes import clip, failure, outcome_of
from agent.optimize.run import RunFolder, read_evaluation
from agent.optimize.starting import require_right
from judge.evaluate.result import Case, Ceilings, Evaluation, Fault, Floor, Ratio, Timing, Verdict
from judge.profile.result import KernelProfile, Profile
from judge.progress import Progress, Say, Step, silent
from kb.errors import KbError


def timing(name: str, ms: float) -> Timing:
    return Timing(
        contender=name, method="events", median_ms=ms, p10_ms=ms * 0.99, p90_ms=ms * 1.01,
        launches=100, floor_fraction=0.1 / ms,
    )  # fmt: skip


def evaluation(verdict: Verdict = Verdict.CORRECT, **more: Any) -> Evaluation:
    told: dict[str, Any] = {
        "problem": "little.py", "problem_sha256": "0" * 64, "kernel": "k.py",
        "kernel_sha256": "1" * 64, "language": "triton", "dtype": None, "precision": "ieee",
        "device": "cuda:0", "interpreted": False, "gpu": "NVIDIA H200", "versions": {},
        "date": "2026-01-01T00:00:00+00:00", "verdict": verdict, "reasons": (), "seconds": 20.0,
    }  # fmt: skip
    return Evaluation.model_validate(told | more)


def a_case(problem: str | None) -> Case:
    return Case(
        shape="full", kind="given", seed_index=0, counted=True, passed=problem is None,
        problem=problem,
    )  # fmt: skip


CANDIDATE = Candidate.of(proposal(0.5), round_=1)


@pytest.mark.parametrize(
    ("found", "stage"),
    [
        (evaluation(timings=(timing("candidate", 0.5),)), Stage.DONE),
        (evaluation(Verdict.LIBRARY, timings=(timing("candidate", 0.5),)), Stage.DONE),
        (evaluation(), Stage.TIME),
        (evaluation(interpreted=True, device="cpu", gpu=None), Stage.DONE),
        (evaluation(Verdict.WRONG, reasons=("full shape: 3 elements are off",)), Stage.VERIFY),
        (evaluation(Verdict.CHEAT, reasons=("does no work",)), Stage.VERIFY),
        (evaluation(Verdict.INCONCLUSIVE, reasons=("too few cases",)), Stage.VERIFY),
        # What is said decides nothing.
        (evaluation(Verdict.WRONG, reasons=("it cannot be loaded: nvcc",)), Stage.VERIFY),
        (
            evaluation(
                Verdict.WRONG,
                fault=Fault(compiling=False, error="ValueError"),
                reasons=("given values: it raises ValueError",),
            ),
            Stage.VERIFY,
        ),
        (
            evaluation(
                Verdict.WRONG,
                fault=Fault(compiling=True, error="CompilationError"),
                reasons=("given values: it raises",),
            ),
            Stage.COMPILE,
        ),
    ],
)
def test_the_stage_says_how_far_a_candidate_came(found: Evaluation, stage: Stage) -> None:
    outcome = outcome_of(CANDIDATE, found)
    assert outcome.stage is stage
    assert outcome.right == (stage is Stage.DONE)
    assert outcome.reasons or outcome.right


def test_reasons_hold_the_failing_cases_once_and_no_pages() -> None:
    found = evaluation(
        Verdict.WRONG,
        reasons=("full shape: off",),
        cases=(a_case("off"), a_case("x" * 10_000), a_case(None), a_case("\udc80")),
    )
    reasons = outcome_of(CANDIDATE, found).reasons
    assert reasons[0] == "full shape: off"
    assert len(reasons) == 3
    assert max(map(len, reasons)) < 2100
    assert "[…]" in reasons[1]
    assert clip("\udc80") == "?"


def test_kernel_files_beside_the_candidate_go_by_what_they_are() -> None:
    found = evaluation(
        timings=(timing("candidate", 0.5), timing("1:3f2a91bc.py", 1.0), timing("eager", 2.0)),
        ratios=(
            Ratio(of="candidate", over="1:3f2a91bc.py", ratio=2, low=1.9, high=2.1,
                  significant=True),
            Ratio(of="candidate", over="eager", ratio=4, low=3.9, high=4.1, significant=True),
        ),
    )  # fmt: skip
    outcome = outcome_of(CANDIDATE, found, against=("leader",), attempt=2, gpu_seconds=9.0)
    over = outcome.over("leader")
    assert over is not None
    assert over.ratio == 2
    assert (outcome.attempts, outcome.gpu_seconds, outcome.median_ms) == (2, 9.0, 0.5)


def test_a_stopwatch_leaves_waiting_and_compiling_out() -> None:
    moments = iter([0, 50, 60, 70, 170, 400, 410, 430, 430])
    watch = Stopwatch(lambda: float(next(moments)))
    for step in (Step.WAIT, Step.HOLD, Step.WORK, Step.COMPILE, Step.COMPILE, Step.WORK,
                 Step.WORK):  # fmt: skip
        watch.record(step)
    held, compiling = watch.seconds()
    assert held == 430 - 50
    assert compiling == (170 - 70) + (400 - 170)
    assert Stopwatch().seconds() == (0.0, 0.0)


class FakeProcess:
    """Answers as a judging process on an H200 would."""

    def __init__(self, cards: int = 1, fail: Callable[[Evaluate], None] = lambda _: None) -> None:
        self._cards = cards
        self._fail = fail
        self.asked: list[Any] = []
        self.devices: list[str] = []
        self.most = self._now = 0
        self._lock = threading.Lock()
        self.versions = {"torch": "2.11", "triton": "3.6"}
        self.gpu: str = "NVIDIA H200"
        self.slow: dict[str, float] = {}  # how long a form compiles

    def ask(self, request: Any, say: Say) -> Any:
        self.asked.append(request)
        if isinstance(request, Describe):
            devices = tuple(f"cuda:{n}" for n in range(self._cards))
            return DeviceInfo(devices=devices, gpu=self.gpu, versions=self.versions)
        if isinstance(request, TakeProfile):
            made = KernelProfile(name="k", launches=1, time_ns=1, share=1, metrics={"m": 3.0})
            profile = Profile(problem="p", kernel="k", gpu=self.gpu, kernels=(made,))
            return ProfileReply(profile=profile, gpu_seconds=3.0)
        with self._lock:
            self.devices.append(request.device)
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0.02)
        with self._lock:
            self._now -= 1
        self._fail(request)
        say(Progress("starting workers", Step.HOLD))
        ms = 0.5 if "VALUE = 0.5" in Path(request.kernel).read_text() else 1.0
        others = {"eager": 2.0, "compile": 0.8, "max-autotune": 0.7}
        timed = [timing("candidate", ms)]
        timed += [timing(f"{n}:{Path(p).name}", 1.0) for n, p in enumerate(request.against, 1)]
        timed += [
            timing(each, others[each])
            for each in request.baselines
            if self.slow.get(each, 0.0) <= request.compile_seconds
        ]
        ratios = [
            Ratio(of="candidate", over=each.contender, ratio=each.median_ms / ms,
                  low=each.median_ms / ms, high=each.median_ms / ms, significant=True)
            for each in timed[1:]
        ]  # fmt: skip
        found = evaluation(
            timings=tuple(timed), ratios=tuple(ratios),
            floor=Floor(read_bytes=8, write_bytes=8, flops=0, ms=0.1, bound="memory"),
            ceilings=Ceilings(read_bps=1, write_bps=1, copy_bps=1, measured_at="now"),
        )  # fmt: skip
        compiling = 30.0 if "compile" in request.baselines else 0.0
        return EvaluationReply(evaluation=found, gpu_seconds=20.0, baseline_seconds=compiling)

    def cancel(self) -> None: ...

    def close(self) -> None: ...


def config(*, given: bool = True) -> RunConfig:
    info = ProblemInfo(name="little.py", source=PROBLEM, sha256="0" * 64)
    return RunConfig(problem=info, given=given, start=start() if given else None)


def judge_of(folder: RunFolder, process: FakeProcess, cache: Path) -> GpuJudge:
    def make() -> JudgeProcess:
        return process  # type: ignore[return-value]

    return GpuJudge(folder, JudgePool(folder.config, start_process=make), BaselineCache(cache))


def forms(process: FakeProcess) -> list[tuple[str, ...]]:
    return [each.baselines for each in process.asked if isinstance(each, Evaluate)]


def test_baselines_are_compiled_once_for_a_problem_a_card_and_versions(tmp_path: Path) -> None:
    all_forms, eager = ("eager", "compile", "max-autotune"), ("eager",)

    def standing(name: str, process: FakeProcess, asked: RunConfig) -> Any:
        with RunFolder.create(tmp_path / name, asked) as folder:
            return judge_of(folder, process, tmp_path / "cache").judge_start(asked.start, silent)

    # Without a last session all is timed at the start.
    once = config().model_copy(update={"strategy": Strategy(confirm=False)})
    first, again = FakeProcess(), FakeProcess()
    one = standing("one", first, once)
    two = standing("two", again, once)
    assert (forms(first), forms(again)) == ([all_forms], [eager])
    assert {name: each.median_ms for name, each in one.baselines.items()} == {
        "start": 1.0, "eager": 2.0, "compile": 0.8, "max-autotune": 0.7,
    }  # fmt: skip
    assert two.baselines == one.baselines
    assert (one.baseline_seconds, two.baseline_seconds) == (30.0, 0.0)
    assert (one.gpu, one.architecture) == ("H200", "sm_90a")
    assert "were timed" in two.notes[0]
    changes: list[tuple[str, dict[str, Any]]] = [
        ("dtype", {"dtype": "bfloat16"}),
        ("tf32", {"tf32": True}),
        ("fresh", {"fresh_baselines": True}),
        ("problem", {"problem": config().problem.model_copy(update={"sha256": "2" * 64})}),
    ]
    for name, change in changes:
        process = FakeProcess()
        standing(name, process, once.model_copy(update=change))
        assert forms(process) == [all_forms], name
    newer = FakeProcess()
    newer.versions = {"torch": "2.12", "triton": "3.6"}
    standing("newer", newer, once)
    assert forms(newer) == [all_forms]
    for path in (tmp_path / "cache").iterdir():
        path.write_text("{")
    damaged = FakeProcess()
    standing("damaged", damaged, once)
    assert forms(damaged) == [all_forms]


def test_baselines_are_compiled_in_the_last_session_alone_and_known_to_the_next_run(
    tmp_path: Path,
) -> None:
    all_forms, eager = ("eager", "compile", "max-autotune"), ("eager",)
    process = FakeProcess()
    with RunFolder.create(tmp_path / "run", config()) as folder:
        judge = judge_of(folder, process, tmp_path / "cache")
        standing = judge.judge_start(start(), silent)
        outcome = judge.judge(CANDIDATE, standing.start, 1, silent)
        found = judge.confirm(Judged(candidate=CANDIDATE, outcome=outcome), standing.start, silent)
    assert set(standing.baselines) == {"start", "eager"}
    assert forms(process) == [eager, eager, all_forms]
    assert [each.quick for each in process.asked if isinstance(each, Evaluate)] == [
        True, True, False,
    ]  # fmt: skip
    assert (standing.baseline_seconds, found.baseline_seconds) == (0.0, 30.0)
    again = FakeProcess()
    with RunFolder.create(tmp_path / "again", config()) as folder:
        known = judge_of(folder, again, tmp_path / "cache").judge_start(start(), silent)
    assert forms(again) == [eager]
    assert set(known.baselines) == {"start", "eager", "compile", "max-autotune"}
    # A model's prompts hold them, so they are timed before it is asked.
    asked = config().model_copy(update={"model": "m", "fresh_baselines": True})
    with RunFolder.create(tmp_path / "model", asked) as folder:
        judge_of(folder, again, tmp_path / "cache").judge_start(start(), silent)
    assert forms(again)[1:] == [all_forms]


def test_fewer_baselines_are_timed_where_fewer_are_asked_for(tmp_path: Path) -> None:
    process = FakeProcess()

    def standing(name: str, baselines: tuple[str, ...]) -> Any:
        change = {"baselines": baselines, "strategy": Strategy(confirm=False)}
        asked = config().model_copy(update=change)
        with RunFolder.create(tmp_path / name, asked) as folder:
            return judge_of(folder, process, tmp_path / "cache").judge_start(asked.start, silent)

    few = standing("few", ("compile",))
    assert set(few.baselines) == {"start", "eager", "compile"}
    more = standing("more", ("eager", "compile", "max-autotune"))
    assert set(more.baselines) == {"start", "eager", "compile", "max-autotune"}
    standing("again", ("compile",))
    assert forms(process) == [("eager", "compile"), ("eager", "compile", "max-autotune"),
                              ("eager",)]  # fmt: skip


def test_ceilings_are_measured_once_for_a_search_and_anew_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Ceilings | None] = []
    ceilings = Ceilings(read_bps=1, write_bps=1, copy_bps=1, measured_at="now")

    def evaluate(*_: object, ceilings: Ceilings | None, **__: object) -> Evaluation:
        given.append(ceilings)
        return evaluation(ceilings=measured)

    measured = ceilings
    monkeypatch.setattr("judge.evaluate.judge.evaluate", evaluate)
    kept = JudgeState()
    monkeypatch.setattr(kept, "zygote", lambda **_: None)

    def ask(device: str, *, quick: bool) -> None:
        Evaluate(problem=Path("p"), kernel=Path("k"), device=device, quick=quick).answer(
            kept, silent
        )

    for device, quick in (("cuda:0", True), ("cuda:0", True), ("cuda:1", True), ("cuda:0", False)):
        ask(device, quick=quick)
    assert given == [None, ceilings, None, None]


def test_a_cache_that_cannot_be_written_loses_only_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    key = CacheKey.of(config(), "H200", {"python": "3.12"})
    assert key.versions == {}
    cached = CacheEntry(key=key, measured_at="now", baselines={})
    assert "not cached" in (BaselineCache(tmp_path / "file" / "in").put(cached) or "")
    assert BaselineCache(tmp_path / "cache").put(cached) is None
    assert BaselineCache(tmp_path / "cache").get(key) == cached


def test_a_cache_entry_with_more_in_it_is_still_read(tmp_path: Path) -> None:
    key = CacheKey.of(config(), "H200", {})
    cached = CacheEntry(key=key, measured_at="now", baselines={})
    told = cached.model_dump(mode="json") | {"floor": None, "ceilings": {"copy_bps": 4e12}}
    (tmp_path / f"{key.digest}.json").write_text(json.dumps(told))
    assert BaselineCache(tmp_path).get(key) == cached


def leader_of(folder: RunFolder, judge: GpuJudge) -> Judged:
    start = judge.judge_start(folder.config.start, silent).start
    require_right(start)
    return start


def test_a_candidate_is_timed_beside_the_leader_and_eager(tmp_path: Path) -> None:
    process = FakeProcess()
    with RunFolder.create(tmp_path / "run", config()) as folder:
        judge = judge_of(folder, process, tmp_path / "cache")
        leader = leader_of(folder, judge)
        outcome = judge.judge(CANDIDATE, leader, 1, silent)
        request = process.asked[-1]
        assert [Path(each).name for each in request.against] == [leader.candidate.file]
        assert request.baselines == ("eager",)
        over = outcome.over("leader")
        assert over is not None
        assert over.ratio == 2.0
        assert read_evaluation(folder.root, CANDIDATE.id) is not None
        assert judge.profile(CANDIDATE, silent).metrics == {"m": 3.0}
        assert folder.profile(CANDIDATE.id) is not None
        judged = Judged(candidate=CANDIDATE, outcome=outcome)
        confirmed = judge.confirm(judged, leader, silent)
        assert set(confirmed.baselines) == {"start", "eager", "compile", "max-autotune"}
        assert isinstance(confirmed.baselines["start"], Baseline)


def test_a_short_last_session_is_timed_as_quickly_as_candidates_and_says_so(tmp_path: Path) -> None:
    process = FakeProcess()
    with RunFolder.create(tmp_path / "run", config()) as folder:
        judge = judge_of(folder, process, tmp_path / "cache")
        leader = leader_of(folder, judge)
        judged = Judged(candidate=CANDIDATE, outcome=judge.judge(CANDIDATE, leader, 1, silent))
        quick = process.asked[-1].quick
        whole = judge.confirm(judged, leader, silent)
        assert (quick, process.asked[-1].quick) == (True, False)
        short = judge.confirm(judged, leader, print, Allowance(short=True))
        assert process.asked[-1].quick
    said = set(short.notes) - set(whole.notes)
    assert [each for each in said if "short" in each]


def test_what_had_no_time_to_compile_is_timed_by_another_run(tmp_path: Path) -> None:
    process = FakeProcess()
    process.slow = {"max-autotune": 100.0}
    first = config().model_copy(update={"limits": Limits(seconds=300)})
    with RunFolder.create(tmp_path / "run", first) as folder:
        judge = judge_of(folder, process, tmp_path / "cache")
        leader = leader_of(folder, judge)
        found = judge.confirm(leader, leader, silent, Allowance(compile_seconds=20.0))
        assert set(found.baselines) == {"eager", "compile"}
    asked = config().model_copy(update={"model": "m", "limits": Limits(seconds=240)})
    with RunFolder.create(tmp_path / "other", asked) as folder:
        standing = judge_of(folder, process, tmp_path / "cache").judge_start(asked.start, silent)
    assert process.asked[-1].compile_seconds == 120, "half of the run's time, at the start"
    assert set(standing.baselines) == {"start", "eager", "compile", "max-autotune"}


def test_eager_as_the_start_is_not_timed_twice(tmp_path: Path) -> None:
    process = FakeProcess()
    with RunFolder.create(tmp_path / "run", config(given=False)) as folder:
        judge = judge_of(folder, process, tmp_path / "cache")
        leader = leader_of(folder, judge)
        assert "class ModelNew(Model)" in leader.candidate.source
        outcome = judge.judge(CANDIDATE, leader, 1, silent)
        confirmed = judge.confirm(Judged(candidate=CANDIDATE, outcome=outcome), leader, silent)
        itself = judge.confirm(leader, leader, silent)
    first, second, last, start_itself = [e for e in process.asked if isinstance(e, Evaluate)]
    assert "eager" not in first.baselines, "it is the start"
    assert (second.against, last.against) == ((), ())
    over = outcome.over("leader")
    assert over is not None
    assert over.ratio == 4.0
    assert "eager" in last.baselines
    assert confirmed.baselines["start"] == confirmed.baselines["eager"]
    assert confirmed.outcome.over("start") is not None
    assert "eager" not in start_itself.baselines
    assert "eager" in itself.baselines


@pytest.mark.parametrize("error", [JudgeLostError("died"), JudgeError("GPU is busy")])
def test_a_judge_that_is_lost_over_a_candidate_is_its_outcome(
    tmp_path: Path, error: KbError
) -> None:
    def fail(request: Evaluate) -> None:
        if "VALUE = 0.5" in Path(request.kernel).read_text():
            raise error

    with RunFolder.create(tmp_path / "run", config()) as folder:
        judge = judge_of(folder, FakeProcess(fail=fail), tmp_path / "cache")
        leader = leader_of(folder, judge)
        outcome = judge.judge(CANDIDATE, leader, 1, silent)
        assert (outcome.stage, outcome.verdict) == (Stage.TIME, None)
        assert str(error) in outcome.reasons[0]
        # The process is free for the next one.
        other = Candidate.of(proposal(1.0), round_=1)
        assert judge.judge(other, leader, 1, silent).right


def test_cards_are_shared_out_and_one_judges_one_candidate_at_a_time(tmp_path: Path) -> None:
    process = FakeProcess(cards=3)
    with RunFolder.create(tmp_path / "run", config()) as folder:
        judge = judge_of(folder, process, tmp_path / "cache")
        leader = leader_of(folder, judge)
        assert judge.slots == 3
        candidates = [Candidate.of(proposal(1 + n / 10), round_=1) for n in range(9)]
        threads = [
            threading.Thread(target=judge.judge, args=(each, leader, 1, lambda _: None))
            for each in candidates
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert set(process.devices) == {"cuda:0", "cuda:1", "cuda:2"}
    assert process.most == 3


@pytest.mark.parametrize(
    ("most", "call"), [(None, 180.0), (40.0, 30.0), (90.0, 45.0), (600.0, 180.0)]
)
def test_a_call_that_hangs_takes_no_more_than_a_share_of_a_short_run(
    tmp_path: Path, most: float | None, call: float
) -> None:
    process = FakeProcess()
    asked = config().model_copy(update={"limits": Limits(gpu_seconds=most)})
    with RunFolder.create(tmp_path / "run", asked) as folder:
        judge_of(folder, process, tmp_path / "cache").judge_start(start(), silent)
    (request,) = [each for each in process.asked if isinstance(each, Evaluate)]
    assert request.call_seconds == call


def test_a_run_does_not_go_on_on_another_card(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", config()) as folder:
        standing = judge_of(folder, FakeProcess(), tmp_path / "cache").judge_start(start(), silent)
        other = FakeProcess()
        other.gpu = "NVIDIA H100 80GB HBM3"
        with pytest.raises(KbError, match="began on H200, but this is H100"):
            judge_of(folder, other, tmp_path / "cache").require_same(standing)


def test_an_unknown_card_ends_with_one_line_before_anything_is_timed(tmp_path: Path) -> None:
    process = FakeProcess()
    process.gpu = "NVIDIA Imaginary 9000"
    with RunFolder.create(tmp_path / "run", config()) as folder:
        judge = judge_of(folder, process, tmp_path / "cache")
        with pytest.raises(KbError, match="Imaginary 9000") as caught:
            judge.judge_start(start(), silent)
    assert "\n" not in str(caught.value)
    assert forms(process) == []


def test_a_start_must_be_right() -> None:
    candidate = Candidate.of(start(), round_=0)
    for verdict, told in ((Verdict.WRONG, "the start is wrong: off"), (None, "not judged")):
        outcome = failure(candidate, Stage.VERIFY, "off").model_copy(update={"verdict": verdict})
        with pytest.raises(KbError, match=told):
            require_right(Judged(candidate=candidate, outcome=outcome))
    untimed = failure(candidate, Stage.TIME, "noise").model_copy(
        update={"verdict": Verdict.CORRECT}
    )
    with pytest.raises(KbError, match="cannot be timed: noise"):
        require_right(Judged(candidate=candidate, outcome=untimed))
    assert kernel(1.0) == candidate.source
