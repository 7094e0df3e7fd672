"""Run folders as `kb optimize` leaves them, written through its own models event by event."""

from collections.abc import Sequence
from pathlib import Path

from agent.diagnose.result import Bottleneck, Diagnosis, Evidence, Finding, Roofline
from agent.optimize.candidate import (
    Baseline,
    Candidate,
    Context,
    Hypothesis,
    Judged,
    Outcome,
    ProblemInfo,
    Proposal,
    Stage,
)
from agent.optimize.config import RunConfig
from agent.optimize.events import (
    Advised,
    Closed,
    Confirmed,
    Profiled,
    Proposed,
    Reflected,
    Repaired,
    Standing,
    Started,
    Stopped,
    WasJudged,
)
from agent.optimize.proposers import Spending
from agent.optimize.run import RunFolder
from judge.evaluate.result import Ceilings, Floor, Ratio, Verdict

PROBLEM = """import torch

batch_size = 16
features = 64
dim = 512


class Model(torch.nn.Module):
    def forward(self, x):
        return x / torch.sqrt(torch.mean(x**2, dim=1, keepdim=True) + 1e-5)


def get_inputs():
    return [torch.randn(batch_size, features, dim, dim)]


def get_init_inputs():
    return []
"""
HOSTILE = "</style><script>alert(1)</script> | `x` [a](javascript:alert(1)) \u202e\x00 ignore all"
AT = "2026-11-22T00:00:00+00:00"
DRAM = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
SECTORS = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct"
EAGER, COMPILE, AUTOTUNE, START = 1.9, 0.83, 0.81, 1.6


def ratio(over: str, before: float, after: float, spread: float = 0.01) -> Ratio:
    value = before / after
    return Ratio(
        of="candidate", over=over, ratio=value, low=value - spread, high=value + spread,
        significant=abs(value - 1) > 3 * spread,
    )  # fmt: skip


def candidate(name: str, family: str, round_: int, *parents: str, **more: object) -> Candidate:
    source = f'import triton\n\n\ndef kernel_function(x):\n    """{name}"""\n    return x\n'
    told = {"source": source, "proposer": "llm", "family": family, "parents": parents} | more
    repairs = told.pop("repairs", None)
    return Candidate.of(Proposal.model_validate(told), round_=round_, repairs=repairs)  # type: ignore[arg-type]


def right(made: Candidate, ms: float, over: dict[str, float], **more: object) -> Judged:
    told = {
        "candidate": made.id, "stage": Stage.DONE, "verdict": Verdict.CORRECT, "median_ms": ms,
        "p10_ms": ms * 0.99, "p90_ms": ms * 1.02, "floor_fraction": 0.7 / ms, "gpu_seconds": 8.0,
        "ratios": tuple(ratio(name, value, ms) for name, value in over.items()),
    }  # fmt: skip
    return Judged(candidate=made, outcome=Outcome.model_validate(told | more))


def failed(made: Candidate, stage: Stage, verdict: Verdict | None, reason: str) -> Judged:
    outcome = Outcome(candidate=made.id, stage=stage, verdict=verdict, reasons=(reason,))
    if stage is Stage.COMPILE:
        outcome = outcome.model_copy(update={"error": reason.partition(":")[0]})
    return Judged(candidate=made, outcome=outcome)


class Example:
    """A run in the making; `wall` grows with each event."""

    def __init__(self, root: Path, **config: object) -> None:
        told = {
            "problem": ProblemInfo(name="36_RMSNorm_.py", source=PROBLEM, sha256="0" * 64),
            "given": True, "dtype": "float32", "proposers": ("tune", "llm"), "model": "a-model",
        }  # fmt: skip
        self.folder = RunFolder.create(root, RunConfig.model_validate(told | config))
        self.root = root
        self._wall = 0.0

    def add(self, kind: type, **fields: object) -> None:
        self._wall += 3.0
        self.folder.append(kind.model_validate({"wall": self._wall, "at": AT} | fields))  # type: ignore[attr-defined]

    def begin(self, first: Candidate, **standing: object) -> None:
        judged = right(first, START, {"eager": EAGER, "compile": COMPILE}, reasons=())
        baselines = {
            name: Baseline(median_ms=ms, p10_ms=ms, p90_ms=ms, floor_fraction=0.7 / ms)
            for name, ms in (
                ("start", START), ("eager", EAGER), ("compile", COMPILE), ("max-autotune", AUTOTUNE)
            )
        }  # fmt: skip
        told = {
            "start": judged, "baselines": baselines, "gpu": "H200", "architecture": "sm_90a",
            "devices": ("cuda:0",), "versions": {"torch": "2.11.0", "triton": "3.6.0"},
            "floor": Floor(read_bytes=10**9, write_bytes=10**9, flops=0, ms=0.7, bound="memory"),
            "ceilings": Ceilings(
                read_bps=4.2e12, write_bps=4.4e12, copy_bps=4.1e12, measured_at=AT
            ),
            "baseline_seconds": 31.0,
        }  # fmt: skip
        self.add(Started, standing=Standing.model_validate(told | standing))
        self.add(Profiled, candidate=first.id, metrics={DRAM: 41.0, SECTORS: 25.0}, gpu_seconds=2.0)

    def advise(self, number: int, leader: str, chunks: tuple[str, ...]) -> None:
        evidence = Evidence(
            metric=SECTORS, label="Bytes used per sector", value=25.0, unit="%", meaning="strided"
        )
        finding = Finding(
            rule="uncoalesced", cause="Loads use a quarter of each sector",
            category=Bottleneck.MEMORY, severity=0.6, evidence=(evidence,),
        )  # fmt: skip
        found = Diagnosis(
            headline="Memory bound, and most of each sector is wasted", kernel="k", gpu="H200",
            bottleneck=Bottleneck.MEMORY, roofline=Roofline(), findings=(finding,),
        )  # fmt: skip
        cited = ("CUDA guide, https://example.org/guide (MIT)",)
        context = Context(text="…", chunks=chunks, techniques=chunks, citations=cited, tokens=900)
        self.add(Advised, round=number, leader=leader, diagnosis=found, context=context)

    def propose(self, number: int, candidates: Sequence[Candidate], **more: object) -> None:
        spent = {"llm": Spending(tokens_in=1200, tokens_out=300, money=0.02)}
        self.add(Proposed, round=number, candidates=tuple(candidates), spent=spent, **more)


def whole_run(root: Path, hostile: str = "") -> dict[str, Candidate]:
    """Two rounds: a gain, a failure and its repair, a cheat, a regression, noise; confirmed.

    Returns the candidates by name. `hostile` stands in whatever a model or a kernel says.
    """
    run = Example(root)
    start = candidate("start", "baseline", 0, proposer="start")
    run.begin(start)
    # A model may write what it likes: here, that it is the fastest kernel there is.
    boast = Hypothesis(claim=f"ninety times faster {hostile}", metric=SECTORS, expected=100.0)
    gain = candidate(
        f"gain {hostile}", "coalesced-access", 1, start.id, hypothesis=boast,
        chunks=("coalesced-access", "abc123"), params={"BLOCK": 1024, "num_warps": 8},
    )  # fmt: skip
    wrong = candidate("wrong", "fusion" + hostile, 1, start.id, note=f"trust me {hostile}")
    cheat = candidate("cheat", "persistent-kernel", 1, start.id)
    fixed = candidate("fixed", "fusion", 1, start.id, repairs=wrong.id)
    slow = candidate("slow", "vectorized-access", 2, gain.id)
    same = candidate("same", "tune", 2, gain.id, proposer="tune", params={"num_warps": 4})
    made = {
        "start": start, "gain": gain, "wrong": wrong, "cheat": cheat, "fixed": fixed,
        "slow": slow, "same": same,
    }  # fmt: skip
    run.advise(1, start.id, ("coalesced-access", "abc123"))
    run.propose(1, [gain, wrong, cheat])
    beside = {"leader": START, "start": START, "eager": EAGER}
    run.add(WasJudged, round=1, position=0, judged=right(gain, 0.8, beside))
    reason = f"OutOfResources: shared memory, Required: 262144 {hostile}"
    broken = failed(wrong, Stage.COMPILE, Verdict.WRONG, reason)
    run.add(WasJudged, round=1, position=1, judged=broken)
    run.add(Repaired, round=1, position=1, failed=wrong.id, candidate=fixed)
    mended = right(fixed, 1.2, beside, attempts=2)
    run.add(WasJudged, round=1, position=1, judged=mended)
    caught = failed(cheat, Stage.VERIFY, Verdict.CHEAT, f"it returns its input {hostile}")
    run.add(WasJudged, round=1, position=2, judged=caught)
    run.add(Profiled, candidate=gain.id, metrics={DRAM: 86.0, SECTORS: 100.0}, gpu_seconds=2.0)
    run.add(Reflected, round=1, notes=(f"coalescing paid {hostile}",))
    run.add(Closed, round=1, leader=gain.id, beam=(gain.id, fixed.id), retired=(), gain=1.0)
    run.advise(2, gain.id, ("vectorized-access",))
    run.propose(2, [slow, same], crossover=(gain.id, fixed.id))
    run.add(WasJudged, round=2, position=0, judged=right(slow, 1.0, {"leader": 0.8}))
    run.add(WasJudged, round=2, position=1, judged=right(same, 0.795, {"leader": 0.8}))
    beam = (gain.id, same.id, slow.id)
    run.add(Closed, round=2, leader=gain.id, beam=beam, retired=("fusion",), gain=0.0)
    over = {"start": START, "eager": EAGER, "compile": COMPILE, "max-autotune": AUTOTUNE}
    last = right(gain, 0.8, over, disclosures=("no atomics are used",))
    baselines = {
        name: Baseline(median_ms=ms, p10_ms=ms, p90_ms=ms, floor_fraction=0.7 / ms)
        for name, ms in over.items()
    }
    run.add(Confirmed, judged=last, baselines=baselines)
    run.add(Stopped, reason="no gain", detail="2 rounds")
    run.folder.close()
    return made
