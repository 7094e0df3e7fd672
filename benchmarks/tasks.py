"""A benchmark as tasks with a record each: the results' file and the table beside it.

The file is replaced after each record, so a kill costs no record that was made, and the next start
goes on.
"""

import argparse
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.results import table

Record = dict[str, Any]
Results = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What is gone through."""

    module: str
    """For `python -m`."""
    options: Callable[[Sequence[str]], argparse.Namespace]
    """Reads the command line."""
    keys: Callable[[argparse.Namespace], list[str]]
    """Names of the tasks, in order."""
    opened: Callable[[argparse.Namespace], contextlib.AbstractContextManager[Any]]
    """What tasks have in common."""
    measure: Callable[[str, argparse.Namespace, Any], Record]
    """Carries out a task, with what was opened."""
    columns: tuple[str, ...]
    """Of the table, after the task's name."""
    cells: Callable[[Record], list[str]]
    """A record in these columns."""
    summary: Callable[[list[Record]], dict[str, Any]]
    """Figures over all records."""
    settings: tuple[str, ...] = ("seconds_each", "seed")
    """Options that the results' file repeats."""
    patience_s: float | None = None
    """Seconds after which a shared-out task hangs, and its child is killed; None for never."""
    path: Callable[[argparse.Namespace], Path] = lambda options: Path(options.out)
    """Of the results."""

    def row(self, key: str, record: Record) -> list[str]:
        """A record as a line of the table, or why there is none."""
        if "failed" not in record:
            return [key, *self.cells(record)]
        return [key, f"failed: {record['failed']}", *[""] * (len(self.columns) - 1)]

    def table(self, results: Results) -> str:
        """All records as a Markdown table."""
        rows = [
            [cell.replace("|", "\\|") for cell in self.row(key, record)]
            for key, record in results["records"].items()
        ]
        return table(["task", *self.columns], rows)


def load(path: Path) -> Results:
    """The results so far, or an empty frame."""
    return {"records": {}} | results.load(path)


def done(found: Results, key: str) -> bool:
    """Whether there is a record, and of no failure."""
    return "failed" not in found["records"].get(key, {"failed": "not begun"})


class Deadline:
    """Says whether another task may begin.

    Parameters
    ----------
    seconds
        From now; None: as long as it takes.
    """

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def over(self) -> bool:
        """Whether time is up."""
        return self._end is not None and time.monotonic() > self._end


def alone(benchmark: Benchmark, options: argparse.Namespace, common: Any) -> Results:
    """One task after another in this process."""
    found = load(benchmark.path(options))
    deadline = Deadline(options.limit)
    for key in benchmark.keys(options):
        if done(found, key):
            continue
        if deadline.over:
            print("out of time: start again to go on")
            break
        print(key, flush=True)
        record = benchmark.measure(key, options, common)
        keep(benchmark, options, found, key, record)
        print("  ".join(benchmark.row(key, record)), flush=True)
    return found


def keep(
    benchmark: Benchmark, options: argparse.Namespace, found: Results, key: str, record: Record
) -> None:
    """Write the results with one more record, and their table."""
    everything = found["records"] | {key: record}
    order = {name: place for place, name in enumerate(benchmark.keys(options))}
    names = sorted(everything, key=lambda name: (order.get(name, len(order)), name))
    found["records"] = {name: everything[name] for name in names}
    for setting in benchmark.settings:
        found[setting] = getattr(options, setting)
    found["date"] = datetime.now(UTC).isoformat(timespec="seconds")
    found["gpus"] = sorted({str(each["gpu"]) for each in everything.values() if each.get("gpu")})
    found["summary"] = benchmark.summary(list(found["records"].values()))
    path = benchmark.path(options)
    results.save(path, found)
    path.with_suffix(".md").write_text(benchmark.table(found) + "\n", encoding="utf-8")
