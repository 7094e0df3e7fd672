"""Tuning on a GPU: versions are compiled ahead inside the sandbox, and a mistuned kernel gains."""

from collections.abc import Iterator

import pytest
import torch

from agent.proposers.tune.material import Subject
from agent.proposers.tune.parameters import find_parameters
from agent.proposers.tune.request import Tuning
from agent.proposers.tune.timing import SourceTimer
from agent.proposers.tune.tuner import tune
from benchmarks.optimize.mistuned.cases import load
from judge.evaluate.session import Worker
from judge.problem.kernel import KernelFile
from judge.sandbox.launch import Zygote
from judge.worker import messages as m

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(scope="module")
def compiling() -> Iterator[Zygote]:
    with Zygote() as zygote:
        yield zygote


def test_versions_are_compiled_ahead_and_timed(
    compiling: Zygote, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[int] = []
    bench = SourceTimer._bench

    def counted(self: SourceTimer, worker: Worker, command: m.BenchSources) -> m.Benched:
        reply = bench(self, worker, command)
        compiled.append(reply.compiled_ahead)
        return reply

    monkeypatch.setattr(SourceTimer, "_bench", counted)
    (case,) = load(["leaky_relu_slivers"])
    tunable = find_parameters(case.kernel)
    sources = [tunable.write({"BLOCK": block}) for block in (64, 256, 1024, 4096)]
    subject = Subject(
        problem=case.problem, kernel=KernelFile.parse(case.kernel), device="cuda:0", trust=True
    )
    with SourceTimer(subject, compiling) as timing:
        results = timing.times([*sources, case.kernel], 20, 60.0)
        assert sum(compiled) == 5, "the kernel as it is, and four versions"
        again = timing.times(sources, 20, 60.0)
        assert sum(compiled) == 5, "they are loaded already"
    assert all(len(each.ms) >= 2 for each in [*results, *again]), [each.error for each in results]
    assert min(results[2].ms) < min(results[-1].ms), "1024 elements beat 32"


def test_a_version_that_reads_out_of_bounds_costs_only_itself(compiling: Zygote) -> None:
    (case,) = load(["leaky_relu_slivers"])
    wild = case.kernel.replace("x_ptr + at, mask=at < count", "x_ptr + at + (1 << 40)")
    subject = Subject(
        problem=case.problem, kernel=KernelFile.parse(case.kernel), device="cuda:0", trust=True
    )
    with SourceTimer(subject, compiling) as timing:
        first, bad, last = timing.times([case.kernel, wild, case.kernel + "\n"], 5, 60.0)
    assert first.ms
    assert last.ms
    assert bad.error


@pytest.mark.parametrize("name", ["leaky_relu_slivers", "abs_sum_bad_list"])
def test_a_mistuned_kernel_gets_faster(compiling: Zygote, name: str) -> None:
    (case,) = load([name])
    request = Tuning(
        problem=case.problem, kernel=case.kernel, device="cuda:0", seconds=30.0, trust=True
    )
    found = tune(request, zygote=compiling)
    assert found.given_ms is not None
    assert found.versions[0].ms < 0.8 * found.given_ms, found
    assert found.held_seconds < 40
