"""Figures over all operators: how many end at or above `torch.compile`, and by how much."""

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.optimize.records import COMPILE, timed
from benchmarks.tasks import Record

# Two sessions of one kernel differ by up to a percent.
AT_LEAST = 0.99


def counted(record: Record) -> float | None:
    """How much faster than `torch.compile` what the run gives back is; None where that is unknown.

    Where `torch.compile` is faster than what was found it is given back itself, and counts 1.
    """
    if not timed(record):
        return None
    form = record.get("given_back")
    if form is not None:
        return float(record["ms"][COMPILE] / record["ms"][form])
    return of_kernel(record)


def of_kernel(record: Record) -> float | None:
    """How much faster than `torch.compile` the best of the search is, the start where it found
    nothing."""
    over = record["over"].get(COMPILE) if timed(record) else None
    return None if over is None else float(over["ratio"])


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """Of all records; a run that failed is in no mean, and not at or above `torch.compile`.

    Figures without `of_those_found` are of what runs give back, which is `torch.compile` where that
    is faster than what was found.
    """
    ratios = {each["name"]: counted(each) for each in records}
    known = [ratio for ratio in ratios.values() if ratio is not None]
    found = [each for each in records if each.get("better")]
    own = {each["name"]: ratio for each in found if (ratio := of_kernel(each)) is not None}
    above = [name for name, ratio in ratios.items() if ratio is not None and ratio >= AT_LEAST]
    spent = [each["gpu_seconds"] for each in records if "gpu_seconds" in each]
    return {
        "operators": len(records),
        "found_better_than_eager": len(found),
        "right_of_these": sum(bool(each["verdict"]) and each["confirmed"] for each in found),
        "by_proposer": {
            name: sum(each["proposer"] == name for each in found)
            for name in sorted({each["proposer"] for each in found})
        },
        "at_or_above_compile": len(above),
        "share_at_or_above_compile": len(above) / len(records) if records else None,
        "geometric_mean_over_compile": statistics.geometric_mean(known) if known else None,
        "of_those_found": {
            "at_or_above_compile": sum(ratio >= AT_LEAST for ratio in own.values()),
            "geometric_mean_over_compile": (
                statistics.geometric_mean(own.values()) if own else None
            ),
            "below_compile": sorted(name for name, ratio in own.items() if ratio < AT_LEAST),
        },
        "given_back": {
            form: sorted(each["name"] for each in records if each.get("given_back") == form)
            for form in sorted({each["given_back"] for each in records if each.get("given_back")})
        },
        "nothing_better": [each["name"] for each in records if each.get("better") is False],
        "below_compile": sorted(
            name for name, ratio in ratios.items() if ratio is not None and ratio < AT_LEAST
        ),
        "failed": {each["name"]: each["failed"] for each in records if "failed" in each},
        "gpu_seconds_median": statistics.median(spent) if spent else None,
        "gpu_seconds_most": max(spent, default=None),
    }
