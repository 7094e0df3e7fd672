"""The search with the real judge, in Triton's interpreter: correctness only, on a tiny problem."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pydantic import BaseModel
from scripted import Listener, Scripted, ScriptedAdvisor
from support import KB

from agent.optimize.candidate import ProblemInfo, Proposal, Stage
from agent.optimize.config import Limits, RunConfig, Strategy
from agent.optimize.gpu_judge import GpuJudge
from agent.optimize.judge_pool import JudgePool
from agent.optimize.judge_process import JudgeLostError, JudgeProcess
from agent.optimize.judge_requests import Request
from agent.optimize.loop import Search
from agent.optimize.run import RunFolder, read_evaluation
from agent.optimize.summary import render
from judge.problem.source import ProblemFile
from judge.progress import Progress
from kb.errors import KbError

PROBLEM = """
import torch

ROWS = 4
COLS = 20


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.rand(ROWS, COLS) - 0.5]


def get_init_inputs():
    return []
"""
KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def _relu(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, tl.maximum(x, FLOOR), mask=offsets < count)


def kernel_function(x):
    out = torch.empty_like(x)
    _relu[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out
"""


def kernel(floor: str) -> Proposal:
    return Proposal(source=KERNEL.replace("FLOOR", floor), proposer="scripted", family="tiling")


def config(**more: object) -> RunConfig:
    file = ProblemFile.parse(PROBLEM, "relu.py")
    told = {
        "problem": ProblemInfo(name=file.name, source=file.text, sha256=file.sha256),
        "given": False,
        "interpret": True,
        # What the tests find on a machine without all layers of the sandbox is no less true.
        "trust": True,
        "limits": Limits(rounds=1),
        "strategy": Strategy(repairs=1),
    }
    return RunConfig.model_validate(told | more)


class Lasting(JudgeProcess):
    """A judging process that a run does not end: starting one takes as long as ten evaluations."""

    def close(self) -> None:
        """Go on."""


@pytest.fixture(scope="module")
def judging() -> Iterator[Lasting]:
    process = Lasting()
    yield process
    JudgeProcess.close(process)


class Fixing(Scripted):
    """Repairs the constant."""

    def repair(self, proposal: Proposal, failure: object) -> Proposal | None:
        return kernel("0.0")


def test_a_dry_run_checks_what_is_proposed_and_has_it_repaired(
    tmp_path: Path, judging: Lasting
) -> None:
    listener = Listener()
    with RunFolder.create(tmp_path / "run", config()) as folder:
        judge = GpuJudge(folder, JudgePool(folder.config, 1, lambda: judging))
        rounds: Sequence[Sequence[Proposal]] = [[kernel("0.1")]]
        found = Search(folder, judge, ScriptedAdvisor(), [Fixing(rounds)], progress=listener).run()
    start, history = folder.record.start, folder.record.history
    assert start.outcome.verdict == "library"
    assert [each.outcome.stage for each in history] == [Stage.VERIFY, Stage.DONE]
    assert [each.outcome.verdict for each in history] == ["wrong", "correct"]
    assert all(each.outcome.median_ms is None for each in (start, *history))
    assert "shape" in history[0].outcome.reasons[0]
    assert read_evaluation(folder.root, history[1].id) is not None
    assert found.dry
    assert "1 of 2 candidates right; a dry run has no times" in " ".join(render(found).split())
    assert any("starting workers" in line for _, line in listener.lines)


BAD = {
    "ends its process": "import os; os._exit(3)",
    "prints megabytes": "print('x' * (1 << 24)); raise ValueError('and fails')",
    "raises what is no exception": "raise SystemExit(0)",
    "takes all memory": "return torch.empty(1 << 50)",
}


def test_candidates_that_break_their_process_end_no_search(
    tmp_path: Path, judging: Lasting
) -> None:
    broken = [
        kernel("0.0").model_copy(
            update={"source": KERNEL.replace("    out =", f"    {each}\n    out =")}
        )
        for each in BAD.values()
    ]
    with RunFolder.create(tmp_path / "run", config(strategy=Strategy(repairs=0))) as folder:
        judge = GpuJudge(folder, JudgePool(folder.config, 1, lambda: judging))
        rounds = [[*broken, kernel("0.0")]]
        Search(folder, judge, ScriptedAdvisor(), [Scripted(rounds, fix=False)]).run()
    history = folder.record.history
    told = [each.outcome.verdict for each in history if each.outcome.verdict != "correct"]
    assert told == ["wrong"] * min(len(BAD), len(history))
    assert all(each.outcome.reasons for each in history if each.outcome.verdict == "wrong")
    assert folder.record.stopped is not None
    assert sum(len(reason) for each in history for reason in each.outcome.reasons) < 20_000


def test_a_problem_that_does_not_import_is_told_in_one_line(
    tmp_path: Path, judging: Lasting
) -> None:
    file = ProblemFile.parse("import not_there\n" + PROBLEM, "broken.py")
    info = ProblemInfo(name=file.name, source=file.text, sha256=file.sha256)
    with (
        RunFolder.create(tmp_path / "run", config(problem=info)) as folder,
        pytest.raises(KbError, match="not_there") as caught,
    ):
        judge = GpuJudge(folder, JudgePool(folder.config, 1, lambda: judging))
        Search(folder, judge, ScriptedAdvisor(), []).run()
    assert "\n" not in str(caught.value)


LITTLE = """
import json, os, sys
replies = os.fdopen(int(sys.argv[1]), "w")
def say(**data):
    replies.write(json.dumps(data) + chr(10)); replies.flush()
for line in sys.stdin:
    {body}
"""


def process(body: str, silence: float = 5.0) -> JudgeProcess:
    return JudgeProcess([sys.executable, "-c", LITTLE.format(body=body)], silence)


class Echoed(BaseModel):
    x: int


class Echo(Request[Echoed]):
    reply = Echoed


REQUEST = Echo()


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("os.abort()", "died with status -6"),
        ("sys.exit('out of memory')", "died with status 1: out of memory"),
        ("replies.write('nonsense' + chr(10)); replies.flush()", "sent an invalid answer"),
        ("import time; time.sleep(60)", "sent nothing for 1 s"),
        ("os.write(replies.fileno(), b'x' * (20 << 20))", "sent too long an answer"),
    ],
)
def test_a_judging_process_that_is_lost_is_told_and_started_again(body: str, told: str) -> None:
    lost = process(body, silence=1.0)
    for _ in range(2):
        with pytest.raises(JudgeLostError, match=told) as caught:
            lost.ask(REQUEST, lambda _: None)
        assert "\n" not in str(caught.value)
    lost.close()


def test_lines_of_progress_keep_a_judging_process_waited_for() -> None:
    body = "import time\n    for n in '0123':\n        time.sleep(0.4); say(say=n, step='work')\n"
    heard: list[Progress] = []
    asked = process(body + "    say(ok={'x': 1})", silence=1.0)
    assert asked.ask(REQUEST, heard.append) == Echoed(x=1)
    assert [str(each) for each in heard] == ["0", "1", "2", "3"]
    asked.close()


def test_a_judging_process_ends_with_its_parent() -> None:
    program = (
        "import sys, time\n"
        "from agent.optimize.judge_process import JudgeProcess\n"
        "from agent.optimize.judge_requests import Describe\n"
        "judge = JudgeProcess()\n"
        "judge.ask(Describe(interpret=True), lambda _: None)\n"
        "print(judge._process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for _ in range(200):
        if not Path(f"/proc/{child}").exists() or _state(child) == "Z":
            return
        subprocess.run(["sleep", "0.05"], check=True)
    pytest.fail("the judging process outlives its parent")


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_the_command_says_at_once_that_there_is_no_gpu(tmp_path: Path) -> None:
    if any(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("there is one")
    (tmp_path / "relu.py").write_text(PROBLEM)
    ran = subprocess.run(
        [KB, "optimize", "relu.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 1
    assert ran.stderr.startswith("kb: no GPU was found; --interpret")
    assert len(ran.stderr.splitlines()) == 1
    assert not (tmp_path / "kb-runs").exists()
    assert not ran.stdout
