"""What `tune` proposes, for which kernels, and what it spends."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.optimize.candidate import (
    Candidate,
    Judged,
    Outcome,
    ProblemInfo,
    Proposal,
    SearchState,
    Stage,
)
from agent.optimize.judge_process import JudgeProcess
from agent.proposers.tune.proposer import TuneProposer, has_parameters, select_versions
from agent.proposers.tune.request import Tuned, Tuning, Version
from agent.proposers.tune.tuner import tune
from judge.evaluate.result import Verdict
from judge.problem.source import ProblemFile
from judge.progress import Progress
from judge.sandbox.launch import Zygote
from kb.errors import KbError

KERNEL = Path("tests/fixtures/judge/honest/leaky_relu_flat.py").read_text()
FASTER = KERNEL.replace("1024", "4096")
PROBLEM = Path("tests/fixtures/judge/problems/leaky_relu.py")


def version(source: str, ms: float, **values: int) -> Version:
    return Version(source=source, values=values, ms=ms)


def tuned(*versions: Version, given_ms: float | None = 1.0) -> Tuned:
    return Tuned(
        given_ms=given_ms, versions=versions, start={"BLOCK": 1024}, tried=9, failed=1,
        reasons={}, held_seconds=11.0,
    )  # fmt: skip


def judged(
    source: str,
    *,
    proposer: str = "given",
    family: str = "baseline",
    parents: tuple[str, ...] = (),
    right: bool = True,
    quick_ms: float | None = None,
) -> Judged:
    proposal = Proposal(
        source=source, proposer=proposer, family=family, parents=parents, quick_ms=quick_ms
    )
    candidate = Candidate.of(proposal, round_=0)
    verdict = Verdict.CORRECT if right else Verdict.WRONG
    stage = Stage.DONE if right else Stage.VERIFY
    outcome = Outcome(candidate=candidate.id, stage=stage, verdict=verdict, median_ms=1.0)
    return Judged(candidate=candidate, outcome=outcome)


def state(*beam: Judged, **fields: object) -> SearchState:
    text = PROBLEM.read_text()
    problem = ProblemInfo(name="leaky_relu.py", source=text, sha256="0" * 64)
    return SearchState(
        problem=problem, device="cuda:0", round=1, beam=beam, leader=beam[0], start=beam[0],
        history=beam, **fields,
    )  # fmt: skip


class Runs:
    """Stands for the tuning process."""

    def __init__(self, answer: Callable[[Tuning], Tuned]) -> None:
        self.answer = answer
        self.requests: list[Tuning] = []

    def __call__(self, request: Tuning) -> Tuned:
        self.requests.append(request)
        return self.answer(request)


def test_the_best_and_a_close_second_are_proposed() -> None:
    runs = Runs(
        lambda _: tuned(
            version(FASTER, 0.5, BLOCK=4096),
            version(KERNEL.replace("1024", "2048"), 0.505, BLOCK=2048),
            version(KERNEL.replace("1024", "512"), 0.9, BLOCK=512),
            version(KERNEL, 1.0, BLOCK=1024),
        )
    )
    proposer = TuneProposer(run=runs)
    start = judged(KERNEL)
    first, second = proposer.propose(state(start))
    assert first.source == FASTER
    assert first.parents == (start.id,)
    assert (first.proposer, first.family) == ("tune", "tune")
    assert first.params == {"BLOCK": 4096}
    assert first.hypothesis is not None
    assert "BLOCK 1024 → 4096" in first.hypothesis.claim
    assert second.params == {"BLOCK": 2048}
    assert proposer.spent.gpu_seconds == 11.0
    assert proposer.propose(state(start)) == [], "a kernel is tuned once"
    assert len(runs.requests) == 1


def test_a_technique_keeps_its_family_and_what_was_tuned_is_left_alone() -> None:
    runs = Runs(lambda request: tuned(version(request.kernel + "\n# other\n", 0.5)))
    start = judged(KERNEL)
    done = judged(FASTER, proposer="tune", family="tune", parents=(start.id,), quick_ms=0.9)
    technique = judged(KERNEL.replace("512", "256") + "\n", proposer="llm", family="vectorization")
    wrong = judged(KERNEL + "\n\n", proposer="llm", family="tiling", right=False)
    (proposal,) = TuneProposer(run=runs).propose(state(start, done, technique, wrong))
    assert proposal.family == "vectorization"
    assert [each.kernel for each in runs.requests] == [technique.candidate.source]


def test_nothing_better_is_nothing_proposed() -> None:
    assert select_versions(tuned(version(FASTER, 0.99), version(KERNEL, 1.0)), KERNEL) == []
    assert select_versions(tuned(version(FASTER, 0.5), given_ms=None), KERNEL) == []
    assert select_versions(tuned(), KERNEL) == []


def test_budgets_and_dry_runs_are_kept() -> None:
    runs = Runs(lambda _: tuned())
    start = judged(KERNEL)
    assert TuneProposer(run=runs).propose(state(start, interpret=True)) == []
    assert TuneProposer(run=runs).propose(state(start, seconds_left=5.0)) == []
    assert not runs.requests
    TuneProposer(run=runs).propose(state(start, seconds_left=60.0))
    TuneProposer(run=runs).propose(state(start, seconds_left=500.0))
    # What is found has to be judged as well.
    assert [each.seconds for each in runs.requests] == [30.0, 40.0]


def test_one_failure_does_not_lose_another_kernels_proposals() -> None:
    def answer(request: Tuning) -> Tuned:
        if request.kernel == KERNEL:
            raise KbError("no card")
        return tuned(version(request.kernel + "\n# other\n", 0.5))

    start, other = judged(KERNEL), judged(FASTER, proposer="llm", family="tiling")
    assert len(TuneProposer(run=Runs(answer)).propose(state(start, other))) == 1
    with pytest.raises(KbError, match="no card"):
        TuneProposer(run=Runs(answer)).propose(state(start))


def test_only_triton_kernels_with_something_to_change_are_tuned() -> None:
    assert has_parameters(KERNEL, "k.py")
    assert not has_parameters("def kernel_function(x):\n    return x\n", "k.py")
    assert not has_parameters("def kernel_function(x:\n", "k.py")
    assert not has_parameters("// KB: nothing\n", "k.cu")


def test_a_judging_process_tunes_on_the_cpu_by_the_clock() -> None:
    problem = ProblemFile.read(PROBLEM).with_constants({"ROWS": 4, "COLS": 64})
    said: list[Progress] = []
    request = Tuning(
        problem=problem, kernel=KERNEL.replace("1024", "32"), device="cpu", seconds=40.0, batch=8,
        trust=True,
    )  # fmt: skip
    process = JudgeProcess()
    found = process.ask(request, said.append)
    process.close()
    assert found.given_ms is not None
    assert found.versions[0].ms < found.given_ms, "256 elements in blocks of 32 take eight turns"
    assert found.versions[0].values["BLOCK"] > 32
    assert found.tried >= 8
    assert found.failed == 0, found.reasons
    assert said


def test_a_problem_that_cannot_be_run_is_said(interpreting: Zygote) -> None:
    request = Tuning(problem="x = 1\n", kernel=KERNEL, device="cpu", seconds=5.0, trust=True)
    with pytest.raises(KbError, match=r"the problem cannot be run: .*Model"):
        tune(request, zygote=interpreting)
