"""Side by side: what each way of running came to on the same problems."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.optimize.records import Record, timed
from benchmarks.optimize.retrieval.arms import INDEX

START = "start"
# Medians of two sessions: below this they are one.
NOISE = 0.02


def speedup(record: Record) -> float | None:
    """Over the start, in one session; 1 where nothing better was found; None where it failed.

    The start is what every way begins with and is timed beside, so it is the common measure.
    """
    if not timed(record):
        return None
    if not record["better"]:
        return 1.0
    over = record["over"].get(START)
    return None if over is None else float(over["ratio"])


def summary(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """By arm. Means are over the problems that this arm and the index's both have."""
    arms = list(dict.fromkeys(each["arm"] for each in records))
    by: Mapping[str, dict[str, Record]] = {
        arm: {each["name"]: each for each in records if each["arm"] == arm} for arm in arms
    }
    return {arm: _compared(by[arm], by.get(INDEX, {})) for arm in arms}


def _compared(mine: dict[str, Record], index: dict[str, Record]) -> dict[str, Any]:
    pairs = []
    for name, record in mine.items():
        own, theirs = speedup(record), speedup(index.get(name, {}))
        if own is not None and theirs is not None:
            pairs.append((own, theirs))
    ratios = [own / theirs for own, theirs in pairs]
    ended = [each for each in mine.values() if "failed" not in each]
    return {
        "problems": len(mine),
        "compared": len(pairs),
        "failed": sorted(name for name, each in mine.items() if "failed" in each),
        "found_better": sum(each["better"] for each in ended),
        "geometric_mean_over_the_start": _mean([own for own, _ in pairs]),
        "geometric_mean_over_index": _mean(ratios),
        "better_than_index": sum(each > 1 + NOISE for each in ratios),
        "worse_than_index": sum(each < 1 / (1 + NOISE) for each in ratios),
        "judged": sum(each["judged"] for each in ended),
        "rounds": sum(each["rounds"] for each in ended),
        "gpu_seconds": round(sum(each["gpu_seconds"] for each in ended), 1),
        # Without these two a switch has changed nothing, whatever the times say.
        "combined_candidates": sum(each["combined"] for each in ended),
        "retired_families": sum(len(each["retired"]) for each in ended),
    }


def _mean(values: Sequence[float]) -> float | None:
    return statistics.geometric_mean(values) if values else None
