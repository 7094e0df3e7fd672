"""A judging process that needs no GPU: kernels say their times themselves.

The real search, record and reports run on what it answers. A kernel's source holds `MS = 0.5`;
eager PyTorch as a kernel file takes what eager takes.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agent.cards.local import LocalCard
from agent.cards.pool import CardPool
from agent.optimize.candidate import Outcome, Proposal, SearchState
from agent.optimize.judge_process import JudgeProcess
from agent.optimize.judge_requests import (
    Describe,
    DeviceInfo,
    Evaluate,
    EvaluationReply,
    ProfileReply,
    TakeProfile,
)
from agent.optimize.proposers import Proposer
from judge.evaluate.result import Ceilings, Evaluation, Floor, Ratio, Timing, Verdict
from judge.profile.result import KernelProfile, Profile
from judge.progress import Say

MS = {"eager": 2.0, "compile": 0.8, "max-autotune": 0.7}
_MS = re.compile(r"^MS = ([0-9.]+)$", re.MULTILINE)


def kernel(ms: float) -> str:
    return (
        f"import triton\n\n\ndef kernel_function(*inputs):\n    return inputs[0]\n\n\nMS = {ms}\n"
    )


def ms_of(path: Path) -> float:
    found = _MS.search(path.read_text())
    return float(found.group(1)) if found else MS["eager"]


def cards(judge: JudgeProcess) -> CardPool:
    """One card."""
    return CardPool([LocalCard("GPU 0", "NVIDIA H200", lambda: judge)])


class FakeJudge(JudgeProcess):
    """Answers what `agent.optimize.judge_main` would."""

    def __init__(self, before: Callable[[Evaluate], None] = lambda _: None) -> None:
        super().__init__(("false",))
        self.asked: list[Any] = []
        self.runs = 0
        self._before = before

    def ask(self, request: Any, say: Say) -> Any:
        self.asked.append(request)
        if isinstance(request, Describe):
            self.runs += 1
            versions = {"torch": "2.11"}
            return DeviceInfo(devices=("cuda:0",), gpu="NVIDIA H200", versions=versions)
        if isinstance(request, TakeProfile):
            made = KernelProfile(name="k", launches=1, time_ns=1, share=1, metrics={"m": 3.0})
            profile = Profile(problem="p", kernel="k", gpu="NVIDIA H200", kernels=(made,))
            return ProfileReply(profile=profile, gpu_seconds=3.0)
        self._before(request)
        mine = ms_of(request.kernel)
        timed = {"candidate": mine}
        timed |= {f"{n}:{p.name}": ms_of(p) for n, p in enumerate(request.against, 1)}
        timed |= {each: MS[each] for each in request.baselines}
        others = {name: ms for name, ms in timed.items() if name != "candidate"}
        found = Evaluation(
            problem="p", problem_sha256="0", kernel="k", kernel_sha256="1", language="triton",
            dtype=request.dtype, precision="ieee", device="cuda:0", interpreted=False,
            gpu="NVIDIA H200", versions={}, date="2026-01-01T00:00:00+00:00",
            verdict=Verdict.CORRECT, reasons=(), seconds=10.0,
            timings=tuple(_timing(name, ms) for name, ms in timed.items()),
            ratios=tuple(_ratio(name, ms, mine) for name, ms in others.items()),
            floor=Floor(read_bytes=8, write_bytes=8, flops=0, ms=0.1, bound="memory"),
            ceilings=Ceilings(read_bps=1, write_bps=1, copy_bps=1, measured_at="now"),
        )  # fmt: skip
        compiled = 30.0 * len({"compile", "max-autotune"} & set(request.baselines))
        return EvaluationReply(evaluation=found, gpu_seconds=10.0, baseline_seconds=compiled)


def _timing(name: str, ms: float) -> Timing:
    return Timing(
        contender=name, method="events", median_ms=ms, p10_ms=ms, p90_ms=ms, launches=100,
        floor_fraction=0.1 / ms,
    )  # fmt: skip


def _ratio(name: str, ms: float, mine: float) -> Ratio:
    value = ms / mine
    return Ratio(
        of="candidate", over=name, ratio=value, low=value * 0.99, high=value * 1.01,
        significant=abs(value - 1) > 0.02,
    )  # fmt: skip


class Offering(Proposer):
    """Proposes a kernel of each of these times, once."""

    name = "recipe"

    def __init__(self, times: Sequence[float]) -> None:
        self._times = times

    def propose(self, state: SearchState) -> Sequence[Proposal]:
        if state.round > 1:
            return []
        return [
            Proposal(source=kernel(ms), proposer=self.name, family=f"family{n}")
            for n, ms in enumerate(self._times)
        ]

    def repair(self, proposal: Proposal, failure: Outcome) -> None:
        return None
