"""Figures of the arms: the result of each run, and comparisons of arms in pairs."""

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent.optimize.record import Record
from agent.optimize.run import read_run
from agent.proposers.llm.record import Exchange, read_exchanges
from benchmarks.optimize.lift.arms import INDEX
from benchmarks.results import save, table
from kb.errors import KbError

_RESAMPLES = 10_000
_COMPILE, _TUNED = "compile", "max-autotune"


@dataclass(frozen=True, slots=True)
class Run:
    """One problem in one arm."""

    name: str
    arm: str
    ended: str | None
    """Why it ended; None: it goes on."""
    judged: int
    """Candidates, repairs not counted."""
    right: int
    """Of these, right at last."""
    best_ms: float | None
    """Of the fastest right kernel of the model's own."""
    over_compile: float | None
    """What is given back over `torch.compile`, which counts 1 where it is faster."""
    over_max_autotune: float | None
    requests: int
    tokens_in: int
    tokens_out: int
    tokens_to_faster: int | None
    """Until a kernel was proposed that is faster than `torch.compile`; None: there is none."""
    requests_to_faster: int | None
    gpu_seconds: float
    shown: tuple[str, ...]
    """Techniques that contexts showed."""
    gpu: str | None
    versions: dict[str, str]


def run_figures(root: Path, name: str, arm: str) -> Run:
    """The figures of a run folder, as far as it came."""
    _, record = read_run(root)
    exchanges = [exchange for exchange in read_exchanges(root) if exchange.reply is not None]
    first_tries = [judged for judged in record.history if judged.candidate.repairs is None]
    finally_right = [_is_finally_right(record, judged.id) for judged in first_tries]
    times = {name: baseline.median_ms for name, baseline in record.baselines.items()}
    timed = [judged for judged in record.history if judged.outcome.timed]
    best = min((judged.outcome.median_ms or math.inf for judged in timed), default=None)
    confirmed = record.confirmed.get(record.leader.id) if record.standing is not None else None
    if confirmed is not None and timed and confirmed.judged.outcome.timed:
        best = confirmed.judged.outcome.median_ms
    faster_round = next(
        (
            judged.candidate.round
            for judged in timed
            if (judged.outcome.median_ms or math.inf) < times.get(_COMPILE, 0.0)
        ),
        None,
    )
    needed = [e for e in exchanges if faster_round is not None and _round(e) <= faster_round]
    standing = record.standing
    return Run(
        name=name,
        arm=arm,
        ended=record.stopped.reason if record.stopped is not None else None,
        judged=len(first_tries),
        right=sum(finally_right),
        best_ms=best,
        over_compile=_over(times, _COMPILE, best),
        over_max_autotune=_over(times, _TUNED, best),
        requests=len(exchanges),
        tokens_in=sum(exchange.tokens_in for exchange in exchanges),
        tokens_out=sum(exchange.tokens_out for exchange in exchanges),
        tokens_to_faster=sum(e.tokens_in + e.tokens_out for e in needed) if needed else None,
        requests_to_faster=len(needed) or None,
        gpu_seconds=round(record.gpu_seconds, 1),
        shown=tuple(
            slug
            for _, round_ in sorted(record.rounds.items())
            if round_.advised is not None
            for slug in round_.advised.context.techniques
        ),
        gpu=standing.gpu if standing is not None else None,
        versions=standing.versions if standing is not None else {},
    )


def _is_finally_right(record: Record, candidate: str) -> bool:
    """Whether a candidate, or a repair of it, is right."""
    family = {candidate}
    for judged in record.history:
        if judged.candidate.repairs in family:
            family.add(judged.id)
    return any(judged.outcome.right for judged in record.history if judged.id in family)


def _over(times: Mapping[str, float], form: str, best: float | None) -> float | None:
    """The form's time over that of the run's answer: the best kernel, or a form of PyTorch's."""
    if form not in times:
        return None
    forms = [times[name] for name in ("eager", _COMPILE) if name in times]
    return times[form] / min([*forms, *([best] if best is not None else [])])


def _round(exchange: Exchange) -> int:
    """Round of a conversation such as `r02.coder.1`; a repair counts where it is sent."""
    prefix = exchange.conversation.partition(".")[0]
    return int(prefix[1:]) if prefix[1:].isdecimal() else 1


def compare(runs: Sequence[Run], arm: str, measure: str, seed: int = 0) -> dict[str, Any] | None:
    """The index's geometric mean over another arm's, of the problems that both ended, with a
    95 % interval over problems (bootstrap of pairs)."""
    values = {(run.name, run.arm): getattr(run, measure) for run in runs if run.ended}
    names = sorted({name for name, _ in values})
    pairs = [(values.get((name, INDEX)), values.get((name, arm))) for name in names]
    logs = [math.log(ours / theirs) for ours, theirs in pairs if ours and theirs]
    if not logs:
        return None
    rng = random.Random(seed)
    means = sorted(statistics.fmean(rng.choices(logs, k=len(logs))) for _ in range(_RESAMPLES))
    low, high = means[int(0.025 * _RESAMPLES)], means[int(0.975 * _RESAMPLES) - 1]
    return {
        "problems": len(logs),
        "ratio": math.exp(statistics.fmean(logs)),
        "low": math.exp(low),
        "high": math.exp(high),
    }


def arm_figures(runs: Sequence[Run]) -> dict[str, Any]:
    """Means of one arm, over the runs that ended."""
    ended = [run for run in runs if run.ended]
    judged = sum(run.judged for run in ended)
    tokens = [run.tokens_in + run.tokens_out for run in ended]
    return {
        "problems": len(ended),
        "share_right": sum(run.right for run in ended) / judged if judged else None,
        "over_compile": _mean([run.over_compile for run in ended]),
        "over_max_autotune": _mean([run.over_max_autotune for run in ended]),
        "faster_than_compile": sum(run.tokens_to_faster is not None for run in ended),
        "tokens": statistics.fmean(tokens) if tokens else None,
        "requests": statistics.fmean(run.requests for run in ended) if ended else None,
    }


def _mean(values: Sequence[float | None]) -> float | None:
    positive = [value for value in values if value]
    return statistics.geometric_mean(positive) if positive else None


def write(root: Path, names: Sequence[str], arms: Sequence[str]) -> None:
    """Write lift.json and lift.md with the figures of all runs as far as they came."""
    runs: list[Run] = []
    for name in names:
        for arm in arms:
            folder = root / arm / "runs" / name.replace("/", "-")
            try:
                runs.append(run_figures(folder, name, arm))
            except KbError:
                continue  # not begun
    by_arm = {arm: arm_figures([run for run in runs if run.arm == arm]) for arm in arms}
    pairs = {
        arm: {
            measure: compare(runs, arm, measure)
            for measure in ("over_compile", "over_max_autotune", "tokens_out")
        }
        for arm in arms
        if arm != INDEX
    }
    rows = [_row(run) for run in runs]
    header = ("problem", "arm", "right", "best ms", "over compile", "over max-autotune",
              "tokens in", "out", "tokens to faster", "ended")  # fmt: skip
    text = [table(header, rows), ""]
    for arm, comparisons in pairs.items():
        for measure, ratio in comparisons.items():
            if ratio is not None:
                text.append(
                    f"{INDEX} over {arm}, {measure}: {ratio['ratio']:.3f} ({ratio['low']:.3f} to "
                    f"{ratio['high']:.3f}, {ratio['problems']} problems)"
                )
    record = {"arms": by_arm, "pairs": pairs, "runs": [asdict(run) for run in runs]}
    save(root / "lift.json", record)
    (root / "lift.md").write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")
    print("\n".join(text))


def _row(run: Run) -> list[str]:
    def cell(value: float | None) -> str:
        return "-" if value is None else f"{value:.4g}"

    return [
        run.name, run.arm, f"{run.right}/{run.judged}", cell(run.best_ms),
        cell(run.over_compile), cell(run.over_max_autotune), str(run.tokens_in),
        str(run.tokens_out),
        "-" if run.tokens_to_faster is None else str(run.tokens_to_faster), run.ended or "-",
    ]  # fmt: skip
