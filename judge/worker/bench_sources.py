"""Times many versions of one kernel in one process: compiled ahead, compared, a few launches each.

What all this says are claims, as everything from a worker is; whoever asked hands what looks best
to the judge.
"""

import contextlib
import hashlib
import math
import statistics
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from judge.worker import messages as m
from judge.worker.buffers import cast
from judge.worker.compile_ahead import Compiled, CompileJobs, collect_jobs, compile_jobs
from judge.worker.contender import load_kernel
from judge.worker.events import Run, Sets, Timer
from judge.worker.outputs import flatten
from judge.worker.poison import nan_bytes, poisoned

# Versions that stay loaded from one command to the next; `ModelNew`s hold their own parameters.
_MOST_LOADED: Final = 160
# What decides whether a version is worth further launches.
_FIRST_LAUNCHES: Final = 2
_CHUNK: Final = 1 << 24
_NARROW: Final = ("float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class Task:
    """One command and what it works on."""

    command: m.BenchSources
    tensors: Mapping[str, Any]
    """The model's, by name."""
    sets: Sets
    """Inputs on the device."""
    timer: Timer
    wait: Callable[[], None]
    """Waits for the device."""


class SourceBench:
    """Loaded versions of a kernel; one for each worker. Files are written to `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loaded: OrderedDict[str, Run] = OrderedDict()
        self._broken: dict[str, Compiled] = {}
        self._differences: dict[str, float | None] = {}
        self._reference_key: Any = None
        self._reference: list[Any] = []
        self._in_float32: list[Any] | None = None
        """What `_float32_outputs` found."""
        self._jobs: CompileJobs = []
        self._clock = time.perf_counter

    def run(self, task: Task) -> m.Benched:
        """Carry out one command.

        Raises
        ------
        Exception
            Whatever the version to compare with raises: nothing can be told without it.
        """
        command, start = task.command, self._clock()
        deadline = start + command.seconds
        keys = [_key(source) for source in command.sources]
        results = [m.BenchedSource() for _ in keys]
        if command.stage == "compile":
            compiled = self._compile(command, keys, deadline, results)
            return m.Benched(results=results, compiled_ahead=compiled)
        if command.refer:
            self._run_reference(task)
        new = self._load_new(task, keys, results)
        if command.stage == "note":
            self._jobs = collect_jobs(new, task.sets[0])
            return m.Benched(results=results)
        return m.Benched(results=results, lost=self._time(task, keys, results, deadline))

    def _time(
        self, task: Task, keys: Sequence[str], results: Sequence[m.BenchedSource], deadline: float
    ) -> bool:
        """Compare and time in several passes; whether the device was lost."""
        command, best, lost = task.command, math.inf, False
        for number in range(command.passes):
            for source, key, result in zip(command.sources, keys, results, strict=True):
                if result.error or not result.tried or (number and not result.ms):
                    continue
                if lost or (number == 0 and self._clock() > deadline):
                    result.tried = bool(result.ms)
                    continue
                try:
                    run = self._load(task, source, key)
                    if number == 0:
                        result.difference = self._compare(task, key, run)
                    result.ms += _time_pass(task, run, number, best)
                    task.wait()
                except (KeyboardInterrupt, SystemExit, Exception) as error:
                    self._fail(result, key, error)
                    lost = _is_lost(task.wait)
                if result.ms:
                    best = min(best, statistics.median(result.ms))
        return lost

    def _run_reference(self, task: Task) -> None:
        """Have the outputs to compare with."""
        source = (task.command.reference or task.command.kernel).source
        key = (_key(source), *map(str, task.command.sets[0]))
        if key == self._reference_key:
            return
        self._reference, self._reference_key, self._in_float32 = [], None, None
        self._differences.clear()
        run = self._load(task, source, _key(source))
        outputs = flatten(run(*task.sets[0]))
        task.wait()
        # A kernel may write every result into one buffer that it keeps.
        self._reference, self._reference_key = [output.clone() for output in outputs], key

    def _load_new(
        self, task: Task, keys: Sequence[str], results: Sequence[m.BenchedSource]
    ) -> dict[str, Run]:
        """Load what is not loaded yet; what is known to be broken gets its error."""
        runs: dict[str, Run] = {}
        for source, key, result in zip(task.command.sources, keys, results, strict=True):
            if key in self._broken:
                result.error, result.slow = self._broken[key].error, self._broken[key].slow
            elif key not in self._loaded and key not in runs:
                try:
                    runs[key] = self._load(task, source, key)
                except (KeyboardInterrupt, SystemExit, Exception) as error:
                    self._fail(result, key, error)
        return runs

    def _compile(
        self,
        command: m.BenchSources,
        keys: Sequence[str],
        deadline: float,
        results: Sequence[m.BenchedSource],
    ) -> int:
        """Compile what was noted, several at a time; how many were."""
        pending, self._jobs = self._jobs, []
        outcomes = compile_jobs(pending, command.processes, command.compile_seconds, deadline)
        for key, result in zip(keys, results, strict=True):
            compiled = outcomes.get(key)
            if compiled is not None and compiled.error:
                self._broken[key] = compiled
            elif compiled is not None and not compiled.done:  # there was no time
                result.tried = False
                self._loaded.pop(key, None)  # to be compiled ahead when it is asked for again
            if key in self._broken:
                result.error, result.slow = self._broken[key].error, self._broken[key].slow
        return sum(outcome.done for outcome in outcomes.values())

    def _load(self, task: Task, source: str, key: str) -> Run:
        run = self._loaded.get(key)
        if run is None:
            kernel, reference = task.command.kernel, task.command.reference
            if reference is not None and reference.source == source:
                kernel = reference
            kernel = kernel.model_copy(update={"source": source})
            run = load_kernel(kernel, task.tensors, self._folder)
            self._loaded[key] = run
            while len(self._loaded) > _MOST_LOADED:
                self._loaded.popitem(last=False)
        self._loaded.move_to_end(key)
        return run

    def _compare(self, task: Task, key: str, run: Run) -> float | None:
        """How far this version is from the one to compare with; also its first call."""
        if key in self._differences:
            return self._differences[key]
        device = self._reference[0].device
        if device.type == "cpu":
            with poisoned(device):
                returned = run(*task.sets[0])
        else:
            # What a version forgets to write must not still hold the right result of another one:
            # the allocator hands a block of this size out next.
            filler = [nan_bytes(output.nbytes, device) for output in self._reference]
            del filler
            returned = run(*task.sets[0])
        task.wait()
        outputs, tolerance = flatten(returned), task.command.tolerance
        distance = difference(outputs, self._reference)
        if distance is not None and tolerance is not None and distance > tolerance:
            rounded = difference(outputs, self._float32_outputs(task))
            distance = distance if rounded is None else min(distance, rounded)
        self._differences[key] = distance
        return distance

    def _float32_outputs(self, task: Task) -> list[Any]:
        """Outputs of `reference` as it runs in float32; none where it cannot.

        PyTorch rounds sums over a dimension after each element (`cumsum` in bfloat16 stands still
        at 256 where ones are summed up): a version that does not is nearer to these.
        """
        if self._in_float32 is None:
            self._in_float32 = []
            reference = task.command.reference
            if reference is not None and reference.dtype in _NARROW:
                widened = reference.model_copy(update={"dtype": "float32"})
                inputs = [cast(value, torch.float32) for value in task.sets[0]]
                with contextlib.suppress(Exception):  # such as the end of the memory
                    outputs = flatten(load_kernel(widened, task.tensors, self._folder)(*inputs))
                    task.wait()
                    pairs = zip(outputs, self._reference, strict=True)
                    self._in_float32 = [output.to(original.dtype) for output, original in pairs]
        return self._in_float32

    def _fail(self, result: m.BenchedSource, key: str, error: BaseException) -> None:
        self._loaded.pop(key, None)
        result.ms = []
        try:
            result.error = m.one_line(f"{type(error).__name__}: {error}") or "Exception"
        except BaseException:  # its methods are the candidate's
            result.error = "Exception"
        self._broken[key] = Compiled(result.error)


def difference(got: Sequence[Any], expected: Sequence[Any]) -> float | None:
    """The largest difference of any output, 0 for equal ones; None where shapes or dtypes differ.

    For floating-point numbers the norm of the difference over the norm of what is wanted, infinite
    where one has NaN or infinities that the other has not; for others the share of elements that
    differ.
    """
    if len(got) != len(expected):
        return None
    largest = 0.0
    for left, right in zip(got, expected, strict=True):
        if left.shape != right.shape or left.dtype != right.dtype or left.device != right.device:
            return None
        largest = max(largest, _difference(left.reshape(-1), right.reshape(-1)))
    # JSON has no infinity.
    return min(largest, 1e30) if not math.isnan(largest) else 1e30


def _difference(left: Any, right: Any) -> float:
    count = left.numel()
    if not count:
        return 0.0
    if not (left.is_floating_point() or left.is_complex()):
        return float(int((left != right).sum()) / count)
    if left.element_size() == 1:  # 8-bit formats have no arithmetic
        return float(int((left.view(torch.uint8) != right.view(torch.uint8)).sum()) / count)
    error = norm = 0.0
    for a, b in zip(left.split(_CHUNK), right.split(_CHUNK), strict=True):
        same = (a == b) | (torch.isnan(a) & torch.isnan(b))
        gap = torch.where(same, 0.0, a.double() - b.double())
        error += float((gap * gap).sum())
        finite = torch.where(torch.isfinite(b), b, torch.zeros_like(b)).double()
        norm += float((finite * finite).sum())
    if error == 0.0:
        return 0.0
    return math.sqrt(error / norm) if norm > 0.0 and math.isfinite(error) else math.inf


def _time_pass(task: Task, run: Run, number: int, best: float) -> list[float]:
    """One pass; ends early where the version is hopeless."""
    command, sets = task.command, task.sets
    order = [index % len(sets) for index in range(number, number + command.launches)]

    def launch(indices: Sequence[int]) -> list[float]:
        return task.timer.time(run, sets, indices, command.method, hold_cycles=command.hold_cycles)

    if number or command.cutoff is None or command.launches <= _FIRST_LAUNCHES:
        return launch(order)
    first = launch(order[:_FIRST_LAUNCHES])
    if min(first) > command.cutoff * best:
        return first
    return first + launch(order[_FIRST_LAUNCHES:])


def _is_lost(wait: Callable[[], None]) -> bool:
    """Whether the device is of no more use to this process."""
    try:
        wait()
    except Exception as error:
        return m.is_device_error(str(error))
    return False


def _key(source: str) -> str:
    return hashlib.sha256(source.encode("utf-8", errors="surrogatepass")).hexdigest()
