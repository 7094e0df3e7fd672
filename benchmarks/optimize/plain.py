"""`python -m benchmarks.optimize.plain FOLDER --out FILE`: `kb optimize` as a user types it.

Each problem below FOLDER gets a process of its own, `kb optimize PROBLEM --dtype bf16
--max-seconds 300`, with no other option but the card and the folder. The kernel that it gives back
is then judged by `kb evaluate`, with seeds of its own. Nothing of the problems is copied into the
results. Needs a GPU. FILE is written after each problem, so that a second start goes on.
"""

import argparse
import json
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from agent.cards.local import share_of_cores
from agent.cards.sweep import EndedRun
from agent.optimize.run import read_run
from agent.optimize.summary import summarise
from benchmarks import tasks
from benchmarks.optimize import kernelbench, records
from kb.errors import KbError
from kb.index.layout import default_index_dir

# A run may pass its limit by the launch in progress; one that hangs must not hold up the others.
_GRACE_S = 120.0
_EVALUATION_S = 300.0


class Slot(NamedTuple):
    """A card and a share of the processor's cores, for one run at a time."""

    device: str
    cores: frozenset[int]


class _Completed(NamedTuple):
    """A command that ended."""

    status: int
    out: str
    last_line: str
    """Of its standard error."""


def measure(name: str, problem: Path, slot: Slot, options: argparse.Namespace) -> tasks.Record:
    """Run the optimizer and evaluate its kernel; the record of both, or of a failure."""
    root = records.runs_of(options.out) / name.replace("/", "-")
    resume = ["--resume", str(root)] if (root / "config.json").exists() else None
    limits = ["--max-seconds", f"{options.max_seconds:g}"]
    new_run = [str(problem), "--out", str(root), "--dtype", options.dtype, "--device", slot.device]
    timeout, start = options.max_seconds + _GRACE_S, time.monotonic()
    completed = _run(["optimize", *(resume or new_run), *limits], root, timeout, slot, options)
    seconds = time.monotonic() - start
    if completed.status != 0:
        return {"name": name, "failed": completed.last_line, "status": completed.status}
    try:
        config, record = read_run(root)
        ended = EndedRun(config, record, summarise(config, record, root), root)
        result = records.record_of(ended, name=name)
    except KbError as error:
        return {"name": name, "failed": str(error)}
    result.pop("source", None)  # the run folder has a copy
    result["process_seconds"] = round(seconds, 1)
    if result["better"] and not result["given_back"]:
        result["evaluated"] = _evaluate(problem, root, slot, options)
    return result


def _evaluate(problem: Path, root: Path, slot: Slot, options: argparse.Namespace) -> dict[str, Any]:
    """Evaluate the kernel with `kb evaluate`, on seeds that the run did not use."""
    files = [str(problem), str(root / "best.py")]
    flags = ["--dtype", options.dtype, "--device", slot.device, "--no-timing", "--json"]
    completed = _run(["evaluate", *files, *flags], root, _EVALUATION_S, slot, options)
    try:
        reply = json.loads(completed.out)
    except ValueError:
        return {"status": completed.status, "failed": completed.last_line}
    return {"status": completed.status, "verdict": reply["verdict"], "cases": len(reply["cases"])}


def _run(
    arguments: list[str], root: Path, seconds: float, slot: Slot, options: argparse.Namespace
) -> _Completed:
    """Run `kb` with a time limit; its standard error goes to a log beside the run folder."""
    kb = f"import os, cli; os.sched_setaffinity(0, {sorted(slot.cores)}); cli.main()"
    log = root.with_name(f"{root.name}.{arguments[0]}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w+", encoding="utf-8") as stream:
        try:
            completed = subprocess.run(
                [sys.executable, "-c", kb, "--index", str(options.index), *arguments],
                stdout=subprocess.PIPE, stderr=stream, text=True, check=False, timeout=seconds,
            )  # fmt: skip
            status, out = completed.returncode, completed.stdout
        except subprocess.TimeoutExpired:
            status, out = 124, ""
            print(f"it had not ended after {seconds:.0f} s", file=stream, flush=True)
        stream.seek(0)
        lines = stream.read().strip().splitlines()
    return _Completed(status, out, lines[-1] if lines else "")


def _names(text: str) -> list[str]:
    return text.split(",")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.optimize.plain")
    parser.add_argument("folder", type=Path, help="of KernelBench problem files")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write, or go on with")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only names that begin so")
    parser.add_argument("--dtype", default="bf16", help="of inputs and parameters")
    parser.add_argument(
        "--max-seconds", type=tasks.positive, default=300.0, help="wall time of a run"
    )
    parser.add_argument("--index", type=Path, default=default_index_dir(), help="index folder")
    devices = "cards, such as cuda:0,cuda:1; one named twice has two runs at a time"
    parser.add_argument("--devices", default=["cuda:0"], type=_names, help=devices)
    parser.add_argument("--limit", type=tasks.positive, help="begin no run after so many seconds")
    return parser.parse_args(arguments)


BENCHMARK = replace(
    kernelbench.BENCHMARK, options=_options, settings=("max_seconds", "dtype", "devices")
)


def main(arguments: Sequence[str]) -> int:
    """Run what has no record yet; 1 if a run failed or a kernel was not right."""
    options = _options(arguments)
    slots: queue.SimpleQueue[Slot] = queue.SimpleQueue()
    for number, device in enumerate(options.devices):
        slots.put(Slot(device, share_of_cores(number, len(options.devices))))
    results, lock = tasks.load(options.out), threading.Lock()
    try:
        problems = kernelbench.problems(options.folder, options.only)
    except KbError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    deadline = None if options.limit is None else time.monotonic() + options.limit

    def run_problem(name: str) -> None:
        slot = slots.get()
        try:
            if deadline is not None and time.monotonic() > deadline:
                return
            print(f"{name} on {slot.device}", flush=True)
            record = measure(name, problems[name], slot, options)
            with lock:
                tasks.save_record(BENCHMARK, options, results, name, record)
                print("  ".join(BENCHMARK.row(name, record)), flush=True)
        finally:
            slots.put(slot)

    pending = [name for name in problems if not tasks.done(results, name)]
    with ThreadPoolExecutor(len(options.devices), thread_name_prefix="run") as executor:
        futures = [executor.submit(run_problem, name) for name in pending]
        try:
            for future in futures:
                future.result()
        except KeyboardInterrupt:
            executor.shutdown(cancel_futures=True)
            print("interrupted: start it again to go on", file=sys.stderr)
            return 130
        except BaseException:
            executor.shutdown(cancel_futures=True)
            raise
    print(BENCHMARK.table(results))
    print(_verdict_counts(results))
    if remaining := sum(not tasks.done(results, name) for name in problems):
        print(f"{remaining} are left: start it again to go on")
    return int(any(_is_bad(record) for record in results["records"].values()))


def _is_bad(record: tasks.Record) -> bool:
    return "failed" in record or record.get("evaluated", {}).get("status", 0) != 0


def _verdict_counts(results: tasks.Results) -> str:
    """Counts of the verdicts of `kb evaluate`, in a line."""
    verdicts = Counter(
        record["evaluated"].get("verdict", "not judged")
        for record in results["records"].values()
        if "evaluated" in record
    )
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    return f"kernels evaluated anew: {counts or 'none'}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
