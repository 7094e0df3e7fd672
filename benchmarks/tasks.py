"""A benchmark as tasks with one record each, spread over cards; its results and their table.

The results' file is replaced after each record, so a killed run keeps its records, and the next
start goes on.
"""

import argparse
import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.cards.local import local_cards
from agent.cards.pool import CardPool
from agent.cards.sweep import run_all
from agent.optimize.judge_requests import Request
from benchmarks.results import load as load_record
from benchmarks.results import save, table
from judge.evaluate.result import Model
from judge.progress import silent
from kb.errors import KbError

Record = dict[str, Any]
Results = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: its tasks, how to measure one, and how to show the results."""

    options: Callable[[Sequence[str]], argparse.Namespace]
    """Reads the command line."""
    keys: Callable[[argparse.Namespace], list[str]]
    """Names of the tasks, in order."""
    open_shared: Callable[[argparse.Namespace, CardPool], contextlib.AbstractContextManager[Any]]
    """Opens what all tasks share."""
    measure: Callable[[str, argparse.Namespace, Any], Record]
    """Measures one task, with what was opened."""
    columns: tuple[str, ...]
    """Headings of the table, after the task's name."""
    cells: Callable[[Record], list[str]]
    """The cells of a record, one for each column."""
    summary: Callable[[list[Record]], dict[str, Any]]
    """Figures over all records."""
    settings: tuple[str, ...] = ("seconds_each", "seed")
    """Options that the results' file repeats."""
    path: Callable[[argparse.Namespace], Path] = lambda options: Path(options.out)
    """Path of the results' file."""

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


class Measured(Model):
    """The reply of a judging process."""

    record: dict[str, Any]


def request_record(cards: CardPool, request: Request[Measured], name: str) -> Record:
    """The record that a judging process returns for a request, or why it failed."""
    try:
        with cards.lend() as card:
            return card.ask(request, silent).record
    except KbError as error:
        return {"name": name, "failed": str(error)}


def load(path: Path) -> Results:
    """The results so far, or an empty frame."""
    return {"records": {}} | load_record(path)


def done(results: Results, key: str) -> bool:
    """Whether there is a record, and of no failure."""
    return "failed" not in results["records"].get(key, {"failed": "not begun"})


def save_record(
    benchmark: Benchmark, options: argparse.Namespace, results: Results, key: str, record: Record
) -> None:
    """Write the results with one more record, and their table."""
    records = results["records"] | {key: record}
    order = {name: position for position, name in enumerate(benchmark.keys(options))}
    names = sorted(records, key=lambda name: (order.get(name, len(order)), name))
    results["records"] = {name: records[name] for name in names}
    for setting in benchmark.settings:
        results[setting] = getattr(options, setting)
    results["date"] = datetime.now(UTC).isoformat(timespec="seconds")
    results["gpus"] = sorted({str(r["gpu"]) for r in records.values() if r.get("gpu")})
    results["summary"] = benchmark.summary(list(results["records"].values()))
    path = benchmark.path(options)
    save(path, results)
    path.with_suffix(".md").write_text(benchmark.table(results) + "\n", encoding="utf-8")


def add_options(parser: argparse.ArgumentParser, *, turns: bool = True) -> None:
    """Options that spread tasks over cards; `turns`: whether tasks of one card may take turns."""
    cards = "share the tasks out over N cards, or 'all'"
    parser.add_argument("--gpus", default="1", metavar="N", help=cards)
    parser.add_argument("--limit", type=positive, help="begin no task after so many seconds")
    if turns:
        at_once = "tasks at once on each card, which take turns on it (default: 1)"
        parser.add_argument("--per-gpu", type=int, default=1, metavar="N", help=at_once)


def positive(text: str) -> float:
    """A number above 0, as an option's type."""
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return value


def main(benchmark: Benchmark, arguments: Sequence[str] | None = None) -> int:
    """Measure the tasks that have no record yet, and print the table.

    Returns
    -------
    int
        1 if a task failed; a user's mistake or Ctrl-C prints one line.
    """
    options = benchmark.options(sys.argv[1:] if arguments is None else arguments)
    dry = bool(getattr(options, "interpret", False))
    try:
        with local_cards(options.gpus, interpret=dry, per_card=options.per_gpu) as cards:
            results = run_tasks(benchmark, options, cards)
    except KbError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: start it again to go on", file=sys.stderr)
        return 130
    print(benchmark.table(results))
    print(json.dumps(results.get("summary", {}), indent=1))
    return int(any("failed" in result for result in results["records"].values()))


def run_tasks(benchmark: Benchmark, options: argparse.Namespace, cards: CardPool) -> Results:
    """Measure the tasks that have no record yet, as many at once as there are cards.

    Raises
    ------
    KbError
        What the tasks share cannot be opened.
    KeyboardInterrupt
        Ctrl-C; all tasks have ended.
    """
    results = load(benchmark.path(options))
    pending = [key for key in benchmark.keys(options) if not done(results, key)]
    end = None if options.limit is None else time.monotonic() + options.limit
    lock = threading.Lock()
    with benchmark.open_shared(options, cards) as shared:

        def run_task(key: str) -> None:
            print(key, flush=True)
            record = benchmark.measure(key, options, shared)
            with lock:
                save_record(benchmark, options, results, key, record)
                print("  ".join(benchmark.row(key, record)), flush=True)

        left = run_all(cards, pending, run_task, lambda: end is not None and time.monotonic() > end)
    for reason in cards.lost:
        print(f"taken out: {reason}")
    if left:
        print("out of time: start again to go on")
    return results
