"""What is written down of a run."""

import statistics
from collections.abc import Callable, Collection
from pathlib import Path

from agent.cards.sweep import EndedRun
from benchmarks.tasks import Record
from kb.errors import KbError

ROWS = {"eager": "eager", "torch.compile": "compile", "max-autotune": "max-autotune",
        "start": "start", "best": "best"}  # fmt: skip
COMPILE = "compile"
# Two sessions of one kernel differ by up to a percent.
AT_LEAST = 0.99
_FORMS = ("eager", COMPILE, "max-autotune", "best")
TIMES = (*_FORMS, "of floor")
"""Columns of `times`."""


def recorded(run: Callable[[], EndedRun], **known: object) -> Record:
    """Carry out a run; the record of it, or of why it failed."""
    try:
        return record_of(run(), **known)
    except KbError as error:
        return {**known, "failed": str(error)}


def record_of(ended: EndedRun, **more: object) -> Record:
    """The record of a run; times in milliseconds, medians of its last session.

    `over` holds how much faster the best is than each contender, with the 95 % interval of ratios
    that were measured in one session; None for the start itself, where nothing was better.
    `given_back` names the form of the model that is faster than the best, and the run's answer.
    """
    summary, best = ended.summary, ended.summary.best
    rows = {ROWS[row.name]: row for row in summary.rows}
    last = ended.record.stopped
    proposed = [
        round_.proposed for round_ in ended.record.rounds.values() if round_.proposed is not None
    ]
    return {
        **more,
        "dry": summary.dry,
        "better": summary.better,
        "given_back": summary.given_back,
        "confirmed": summary.confirmed,
        "verdict": best.outcome.verdict.value if best.outcome.verdict is not None else None,
        "ms": {name: row.median_ms for name, row in rows.items()}
        | ({} if summary.better else {"best": best.outcome.median_ms}),
        "over": {
            name: {"ratio": row.ratio, "low": row.low, "high": row.high,
                   "significant": row.significant}
            for name, row in rows.items()
            if row.ratio is not None
        },
        "floor_fraction": _fraction(ended),
        "proposer": best.candidate.proposer,
        "family": best.candidate.family,
        "note": best.candidate.note,
        "round": best.candidate.round,
        "rounds": summary.rounds,
        "judged": summary.judged,
        "right": summary.right,
        "why_nothing": sorted({why for each in proposed for why in each.failures.values()}),
        "gpu_seconds": round(summary.gpu_seconds, 1),
        "baseline_seconds": round(summary.baseline_seconds, 1),
        "wall_seconds": round(summary.seconds, 1),
        "stopped": summary.stopped,
        "ended": last.reason if last is not None else None,
        "gpu": summary.gpu,
        "versions": ended.record.standing.versions if ended.record.standing is not None else {},
        "source": best.candidate.source if summary.better else None,
        "run": ended.root.name,
    }  # fmt: skip


def _fraction(ended: EndedRun) -> float | None:
    """Of the best, in the last session where there was one."""
    best = ended.summary.best
    confirmed = ended.record.confirmed.get(best.id)
    outcome = confirmed.judged.outcome if confirmed is not None else best.outcome
    return outcome.floor_fraction


def timed(record: Record) -> bool:
    """Whether it is of a run that came to its end and timed what it judged."""
    return record.get("ended") is not None and not record["dry"]


def counted(record: Record) -> float | None:
    """How much faster than `torch.compile` what the run gives back is; None where that is unknown.

    Where `torch.compile` is faster than what was found it is given back itself, and counts 1.
    """
    form = record.get("given_back") if timed(record) else None
    return of_kernel(record) if form is None else float(record["ms"][COMPILE] / record["ms"][form])


def of_kernel(record: Record) -> float | None:
    """How much faster than `torch.compile` the best of the search is, or else the start."""
    over = record["over"].get(COMPILE) if timed(record) else None
    return None if over is None else float(over["ratio"])


def mean(ratios: Collection[float]) -> float | None:
    """The geometric mean; None of nothing."""
    return statistics.geometric_mean(ratios) if ratios else None


def times(record: Record) -> list[str]:
    """PyTorch's forms and the best, and its share of the floor, for a table."""
    return [*(milliseconds(record, each) for each in _FORMS), percent(record["floor_fraction"])]


def runs_of(out: Path) -> Path:
    """The folder of the run folders that belong to a results' file."""
    return out.with_name(f"{out.stem}-runs")


def percent(fraction: float | None) -> str:
    """A share for a table, or a dash."""
    return "-" if fraction is None else f"{fraction:.0%}"


def milliseconds(record: Record, contender: str) -> str:
    """A time for a table, or a dash."""
    ms = record.get("ms", {}).get(contender)
    return "-" if ms is None else f"{ms:.4g}"


def ratio(record: Record, contender: str) -> str:
    """How much faster the best is than a contender, for a table."""
    over = record.get("over", {}).get(contender)
    if over is None:
        return "-"
    if over["low"] is None:
        return f"{over['ratio']:.3f} (two sessions)"
    return f"{over['ratio']:.3f} ({over['low']:.3f} to {over['high']:.3f})"
