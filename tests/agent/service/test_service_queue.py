"""The queue of evaluations and who judges it, with a judge that follows a script."""

import sqlite3
import threading
import time
from collections import Counter

import pytest

from agent.diagnose.techniques import Catalog
from agent.optimize.judge_process import JudgeError, JudgeLostError
from agent.optimize.judge_requests import (
    Describe,
    DeviceInfo,
    Evaluate,
    EvaluationReply,
    ProfileReply,
    TakeProfile,
)
from agent.service.models import EvaluationRequest, JobState
from agent.service.runner import QueueLimits, Runner
from agent.service.service import EvaluationService
from agent.service.store import JobStore, QueueFullError, StoreError
from agent.service.work import Evaluator
from judge.evaluate.result import Evaluation, Timing, Verdict
from judge.profile.result import KernelProfile, Profile
from judge.progress import Progress, Step
from judge.sandbox.layers import IncompleteSandboxError
from kb.context.models import Citation, ContextResponse, ContextTechnique
from kb.errors import IndexUnavailableError, InvalidInputError, NotFoundError

PROBLEM = "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"
LIMITS = QueueLimits(waiting=10, seconds=30, keep=3600)


class ScriptedJudge:
    """Answers by what the kernel's text says: `wrong`, `hang`, `lost`, `refused`, `many lines`."""

    def __init__(self, asked):
        self.asked = asked
        self.ended = threading.Event()

    def ask(self, request, say):
        self.asked.append(request)
        if self.ended.is_set():
            raise JudgeLostError("the judging process died")
        if isinstance(request, Describe):
            return DeviceInfo(devices=(request.device or "cuda:0",))
        text = open(request.kernel).read()  # noqa: PTH123, SIM115
        if isinstance(request, TakeProfile):
            if "no profile" in text:
                raise JudgeError("ncu may not read counters")
            metrics = {"gpu__time_duration.sum": 1000.0, "dram__bytes.sum": 1e6}
            kernel = KernelProfile(name="k", launches=1, time_ns=1e3, share=1.0, metrics=metrics)
            found = Profile(problem="p", kernel="k", gpu="NVIDIA H200", kernels=(kernel,))
            return ProfileReply(profile=found)
        say(Progress("starting workers", Step.HOLD))
        if "many lines" in text:
            for number in range(50):
                say(Progress(f"line {number}"))
        if "hang" in text:
            self.ended.wait(60)
            raise JudgeLostError("the judging process died")
        if "refused" in text:
            lacking = ("isolation of the network",)
            raise JudgeError(str(IncompleteSandboxError(lacking)), lacking)
        if "lost" in text:
            raise JudgeLostError("the judging process died with status 9")
        verdict = Verdict.WRONG if "wrong" in text else Verdict.CORRECT
        timing = Timing(
            contender="candidate", method="events", median_ms=1.0, p10_ms=1.0, p90_ms=1.0,
            launches=10,
        )  # fmt: skip
        found = Evaluation(
            problem="p.py", problem_sha256="0", kernel="k.py", kernel_sha256="1",
            language="triton", dtype=None, precision="ieee", device=request.device,
            interpreted=request.interpret, gpu=None if request.interpret else "NVIDIA H200",
            versions={}, date="2026-01-01", verdict=verdict, reasons=(), timings=(timing,),
            seconds=1.0,
        )  # fmt: skip
        return EvaluationReply(evaluation=found)

    def cancel(self):
        self.ended.set()

    def close(self):
        self.ended.set()


def empty():
    return ContextResponse(
        text="Nothing.", tokens=1, examples=[], techniques=[], examples_available=0, citations=[],
        ignored=[], tokenizer="words", abstained=True,
    )  # fmt: skip


class Library:
    """Knows four techniques and gives the first two that are not excluded."""

    def __init__(self):
        self.asked = []
        self.broken = False
        self.unknown = set()

    def check(self, request):
        if request.gpu == "H9000":
            raise InvalidInputError("no GPU 'H9000'")

    def context(self, request):
        if self.broken:
            raise IndexUnavailableError("there is no index")
        self.asked.append(request)
        if request.query in self.unknown:
            return empty()
        slugs = [f"t{n}" for n in range(4) if f"t{n}" not in request.exclude][:2]
        return ContextResponse(
            text=" ".join(slugs), tokens=len(slugs), examples=[f"chunk-{slug}" for slug in slugs],
            techniques=[ContextTechnique(slug=s, score=1, reason="") for s in slugs],
            examples_available=0, citations=[Citation(title="a", url=None, licence=None)],
            ignored=[], tokenizer="words", abstained=not slugs,
        )  # fmt: skip

    def techniques(self):
        return Catalog((), {})


class Place:
    """One store, and the runners that were started on it."""

    def __init__(self, root):
        self.root = root
        self.store = JobStore(root)
        self.library = Library()
        self.asked = []
        self.ended = Counter()
        self.runners = []

    def runner(self, limits=LIMITS, device=None):
        work = Evaluator(self.library, device, lambda: ScriptedJudge(self.asked))
        runner = Runner(self.store, work, limits, lambda said: self.ended.update([said]))
        runner.start()
        self.runners.append(runner)
        return runner

    def send(self, kernel="def kernel_function(x): ...", most=10, **changed):
        request = EvaluationRequest(problem=PROBLEM, kernel=kernel, **changed)
        return self.store.add(request, most).id

    def until(self, job_id, *states, seconds=20):
        deadline = time.monotonic() + seconds
        while (job := self.store.read(job_id)).state not in states:
            assert time.monotonic() < deadline, job
            time.sleep(0.02)
        return job

    def over(self, job_id):
        return self.until(job_id, JobState.DONE, JobState.FAILED)

    def counted(self, **expected):
        """Wait until so many are counted, which is done after they are stored."""
        deadline = time.monotonic() + 20
        while self.ended != expected:
            assert time.monotonic() < deadline, self.ended
            time.sleep(0.02)


@pytest.fixture
def place(tmp_path):
    found = Place(tmp_path / "evaluations")
    yield found
    for runner in found.runners:
        runner.stop()


def test_a_right_kernel_is_judged_profiled_diagnosed_and_answered_with_a_context(place):
    place.runner()
    job = place.over(place.send(name="rms_norm", kernel="# many lines"))
    assert [each.name.value for each in job.phases] == ["judge", "profile", "diagnose", "retrieve"]
    assert job.steps > 50
    answer = job.answer
    assert answer.verdict is Verdict.CORRECT
    assert answer.profile.metrics["dram__bytes.sum"] == 1e6
    assert answer.diagnosis.gpu == "H200"
    asked = place.library.asked[0]
    assert asked.profile["dram__bytes.sum"] == 1e6
    assert (asked.gpu, asked.language) == ("sm_90a", "triton")
    assert "rms norm" in asked.query
    assert answer.shown == ["chunk-t0", "chunk-t1", "t0", "t1"]
    place.counted(correct=1)


def test_code_that_was_sent_is_never_trusted(place):
    place.runner()
    place.over(place.send())
    _, evaluated, profiled = place.asked
    assert not evaluated.trust
    assert not profiled.trust


def test_options_reach_the_judge_and_eager_is_always_timed(place):
    place.runner(device="cuda:3")
    options = {"dtype": "float16", "tf32": True, "quick": True, "call_seconds": 7}
    place.over(place.send(baselines=["max-autotune"], profile=False, **options))
    described, evaluated = place.asked
    assert described.device == evaluated.device == "cuda:3"
    assert evaluated.baselines == ("eager", "max-autotune")
    assert {name: getattr(evaluated, name) for name in options} == options


def test_a_wrong_kernel_is_neither_profiled_nor_diagnosed(place):
    place.runner()
    answer = place.over(place.send(kernel="# wrong")).answer
    assert (answer.profile, answer.diagnosis) == (None, None)
    assert answer.context is not None
    assert not [each for each in place.asked if isinstance(each, TakeProfile)]


def test_what_cannot_be_had_is_told_and_the_rest_given(place):
    place.library.broken = True
    place.runner()
    answer = place.over(place.send(kernel="# no profile")).answer
    assert answer.verdict is Verdict.CORRECT
    assert answer.diagnosis is not None
    assert answer.notes == [
        "not profiled: ncu may not read counters", "no context: there is no index",
    ]  # fmt: skip
    assert answer.shown == []


def test_the_kernel_is_asked_with_where_its_name_says_nothing_but_not_instead_of_a_query(place):
    place.library.unknown = {"frobnicate", "what is it"}
    place.runner()
    answer = place.over(place.send(name="frobnicate", kernel="# wrong")).answer
    assert [each.query for each in place.library.asked] == ["frobnicate", None]
    assert not answer.context.abstained
    asked = {"query": "what is it"}
    assert place.over(place.send(context=asked)).answer.context.abstained
    assert len(place.library.asked) == 3


def test_no_context_is_built_where_none_is_wanted(place):
    place.runner()
    answer = place.over(place.send(context=None, exclude=["a"])).answer
    assert answer.context is None
    assert answer.shown == ["a"]
    assert place.library.asked == []


def test_a_chain_gives_everything_once_even_if_sent_at_once(place):
    first = place.send(exclude=["t0"])
    second = place.send(previous=first)
    third = place.send(previous=second, exclude=["mine"])
    place.runner()
    given = [
        [each.slug for each in place.over(job).answer.context.techniques]
        for job in (first, second, third)
    ]
    assert given == [["t1", "t2"], ["t3"], []]
    shown = place.store.read(third).answer.shown
    assert {"t0", "t1", "t2", "t3", "mine"} <= set(shown)


def test_a_chain_goes_on_when_what_came_before_is_deleted_meanwhile(place):
    first = place.send(exclude=["t0", "t1"])
    second = place.send(previous=first)
    place.store.remove(first)
    place.runner()
    assert [e.slug for e in place.over(second).answer.context.techniques] == ["t2", "t3"]
    with pytest.raises(InvalidInputError, match="previous"):
        place.send(previous=first)


def test_evaluations_run_in_the_order_in_which_they_came(place):
    jobs = [place.send(most=20) for _ in range(12)]
    assert [place.store.read(each).ahead for each in jobs] == list(range(12))
    place.runner()
    done = [place.over(each) for each in jobs]
    starts = [each.started for each in done]
    assert starts == sorted(starts)
    assert len([each for each in place.asked if isinstance(each, Describe)]) == 1


def test_several_processes_share_one_queue_and_one_judges(place):
    place.runner()
    place.runner()
    jobs = [place.send(kernel="# many lines") for _ in range(6)]
    assert all(place.over(each).attempts == 1 for each in jobs)
    assert len([each for each in place.asked if isinstance(each, Describe)]) == 1


def test_another_process_takes_over_when_the_first_one_stops(place):
    first = place.runner()
    job = place.send(kernel="hang")
    place.until(job, JobState.RUNNING)
    place.runner()
    first.stop()
    assert place.store.read(job).state in (JobState.QUEUED, JobState.RUNNING)
    again = place.until(job, JobState.RUNNING)
    assert again.attempts == 1
    place.store.remove(job)


def test_one_process_judges_on_the_card_and_in_the_interpreter(place):
    place.runner()
    for interpret in (False, True, True, False):
        place.over(place.send(interpret=interpret, profile=False))
    assert len([each for each in place.asked if isinstance(each, Describe)]) == 1
    judged = [(each.device, each.interpret) for each in place.asked if isinstance(each, Evaluate)]
    assert judged == [("cuda:0", False), ("cpu", True), ("cpu", True), ("cuda:0", False)]


def test_what_takes_too_long_is_ended_and_the_next_one_judged(place):
    place.runner(QueueLimits(waiting=10, seconds=1, keep=3600))
    slow, quick = place.send(kernel="hang"), place.send()
    failed = place.over(slow)
    assert failed.state is JobState.FAILED
    assert "longer than 1 s" in failed.error
    assert place.over(quick).verdict is Verdict.CORRECT
    place.counted(failed=1, correct=1)


def test_a_running_evaluation_that_is_removed_ends_at_once_and_leaves_nothing(place):
    place.runner()
    slow, quick = place.send(kernel="hang"), place.send()
    place.until(slow, JobState.RUNNING)
    place.store.remove(slow)
    with pytest.raises(NotFoundError):
        place.store.read(slow)
    place.over(quick)
    assert not place.store.folder.exists()
    assert slow not in {each.id for each in place.store.all()}
    place.counted(cancelled=1, correct=1)


def test_one_that_is_removed_when_it_has_just_been_taken_is_cancelled_and_not_failed(
    place, monkeypatch
):
    take = place.store.take

    def take_and_remove():
        if (job := take()) is not None and job.id == first:
            place.store.remove(job.id)
        return job

    monkeypatch.setattr(place.store, "take", take_and_remove)
    first, second = place.send(), place.send()
    place.runner()
    assert place.over(second).verdict is Verdict.CORRECT
    place.counted(cancelled=1, correct=1)


def test_what_was_interrupted_twice_by_a_death_is_not_run_again(place):
    job = place.send()
    found = place.store.read(job)
    place.store.write(found.model_copy(update={"state": JobState.RUNNING, "attempts": 1}))
    place.runner()
    assert place.over(job).attempts == 2
    other = place.send(kernel="hang")
    place.until(other, JobState.RUNNING)
    found = place.store.read(other)
    place.runners[0].stop()
    place.store.write(found.model_copy(update={"attempts": 2}))
    place.runner()
    failed = place.over(other)
    assert failed.state is JobState.FAILED
    assert "interrupted 2 times" in failed.error


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ("# lost", "died with status 9"),
        ("# refused", "not run on this machine"),
    ],
)
def test_a_judge_that_fails_is_told_and_the_next_evaluation_judged(place, kernel, said):
    place.runner()
    failed = place.over(place.send(kernel=kernel))
    assert failed.state is JobState.FAILED
    assert said in failed.error
    assert "--trust" not in failed.error
    assert place.over(place.send()).verdict is Verdict.CORRECT


def test_errors_do_not_tell_where_the_server_keeps_things(place, monkeypatch):
    def fail(_self, request, _say):
        raise JudgeError(f"cannot read {request.kernel}" if hasattr(request, "kernel") else "?", "")

    monkeypatch.setattr(ScriptedJudge, "ask", fail)
    monkeypatch.setattr(
        Evaluator, "_judge_and_device", lambda self, task: (ScriptedJudge([]), "cpu")
    )
    place.runner()
    failed = place.over(place.send())
    assert "cannot read" in failed.error
    assert str(place.root) not in failed.error


def test_a_full_queue_takes_no_more(place):
    place.send(most=2)
    place.send(most=2)
    with pytest.raises(QueueFullError):
        place.send(most=2)


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "evaluations").write_text("a file")
    with pytest.raises(StoreError):
        Place(tmp_path / "evaluations").send()


def test_old_answers_are_removed_and_waiting_ones_kept(place):
    runner = place.runner()
    old = place.over(place.send()).id
    runner.stop()
    waiting = place.send()
    place.store.sweep(keep=3600)
    assert place.store.read(old).state is JobState.DONE
    place.store.sweep(keep=-1)
    with pytest.raises(NotFoundError):
        place.store.read(old)
    assert place.store.read(waiting).state is JobState.QUEUED


@pytest.mark.parametrize("job_id", ["../../etc", "", "x" * 16, "0" * 15, "0" * 16])
def test_names_that_are_no_evaluation_lead_nowhere(place, job_id):
    with pytest.raises(NotFoundError):
        place.store.read(job_id)
    with pytest.raises(NotFoundError):
        place.store.remove(job_id)


def test_what_is_kept_is_open_to_its_owner_alone(place):
    place.send()
    assert place.root.stat().st_mode & 0o077 == 0


def test_a_damaged_evaluation_leaves_the_queue(place):
    bad, good = place.send(), place.send()
    with sqlite3.connect(place.root / "evaluations.sqlite3") as rows:
        rows.execute("UPDATE evaluations SET job = '{' WHERE id = ?", (bad,))
    place.runner()
    assert place.over(good).state is JobState.DONE
    with pytest.raises(NotFoundError):
        place.store.read(bad)


def test_a_service_refuses_what_cannot_be_judged(tmp_path, monkeypatch):
    monkeypatch.setattr("agent.service.service.has_gpu", lambda: False)
    service = EvaluationService(tmp_path, Library(), LIMITS)

    def sent(**changed):
        values = {"problem": PROBLEM, "kernel": "x", "interpret": True} | changed
        return service.submit(EvaluationRequest(**values))

    with pytest.raises(InvalidInputError, match="no GPU"):
        sent(interpret=False)
    with pytest.raises(InvalidInputError, match="H9000"):
        sent(context={"gpu": "H9000"})
    assert service.store.all() == []
    monkeypatch.setattr("agent.service.service.has_gpu", lambda: True)
    job = sent(interpret=False)
    assert [each.id for each in service.store.all()] == [job.id]
    service.store.remove(job.id)
    assert service.store.all() == []
