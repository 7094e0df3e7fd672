"""Goes through tasks (`tasks.py`) one after another, or shares them out over a machine's cards.

With `--gpus`, the parent keeps the queue and the results' file; each child (`--serve`) has one
card, which it sees as `cuda:0`, and a share of the processor's cores. A child reads names of tasks
from its standard input and answers with records, one line of JSON each, on a pipe. What it prints
goes to a log. Where the parent is gone a child ends itself.
"""

import argparse
import contextlib
import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.tasks import Benchmark, Deadline, Record, Results, alone, done, keep, load
from kb.errors import InvalidInputError, KbError

_QUIT: Final = "quit"
# After Ctrl-C a child writes down where it is; after this it is killed.
_PATIENCE_S: Final = 20.0
# How often children are looked at where a task may hang.
_POLL_S: Final = 0.25
# How often a child that dies is replaced before its place is given up.
_MOST_DEATHS: Final = 3


def main(benchmark: Benchmark, arguments: Sequence[str] | None = None) -> int:
    """Measure what has no record yet, and print the table.

    Returns
    -------
    int
        1 if a task failed; a user's mistake or Ctrl-C prints one line.
    """
    given = sys.argv[1:] if arguments is None else arguments
    options = benchmark.options(given)
    try:
        results = run(benchmark, options, given)
    except KbError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: start it again to go on", file=sys.stderr)
        return 130
    if options.serve is None:
        print(benchmark.table(results))
        print(json.dumps(results.get("summary", {}), indent=1))
    return int(any("failed" in result for result in results["records"].values()))


def add_options(made: argparse.ArgumentParser, *, turns: bool = True) -> None:
    """The options of sharing out; `turns`: whether children of one card take turns on it."""
    made.add_argument("--gpus", metavar="N", help="share the tasks out over N cards, or 'all'")
    made.add_argument(
        "--per-gpu", type=int, default=1, metavar="N", choices=None if turns else [1],
        help="children of each card; they take turns on it (default: 1)"
        if turns else argparse.SUPPRESS,
    )  # fmt: skip
    made.add_argument("--serve", type=int, metavar="FD", help=argparse.SUPPRESS)


def run(benchmark: Benchmark, options: argparse.Namespace, arguments: Sequence[str]) -> Results:
    """Do what has no record yet; see `Benchmark`.

    Raises
    ------
    KbError
        There are no such cards.
    KeyboardInterrupt
        Ctrl-C; all children have ended.
    """
    if options.serve is not None:
        _settle()
        with benchmark.opened(options) as common:
            serve(benchmark, options, common)
        return {"records": {}}
    if options.gpus is not None:
        if options.device is not None or options.per_gpu < 1:
            raise InvalidInputError("--gpus goes without --device, and --per-gpu is at least 1")
        devices = chosen(options.gpus, visible())
        return Shared(benchmark, options, arguments, devices).run()
    with benchmark.opened(options) as common:
        return alone(benchmark, options, common)


# The cards, as CUDA_VISIBLE_DEVICES names them


def visible() -> list[str]:
    """The cards that PyTorch sees: what CUDA_VISIBLE_DEVICES says of each, or its number."""
    import torch  # slow, and nothing else of it is needed

    count = torch.cuda.device_count()
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    named = [each.strip() for each in given if each.strip()]
    return named[:count] if len(named) >= count > 0 else [str(each) for each in range(count)]


def chosen(wanted: str, names: Sequence[str]) -> list[str]:
    """`wanted` ("all", or how many) of the cards that there are.

    Raises
    ------
    KbError
        It is neither, or there are fewer.
    """
    if not names:
        raise KbError("no GPU was found, so tasks cannot be shared out: leave --gpus out")
    if wanted == "all":
        return list(names)
    if not wanted.isdecimal() or int(wanted) < 1:
        raise InvalidInputError(f"--gpus takes a number or 'all', not '{wanted}'")
    if int(wanted) > len(names):
        raise InvalidInputError(f"--gpus {wanted}: there are {len(names)}")
    return list(names[: int(wanted)])


# The parent


@dataclass(slots=True)
class _Child:
    """One process and what it works on."""

    process: "subprocess.Popen[bytes]"
    answers: int
    """Descriptor that its records come from."""
    card: str
    place: int
    task: str | None = None
    since: float = 0.0
    """When the task was given, by the monotonic clock."""
    stopped: bool = False
    """Whether it was killed since its task hung."""
    text: bytearray = field(default_factory=bytearray)


class Shared:
    """Tasks shared out over cards.

    Parameters
    ----------
    arguments
        Of the command line, which children are given as well.
    devices
        What `CUDA_VISIBLE_DEVICES` shall be for each child's card.
    command
        How a child is started; its options follow.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        options: argparse.Namespace,
        arguments: Sequence[str],
        devices: Sequence[str],
        command: Sequence[str] = (),
    ) -> None:
        self._benchmark = benchmark
        self._options = options
        self._arguments = list(arguments)
        self._command = list(command) or [sys.executable, "-m", benchmark.module]
        self._places = [card for _ in range(options.per_gpu) for card in devices]
        self._deaths = [0] * len(self._places)
        self._results = load(benchmark.path(options))
        self._waiting = [key for key in benchmark.keys(options) if not done(self._results, key)]
        self._children: list[_Child] = []
        self._deadline = Deadline(options.limit)

    def run(self) -> Results:
        """Until all is done, time is up, or Ctrl-C."""
        try:
            for place in range(min(len(self._places), len(self._waiting))):
                self._start(place)
            while self._children:
                for child in self._ready():
                    self._hear(child)
                self._stop_those_that_hang()
        finally:
            self._end()
        if self._waiting:
            print("out of time: start again to go on")
        return self._results

    def _start(self, place: int) -> None:
        reading, writing = os.pipe()
        card = self._places[place]
        logs = self._benchmark.path(self._options)
        logs = logs.with_name(f"{logs.stem}-logs")
        logs.mkdir(parents=True, exist_ok=True)
        cores = _share(place, len(self._places))
        name = card.replace(",", "_").replace("/", "_")
        with (logs / f"{place}-gpu-{name}.log").open("ab") as log:
            try:
                process = subprocess.Popen(
                    [*self._command, *self._arguments, "--serve", str(writing)],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=[writing],
                    env=os.environ | {"CUDA_VISIBLE_DEVICES": card, "KB_CORES": cores},
                    # Ctrl-C is for the parent, which tells its children.
                    start_new_session=True,
                )
            finally:
                os.close(writing)
        child = _Child(process, reading, card, place)
        self._children.append(child)
        self._give(child)

    def _give(self, child: _Child) -> None:
        """The next task, or the end."""
        child.task = self._waiting.pop(0) if self._waiting and not self._deadline.over else None
        child.since = time.monotonic()
        assert child.process.stdin is not None
        with contextlib.suppress(OSError):  # that it is gone shows in its answers
            child.process.stdin.write(f"{child.task or _QUIT}\n".encode())
            child.process.stdin.flush()

    def _ready(self) -> list[_Child]:
        with selectors.DefaultSelector() as selector:
            for child in self._children:
                selector.register(child.answers, selectors.EVENT_READ, child)
            wait = None if self._benchmark.patience_s is None else _POLL_S
            return [key.data for key, _ in selector.select(wait)]

    def _stop_those_that_hang(self) -> None:
        patience = self._benchmark.patience_s
        for child in self._children:
            hangs = patience is not None and time.monotonic() > child.since + patience
            if child.task is not None and hangs and not child.stopped:
                child.stopped = True
                os.killpg(child.process.pid, signal.SIGKILL)

    def _hear(self, child: _Child) -> None:
        part = os.read(child.answers, 1 << 16)
        child.text += part
        while b"\n" in child.text:
            line, _, rest = bytes(child.text).partition(b"\n")
            child.text = bytearray(rest)
            told = json.loads(line)
            self._take(child, str(told["key"]), told["record"])
            self._give(child)
        if not part:
            self._lost(child)

    def _take(self, child: _Child, key: str, record: Record) -> None:
        child.task = None
        keep(self._benchmark, self._options, self._results, key, record)
        left = len(self._waiting) + sum(each.task is not None for each in self._children)
        told = "  ".join(self._benchmark.row(key, record))
        print(f"[GPU {child.card}] {told}  ({left} left)", flush=True)

    def _lost(self, child: _Child) -> None:
        """A child has ended: as it should, or in the middle of a task."""
        self._children.remove(child)
        os.close(child.answers)
        status = child.process.wait()
        if child.task is None:
            return
        why = f"the process that ran it ended with status {status}"
        if child.stopped:
            why = f"it was stopped after {self._benchmark.patience_s:.0f} s"
        self._take(child, child.task, {"name": child.task, "failed": why})
        self._deaths[child.place] += 1
        if self._waiting and self._deaths[child.place] < _MOST_DEATHS:
            self._start(child.place)

    def _end(self) -> None:
        """Have all children end: each writes down where it is."""
        for child in self._children:
            with contextlib.suppress(OSError):
                os.killpg(child.process.pid, signal.SIGINT)
        until = time.monotonic() + _PATIENCE_S
        for child in self._children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.1, until - time.monotonic()))
            with contextlib.suppress(OSError):
                os.killpg(child.process.pid, signal.SIGKILL)
            child.process.wait()
            os.close(child.answers)
        self._children.clear()


def _share(place: int, places: int) -> str:
    """Numbers of the cores of one child: compilers of all would be in each other's way."""
    cores = sorted(os.sched_getaffinity(0))
    each = max(1, len(cores) // places)
    mine = cores[place * each % len(cores) :][:each]
    return ",".join(map(str, mine))


# A child


def serve(benchmark: Benchmark, options: argparse.Namespace, common: Any) -> None:
    """Carry out tasks from standard input until told to end."""
    with os.fdopen(options.serve, "w", encoding="utf-8") as answers:
        for key in _tasks():
            print(key, flush=True)
            record = benchmark.measure(key, options, common)
            print("  ".join(benchmark.row(key, record)), flush=True)
            answers.write(json.dumps({"key": key, "record": record}) + "\n")
            answers.flush()


def _settle() -> None:
    """Keep to the cores that the parent gave, and all that is started here as well."""
    if cores := os.environ.get("KB_CORES"):
        with contextlib.suppress(OSError, ValueError):
            os.sched_setaffinity(0, {int(each) for each in cores.split(",")})


def _tasks() -> Iterator[str]:
    waiting: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            waiting.put(line.strip())
            if line.strip() == _QUIT:
                return
        # The parent is gone: what this process started ends with it.
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    while (task := waiting.get()) != _QUIT:
        yield task
