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


class Place(NamedTuple):
    """Where a run has its card and its share of the processor's cores."""

    device: str
    cores: frozenset[int]


class _Ran(NamedTuple):
    """What a command left."""

    status: int
    out: str
    last: str
    """The last line that it told."""


def measure(name: str, problem: Path, place: Place, options: argparse.Namespace) -> tasks.Record:
    """Run the optimizer and evaluate what it gives back; the record of both, or of a failure."""
    root = records.runs_of(options.out) / name.replace("/", "-")
    begun = ["--resume", str(root)] if (root / "config.json").exists() else None
    limit = ["--max-seconds", f"{options.max_seconds:g}"]
    fresh = [str(problem), "--out", str(root), "--dtype", options.dtype, "--device", place.device]
    most, started = options.max_seconds + _GRACE_S, time.monotonic()
    ran = _run(["optimize", *(begun or fresh), *limit], root, most, place, options)
    seconds = time.monotonic() - started
    if ran.status != 0:
        return {"name": name, "failed": ran.last, "status": ran.status}
    try:
        config, record = read_run(root)
        ended = EndedRun(config, record, summarise(config, record, root), root)
        found = records.record_of(ended, name=name)
    except KbError as error:
        return {"name": name, "failed": str(error)}
    found.pop("source", None)  # the run folder has a copy
    found["process_seconds"] = round(seconds, 1)
    if found["better"] and not found["given_back"]:
        found["evaluated"] = _evaluated(problem, root, place, options)
    return found


def _evaluated(
    problem: Path, root: Path, place: Place, options: argparse.Namespace
) -> dict[str, Any]:
    """What `kb evaluate` says of the kernel, on seeds that the run did not see."""
    files = [str(problem), str(root / "best.py")]
    how = ["--dtype", options.dtype, "--device", place.device, "--no-timing", "--json"]
    ran = _run(["evaluate", *files, *how], root, _EVALUATION_S, place, options)
    try:
        said = json.loads(ran.out)
    except ValueError:
        return {"status": ran.status, "failed": ran.last}
    return {"status": ran.status, "verdict": said["verdict"], "cases": len(said["cases"])}


def _run(
    arguments: list[str], root: Path, seconds: float, place: Place, options: argparse.Namespace
) -> _Ran:
    """Run `kb`, at most so long; what it tells stays in a log beside the run folder."""
    kb = f"import os, cli; os.sched_setaffinity(0, {sorted(place.cores)}); cli.main()"
    log = root.with_name(f"{root.name}.{arguments[0]}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w+", encoding="utf-8") as lines:
        try:
            ran = subprocess.run(
                [sys.executable, "-c", kb, "--index", str(options.index), *arguments],
                stdout=subprocess.PIPE, stderr=lines, text=True, check=False, timeout=seconds,
            )  # fmt: skip
            status, out = ran.returncode, ran.stdout
        except subprocess.TimeoutExpired:
            status, out = 124, ""
            print(f"it had not ended after {seconds:.0f} s", file=lines, flush=True)
        lines.seek(0)
        told = lines.read().strip().splitlines()
    return _Ran(status, out, told[-1] if told else "")


def _names(text: str) -> list[str]:
    return text.split(",")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    made = argparse.ArgumentParser(prog="python -m benchmarks.optimize.plain")
    made.add_argument("folder", type=Path, help="of KernelBench problem files")
    made.add_argument("--out", type=Path, required=True, help="JSON file to write, or go on with")
    made.add_argument("--only", nargs="+", metavar="NAME", help="only names that begin so")
    made.add_argument("--dtype", default="bf16", help="of inputs and parameters")
    made.add_argument(
        "--max-seconds", type=tasks.positive, default=300.0, help="wall time of a run"
    )
    made.add_argument("--index", type=Path, default=default_index_dir(), help="index folder")
    devices = "cards, such as cuda:0,cuda:1; one named twice has two runs at a time"
    made.add_argument("--devices", default=["cuda:0"], type=_names, help=devices)
    made.add_argument("--limit", type=tasks.positive, help="begin no run after so many seconds")
    return made.parse_args(arguments)


BENCHMARK = replace(
    kernelbench.BENCHMARK, options=_options, settings=("max_seconds", "dtype", "devices")
)


def main(arguments: Sequence[str]) -> int:
    """Run what has no record yet; 1 if a run failed or a kernel was not right."""
    options = _options(arguments)
    free: queue.SimpleQueue[Place] = queue.SimpleQueue()
    for number, device in enumerate(options.devices):
        free.put(Place(device, share_of_cores(number, len(options.devices))))
    found, keeping = tasks.load(options.out), threading.Lock()
    try:
        problems = kernelbench.problems(options.folder, options.only)
    except KbError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    end = None if options.limit is None else time.monotonic() + options.limit

    def work(name: str) -> None:
        place = free.get()
        try:
            if end is not None and time.monotonic() > end:
                return
            print(f"{name} on {place.device}", flush=True)
            record = measure(name, problems[name], place, options)
            with keeping:
                tasks.save_record(BENCHMARK, options, found, name, record)
                print("  ".join(BENCHMARK.row(name, record)), flush=True)
        finally:
            free.put(place)

    waiting = [name for name in problems if not tasks.done(found, name)]
    with ThreadPoolExecutor(len(options.devices), thread_name_prefix="run") as executor:
        running = [executor.submit(work, name) for name in waiting]
        try:
            for each in running:
                each.result()
        except KeyboardInterrupt:
            executor.shutdown(cancel_futures=True)
            print("interrupted: start it again to go on", file=sys.stderr)
            return 130
        except BaseException:
            executor.shutdown(cancel_futures=True)
            raise
    print(BENCHMARK.table(found))
    print(_told(found))
    if left := sum(not tasks.done(found, name) for name in problems):
        print(f"{left} are left: start it again to go on")
    return int(any(_bad(each) for each in found["records"].values()))


def _bad(record: tasks.Record) -> bool:
    return "failed" in record or record.get("evaluated", {}).get("status", 0) != 0


def _told(found: tasks.Results) -> str:
    """How the kernels were judged anew, in a line."""
    verdicts = Counter(
        record["evaluated"].get("verdict", "not judged")
        for record in found["records"].values()
        if "evaluated" in record
    )
    said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    return f"kernels evaluated anew: {said or 'none'}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
