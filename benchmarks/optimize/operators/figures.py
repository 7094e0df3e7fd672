"""Figures over all operators: how many end at or above `torch.compile`, and by how much."""

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.optimize.records import COMPILE, Record, timed

# Two sessions of one kernel differ by up to a percent.
AT_LEAST = 0.99


def counted(record: Record) -> float | None:
    """How much faster than `torch.compile` what the optimizer gives is; None where that is unknown.

    Where it says that it has nothing better than eager PyTorch, the user keeps what there was:
    that counts 1, and is told apart in `summary`.
    """
    if not timed(record):
        return None
    if not record["better"]:
        return 1.0
    over = record["over"].get(COMPILE)
    return None if over is None else float(over["ratio"])


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """Of all records; a run that failed is in no mean, and not at or above `torch.compile`."""
    ratios = {each["name"]: counted(each) for each in records}
    known = [ratio for ratio in ratios.values() if ratio is not None]
    found = [each for each in records if each.get("better")]
    theirs = [ratio for each in found if (ratio := ratios[each["name"]]) is not None]
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
            "at_or_above_compile": sum(ratio >= AT_LEAST for ratio in theirs),
            "geometric_mean_over_compile": statistics.geometric_mean(theirs) if theirs else None,
        },
        "nothing_better": [each["name"] for each in records if each.get("better") is False],
        "below_compile": sorted(
            name for name, ratio in ratios.items() if ratio is not None and ratio < AT_LEAST
        ),
        "failed": {each["name"]: each["failed"] for each in records if "failed" in each},
        "gpu_seconds_median": statistics.median(spent) if spent else None,
        "gpu_seconds_most": max(spent, default=None),
    }
