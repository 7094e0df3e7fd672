"""Several kernels raced and tuned in one process, and what becomes of the proposals."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.optimize.candidate import ProblemInfo, Proposal, SearchState
from agent.optimize.starting import eager_start
from agent.proposers.tune.request import Ranking, Screened, Screening, Version
from agent.proposers.tune.screen import screen
from agent.proposers.tune.screener import Screener
from judge.problem.source import ProblemFile
from judge.sandbox.launch import Zygote
from kb.errors import KbError
from tests.agent.proposers.tune.test_tune_proposer import judged

KERNEL = Path("tests/fixtures/judge/honest/leaky_relu_flat.py").read_text()
PROBLEM = ProblemFile.read(Path("tests/fixtures/judge/problems/leaky_relu.py")).with_constants(
    {"ROWS": 4, "COLS": 64}
)


def test_kernels_are_raced_compared_with_eager_and_tuned(interpreting: Zygote) -> None:
    tunable = KERNEL.replace("def kernel_function(x):", "def kernel_function(x, block=16):")
    tunable = tunable.replace("1024", "block") + '\nTUNABLES = {"block": [16, 64, 256]}\n'
    wrong = KERNEL.replace("0.1 * x", "0.2 * x")
    broken = KERNEL.replace("    out =", "    raise ValueError('not here')\n    out =")
    request = Screening(
        problem=PROBLEM, kernels=(tunable, wrong, broken, KERNEL),
        reference=eager_start(PROBLEM).source, device="cpu", trust=True, seconds=60.0,
    )  # fmt: skip
    found = screen(request, zygote=interpreting)
    tuned, off, raises, given = found.kernels
    assert tuned.version is not None
    assert tuned.version.values["block"] in (64, 256), "16 takes four times as many programs"
    assert tuned.start["block"] == 16
    assert f"block={tuned.version.values['block']}" in tuned.version.source
    assert given.version is not None
    assert off.version is None
    assert "its outputs differ by" in off.why
    assert raises.version is None
    assert "not here" in raises.why
    assert found.reference_ms is not None
    assert found.reference_ms > 0


SUM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        total = torch.zeros_like(x[:, 0])
        for column in range(x.shape[1]):
            total = total + x[:, column]
        return total * self.weight

def get_inputs():
    return [torch.rand(4, 2048)]

def get_init_inputs():
    return []
"""
SUMS = """
import triton

def kernel_function(x, weight):
    return (x.double().sum(dim=1) * weight.double()).to(x.dtype)
"""


def test_a_kernel_that_does_not_round_each_sum_as_eager_does_is_right(
    interpreting: Zygote,
) -> None:
    wrong = SUMS.replace("dim=1)", "dim=1) * 1.5")
    request = Screening(
        problem=SUM, kernels=(SUMS, wrong), reference=eager_start(SUM).source, device="cpu",
        trust=True, seconds=60.0, dtype="bfloat16",
    )  # fmt: skip
    right, off = screen(request, zygote=interpreting).kernels
    assert right.version is not None, right.why
    assert off.version is None
    assert "its outputs differ by 0.5" in off.why, "from the sums, not from eager's 1.0"


@pytest.mark.parametrize(("start_ms", "searched"), [(1e-6, False), (1e6, True)])
def test_kernels_that_end_the_race_far_behind_the_start_are_not_searched(
    interpreting: Zygote, start_ms: float, searched: bool
) -> None:
    tunable = KERNEL.replace("def kernel_function(x):", "def kernel_function(x, block=64, more=1):")
    tunable = tunable.replace("1024", "block")
    tunable += '\nTUNABLES = {"block": [16, 32, 64, 128, 256], "more": [1, 2, 3, 4, 5, 6]}\n'
    request = Screening(
        problem=PROBLEM, kernels=(tunable,), reference=eager_start(PROBLEM).source, device="cpu",
        trust=True, seconds=20.0, start_ms=start_ms,
    )  # fmt: skip
    (found,) = screen(request, zygote=interpreting).kernels
    assert (found.tried > 10) == searched, "the race tries ten"
    assert found.version is not None


def state(**fields: object) -> SearchState:
    problem = ProblemInfo(name="leaky_relu.py", source=PROBLEM, sha256="0" * 64)
    start = judged(KERNEL)
    return SearchState(
        problem=problem, device="cuda:0", round=1, beam=(start,), leader=start, start=start,
        history=(start,), **fields,
    )  # fmt: skip


def proposals(*sources: str) -> list[Proposal]:
    return [
        Proposal(source=each, proposer="recipe", family="tiling", note=f"kernel {number}")
        for number, each in enumerate(sources)
    ]


class Ranks:
    """Stands for the process."""

    def __init__(self, ms: Sequence[float | None], reference_ms: float | None = 1.0) -> None:
        self.ms = ms
        self.reference_ms = reference_ms
        self.requests: list[Screening] = []

    def __call__(self, request: Screening) -> Ranking:
        self.requests.append(request)
        kernels = tuple(
            Screened(
                version=None if ms is None else Version(
                    source=f"{text}\n# best\n", values={"BLOCK": 64}, ms=ms
                ),
                start={"BLOCK": 1024}, tried=9, failed=1, why="" if ms else "it does not compile",
            )
            for text, ms in zip(request.kernels, self.ms, strict=True)
        )  # fmt: skip
        return Ranking(kernels=kernels, reference_ms=self.reference_ms, held_seconds=7.0)


def test_the_fastest_goes_first_and_what_does_not_work_or_pay_is_left_out() -> None:
    ranks = Ranks([0.9, None, 0.4, 1.5])
    screener = Screener(rank=ranks)
    texts = [KERNEL + "\n" * n for n in range(4)]
    first, second = screener.screen(state(), proposals(*texts))
    assert [first.note.split(";")[0], second.note.split(";")[0]] == ["kernel 2", "kernel 0"]
    assert first.source.endswith("# best\n")
    assert first.params == {"BLOCK": 64}
    assert "0.4 ms in quick timings" in first.note
    assert screener.spent.gpu_seconds == 7.0
    assert screener.notes == (
        "kernel 1: it does not compile",
        "kernel 3: 1.5 ms at best, where eager PyTorch takes 1 ms",
    )
    assert "class ModelNew(Model)" in ranks.requests[0].reference


@pytest.mark.parametrize(
    ("left", "held", "seconds"),
    [(None, 60.0, 60.0), (12.0, 12.0, 36.0), (50.0, 45.0, 60.0), (500.0, 300.0, 60.0)],
)
def test_a_screening_takes_what_the_limit_leaves(
    left: float | None, held: float, seconds: float
) -> None:
    ranks = Ranks([0.5])
    Screener(rank=ranks).screen(state(seconds_left=left), proposals(KERNEL))
    (request,) = ranks.requests
    assert request.hold_seconds == pytest.approx(held)
    assert request.seconds == pytest.approx(seconds)


def test_a_screening_waits_for_the_card_as_long_as_the_run_has_wall_time() -> None:
    for left, waits in ((None, None), (100.0, 40.0), (60.0, 0.0)):
        ranks = Ranks([0.5])
        Screener(rank=ranks).screen(state(wall_left=left), proposals(KERNEL))
        given = ranks.requests[0].patience
        assert given == (waits if waits is None else pytest.approx(waits, abs=1.0))


def test_without_time_or_success_proposals_stay_as_they_are() -> None:
    def fails(request: Screening) -> Ranking:
        raise KbError("tuning failed: the card is gone")

    given = proposals(KERNEL)
    screener = Screener(rank=fails)
    assert screener.screen(state(seconds_left=5.0), given) == given
    assert screener.notes == ()
    assert screener.screen(state(), given) == given
    assert screener.notes == ("not screened: tuning failed: the card is gone",)
    assert screener.screen(state(interpret=True), given) == given
