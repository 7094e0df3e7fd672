"""The record of a run."""

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


def run_and_record(run: Callable[[], EndedRun], **fields: object) -> Record:
    """Carry out a run; its record, or the reason why it failed."""
    try:
        return record_of(run(), **fields)
    except KbError as error:
        return {**fields, "failed": str(error)}


def record_of(ended: EndedRun, **fields: object) -> Record:
    """The record of a run; times in milliseconds, medians of its last session.

    `over` holds how much faster the best is than each contender, with the 95 % interval of ratios
    that were measured in one session; None for the start itself, where nothing was better.
    `given_back` names the form of the model that is faster than the best, and the run's answer.
    """
    summary, best = ended.summary, ended.summary.best
    rows = {ROWS[row.name]: row for row in summary.rows}
    stopped = ended.record.stopped
    proposed = [
        round_.proposed for round_ in ended.record.rounds.values() if round_.proposed is not None
    ]
    return {
        **fields,
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
        "why_nothing": sorted({reason for p in proposed for reason in p.failures.values()}),
        "gpu_seconds": round(summary.gpu_seconds, 1),
        "baseline_seconds": round(summary.baseline_seconds, 1),
        "wall_seconds": round(summary.seconds, 1),
        "stopped": summary.stopped,
        "ended": stopped.reason if stopped is not None else None,
        "gpu": summary.gpu,
        "versions": ended.record.standing.versions if ended.record.standing is not None else {},
        "source": best.candidate.source if summary.better else None,
        "run": ended.root.name,
    }  # fmt: skip


def _fraction(ended: EndedRun) -> float | None:
    """The share of the floor that the best reaches, in the last session where there was one."""
    best = ended.summary.best
    confirmed = ended.record.confirmed.get(best.id)
    outcome = confirmed.judged.outcome if confirmed is not None else best.outcome
    return outcome.floor_fraction


def is_timed(record: Record) -> bool:
    """Whether the run ended, and timed its kernels."""
    return record.get("ended") is not None and not record["dry"]


def counted_speedup(record: Record) -> float | None:
    """Speedup of the run's answer over `torch.compile`; None where that is unknown.

    Where `torch.compile` is faster than the kernel found, it is the answer, and counts 1.
    """
    form = record.get("given_back") if is_timed(record) else None
    if form is None:
        return best_speedup(record)
    return float(record["ms"][COMPILE] / record["ms"][form])


def best_speedup(record: Record) -> float | None:
    """Speedup of the best kernel of the search, or else of the start, over `torch.compile`."""
    comparison = record["over"].get(COMPILE) if is_timed(record) else None
    return None if comparison is None else float(comparison["ratio"])


def mean(ratios: Collection[float]) -> float | None:
    """The geometric mean; None of nothing."""
    return statistics.geometric_mean(ratios) if ratios else None


def times(record: Record) -> list[str]:
    """PyTorch's forms and the best, and its share of the floor, for a table."""
    return [*(milliseconds(record, form) for form in _FORMS), percent(record["floor_fraction"])]


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
    """Speedup of the best over a contender, for a table."""
    comparison = record.get("over", {}).get(contender)
    if comparison is None:
        return "-"
    if comparison["low"] is None:
        return f"{comparison['ratio']:.3f} (two sessions)"
    return f"{comparison['ratio']:.3f} ({comparison['low']:.3f} to {comparison['high']:.3f})"
