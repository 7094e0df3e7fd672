"""Cards lent to runs: what becomes of work on a card that faults, and of the other cards."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import BaseModel

from agent.cards import local
from agent.cards.local import LocalCard, Probe, local_cards
from agent.cards.pool import CardLostError, CardPool
from agent.cards.sweep import Runner, run_all
from agent.optimize.events import Standing
from agent.optimize.judge_process import JudgeError, JudgeLostError, JudgeProcess
from agent.optimize.judge_requests import DeviceInfo, Request
from agent.optimize.record import Record
from agent.pause import NeedsGpuError, PausedError
from cli.sweeping import _cards
from judge.progress import silent
from kb.errors import KbError


class Done(BaseModel):
    by: str = ""


class Work(Request[Done]):
    reply = Done


class Process:
    """A judging process that fails as it is told."""

    def __init__(self, name, failures=(), sound=True):
        self.name, self.failures, self.sound, self.asked = name, list(failures), sound, []

    def ask(self, request, say):
        self.asked.append(type(request))
        if isinstance(request, Probe) and not self.sound:
            raise JudgeError("CUDA error: the device fell off the bus")
        if isinstance(request, Work) and self.failures:
            raise self.failures.pop(0)
        return Done(by=self.name)

    def cancel(self):
        pass

    close = cancel


def card(name, kind="H100", **more):
    process = Process(name, **more)
    return LocalCard(name, kind, lambda: process), process


def test_work_on_a_card_that_faults_is_done_on_another_of_its_kind_and_the_card_is_taken_out():
    bad, _ = card("bad", failures=[JudgeError("CUDA error")] * 3, sound=False)
    other, other_process = card("other", kind="A100")
    good, _ = card("good")
    pool = CardPool([bad, other, good])
    with pool.lend() as lent:
        assert lent.ask(Work(), silent).by == "good"
    assert len(pool) == 2
    assert pool.lost == ["bad: it faults: CUDA error"]
    assert not other_process.asked, "times of two kinds of card are not mixed"
    with pool.lend() as first, pool.lend() as second:
        assert {each.ask(Work(), silent).by for each in (first, second)} == {"other", "good"}


@pytest.mark.parametrize("error", [JudgeError("no such file"), JudgeLostError("died")])
def test_a_failure_on_a_card_that_works_is_the_requests_own(error):
    sound, process = card("sound", failures=[error])
    pool = CardPool([sound])
    with pool.lend() as lent, pytest.raises(type(error), match=str(error)):
        lent.ask(Work(), silent)
    assert process.asked == [Work, Probe]
    assert len(pool) == 1


def test_without_another_card_of_the_kind_the_run_pauses():
    bad, _ = card("bad", failures=[JudgeLostError("died")], sound=False)
    pool = CardPool([bad, card("other", kind="A100")[0]])
    with pool.lend() as lent, pytest.raises(NeedsGpuError, match=r"no H100 is left .*it faults"):
        lent.ask(Work(), silent)
    with pytest.raises(NeedsGpuError, match="no H100 is left"), pool.lend("H100"):
        pass
    assert pool.kinds == {"A100"}


def test_a_request_that_takes_cards_down_is_given_up():
    class Gone:
        kind = "H100"

        def __init__(self, name):
            self.name = name

        def ask(self, request, say):
            raise CardLostError("its node was lost")

        def close(self):
            pass

    pool = CardPool([Gone(str(n)) for n in range(5)])
    with pool.lend() as lent, pytest.raises(JudgeLostError, match="2 devices were lost"):
        lent.ask(Work(), silent)
    assert len(pool) == 3


def test_as_many_tasks_run_at_once_as_there_are_cards():
    pool = CardPool([card("a")[0], card("b")[0]])
    both = threading.Barrier(2, timeout=10)
    done = []

    def work(task):
        with pool.lend() as lent:
            both.wait()
            done.append((task, lent.ask(Work(), silent).by))

    assert run_all(pool, range(4), work) == []
    assert sorted(task for task, _ in done) == [0, 1, 2, 3]
    assert {by for _, by in done} == {"a", "b"}


def test_nothing_is_begun_once_it_is_to_stop_and_the_rest_is_told():
    pool = CardPool([card("a")[0]])
    done = []
    assert run_all(pool, range(4), done.append, stop=lambda: len(done) == 2) == [2, 3]


def test_ctrl_c_ends_what_waits_for_a_card():
    pool = CardPool([card("a")[0]])

    def work(task):
        if task == "interrupted":
            raise KeyboardInterrupt
        with pool.lend(), pool.lend():
            pass

    pool._free *= 2  # two tasks at once
    pool._all *= 2
    with pytest.raises((KeyboardInterrupt, PausedError)):
        run_all(pool, ["waits", "interrupted"], work)
    with pytest.raises(PausedError, match="interrupted"):
        pool.take()


def test_a_request_that_is_cancelled_neither_probes_nor_loses_the_card():
    made = [
        JudgeProcess([sys.executable, "-c", "import time; time.sleep(60)"]),
        Process("next"),
    ]
    pool = CardPool([LocalCard("a", None, lambda: made.pop(0))])
    with ThreadPoolExecutor(1) as executor, pool.lend() as lent:
        asked = executor.submit(lent.ask, Work(), silent)
        while not pool._all[0]._process._process:
            pass
        lent.cancel()
        with pytest.raises(JudgeLostError):
            asked.result(10)
        assert lent.ask(Work(), silent).by == "next"


def test_a_judging_process_gets_its_card_and_its_share_of_the_cores():
    told = "os.environ['CUDA_VISIBLE_DEVICES'] + str(sorted(os.sched_getaffinity(0)))"
    script = (
        "import os, sys, json, time\n"
        "out = os.fdopen(int(sys.argv[1]), 'w')\n"
        "for line in sys.stdin:\n"
        f"    time.sleep(0.2); out.write(json.dumps({{'ok': {{'by': {told}}}}}) + '\\n')\n"
        "    out.flush()\n"
    )
    shares = [local.share_of_cores(place, 2) for place in range(2)]
    if len(os.sched_getaffinity(0)) > 1:
        assert not shares[0] & shares[1]
    process = JudgeProcess(
        [sys.executable, "-c", script],
        environment={"CUDA_VISIBLE_DEVICES": "GPU-x"},
        cores=shares[1],
    )
    assert process.ask(Work(), silent).by == f"GPU-x{sorted(shares[1])}"
    process.close()


def test_cards_are_all_of_the_first_ones_kind_or_so_many(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-x, GPU-y,GPU-z")
    described = DeviceInfo(devices=("cuda:0", "cuda:2"), gpu="NVIDIA H200")
    made = []

    class Fake:
        def __init__(self, silence=None, environment=None, cores=None):
            made.append((environment, cores))

        def ask(self, request, say):
            return described

        def close(self):
            pass

    monkeypatch.setattr(local, "JudgeProcess", Fake)
    monkeypatch.setattr(local, "has_gpu", lambda: True)
    with local_cards() as cards:
        assert [each.name for each in cards._all] == ["GPU GPU-x", "GPU GPU-z"]
        assert {each.kind for each in cards._all} == {"NVIDIA H200"}
    assert [each[0] for each in made[1:]] == [
        {"CUDA_VISIBLE_DEVICES": "GPU-x"}, {"CUDA_VISIBLE_DEVICES": "GPU-z"},
    ]  # fmt: skip
    assert made[1][1]
    assert len(local_cards("1")) == 1
    assert len(local_cards("all", per_card=2)) == 4
    with pytest.raises(KbError, match="3 GPUs were requested, but there are 2"):
        local_cards("3")
    with pytest.raises(KbError, match="a number or 'all', not 'some'"):
        local_cards("some")


def test_without_ray_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        KbError, match=r"--ray needs Ray: install it with `pip install 'kernel-kb"
    ) as told:
        _cards("auto", interpret=True)
    assert "\n" not in str(told.value)


def test_a_resumed_run_waits_for_a_card_of_the_kind_that_it_was_begun_on(tmp_path):
    pool = CardPool([card("a", kind="NVIDIA A100-SXM4-80GB")[0], card("b", kind="NVIDIA H200")[0]])
    runner = Runner(tmp_path, pool)
    begun = Standing.model_construct(gpu="H200", measured=True)
    assert runner._kind(Record(standing=begun)) == "NVIDIA H200"
    assert runner._kind(Record()) is None
    elsewhere = Standing.model_construct(gpu="B200", measured=True)
    with pytest.raises(NeedsGpuError, match="no B200 is left"):
        pool.take(runner._kind(Record(standing=elsewhere)))
