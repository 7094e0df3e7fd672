"""Times versions of a kernel in a sandboxed process, quickly; what it says are claims."""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import torch

from agent.evaluate.bench import Bench, Desk
from agent.evaluate.buffers import Exported
from agent.evaluate.gpulock import locked
from agent.evaluate.host import describe_host
from agent.evaluate.planning import HOLDS
from agent.evaluate.session import (
    CommandFailedError,
    Worker,
    WorkerDiedError,
    WorkerError,
    WorkerTimedOutError,
)
from agent.evaluate.sets import sets_fitting, sets_wanted
from agent.problem.kernel import KernelFile
from agent.sandbox.launch import Zygote
from agent.sandbox.layers import missing
from agent.tune.halving import Measured
from agent.worker import messages as m
from kb.errors import KbError

# What one version may compile for: a matrix product takes some 3 s, one that spills minutes.
COMPILE_SECONDS: Final = 12.0
# Sources of one command, so that an end of the process loses no more than these.
_BATCH: Final = 64
# A version whose first launches take so many times the best is launched no more.
_CUTOFF: Final = 4.0
# Beyond its own limit a command may take this long: the compared version's first call, the last
# launches.
_GRACE_SECONDS: Final = 45.0
# Norm of the difference to the given kernel over the norm of its result. Sums in another order
# differ by a few units in the last place; what is wrong differs by far more. The judge decides.
_TOLERANCE: Final = {"float64": 1e-9, "float32": 1e-3, "float16": 1e-2, "bfloat16": 3e-2}
_LOOSEST: Final = 3e-2
_FIRST_SEED: Final = 20_000


@dataclass(frozen=True, slots=True)
class Subject:
    """A problem, and how its kernels are loaded."""

    problem: str
    """The problem file's text, at the shape that counts."""
    kernel: KernelFile
    """The version to compare with; right, as far as is known."""
    device: str
    """`cuda:N`; on `cpu` kernels are interpreted and times are the clock's."""
    dtype: str | None = None
    precision: m.Precision = "ieee"
    trust: bool = False
    """Run although the sandbox lacks layers."""


@dataclass(slots=True)
class SourceTimer:
    """A problem's inputs in memory, and a worker that runs versions on them.

    A context manager that holds the card's lock. Use `times` within.

    Raises
    ------
    KbError
        The problem cannot be run, the card is busy, or the sandbox is incomplete.
    """

    subject: Subject
    zygote: Zygote | None = None
    say: Callable[[str], None] = lambda _: None
    held_seconds: float = 0.0
    """How long the card was held, once it is free again."""
    launches_made: int = 0
    ahead_seconds: float = 0.0
    """Of the time that the card was held, how long sources were compiled ahead."""
    compiled_ahead: int = 0
    """Sources that were."""
    inputs: list[m.InputSpec] = field(default_factory=list)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _bench: Bench | None = None
    _desk: Desk | None = None
    _buffers: list[Exported] = field(default_factory=list)
    _sets: list[list[m.Argument]] = field(default_factory=list)
    _command: m.LoadKernel | None = None
    _tolerance: float = _LOOSEST
    _since: float = 0.0
    _in_advance: bool = True
    """Compile ahead, for which host code runs without its launches: off once that went wrong."""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            device = self.subject.device
            card = describe_host(device).card
            if card is not None:
                stack.enter_context(locked(card, say=self.say))
            self._since = time.monotonic()
            stack.callback(self._freed)
            self._bench = stack.enter_context(Bench(device, self.zygote))
            desk = self._bench.start("problem")
            lacking = missing(self._bench.layers)
            if lacking and not self.subject.trust:
                raise KbError(
                    f"the sandbox lacks: {'; '.join(lacking)}; run with --trust if you know where "
                    "problem and kernel come from"
                )
            self._prepare(desk.worker)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def held(self) -> float:
        """Seconds since the card was had."""
        return time.monotonic() - self._since

    @property
    def item_bytes(self) -> int:
        """Of the smallest floating-point input; 4 where there is none."""
        kinds = {each.tensor.dtype for each in self.inputs if each.tensor is not None}
        return min((m.ITEM_BYTES[kind] for kind in kinds if "float" in kind), default=4)

    def times(self, sources: Sequence[str], launches: int, seconds: float) -> list[Measured]:
        """Compile, compare and time versions; see `halving.Measure`.

        Raises
        ------
        KbError
            The version to compare with does not run.
        """
        until = time.monotonic() + seconds
        results: list[Measured] = []
        for start in range(0, len(sources), _BATCH):
            results += self._batch(sources[start : start + _BATCH], launches, until)
        return results

    def _batch(self, sources: Sequence[str], launches: int, until: float) -> list[Measured]:
        left = until - time.monotonic()
        if left <= 0:
            return [Measured(tried=False) for _ in sources]
        worker = self._worker()
        command = self._bench_command(sources, launches, left)
        try:
            reply = worker.bench_sources(command, timeout=left + COMPILE_SECONDS + _GRACE_SECONDS)
        except CommandFailedError as error:
            raise KbError(f"the kernel to tune fails: {error.kind}: {error.message}") from None
        except (WorkerDiedError, WorkerTimedOutError) as error:
            self._restart()
            self._in_advance = False
            if len(sources) == 1 or isinstance(error, WorkerTimedOutError):
                return [Measured(error=str(error)) for _ in sources]
            half = len(sources) // 2
            first = self._batch(sources[:half], launches, until)
            return first + self._batch(sources[half:], launches, until)
        if len(reply.results) != len(sources):
            raise KbError(f"{worker.name}: {len(reply.results)} results for {len(sources)} sources")
        self.ahead_seconds += reply.ahead_seconds
        self.compiled_ahead += reply.compiled_ahead
        results = [self._judged(each) for each in reply.results]
        self.launches_made += sum(len(each.ms) for each in reply.results)
        if not reply.lost:
            return results
        self._restart()
        if not any(each.ms for each in results):
            self._in_advance = False
        again = [index for index, each in enumerate(results) if not each.tried and not each.ms]
        if again and (len(again) < len(sources) or command.processes):
            repeated = self._batch([sources[i] for i in again], launches, until)
            for index, each in zip(again, repeated, strict=True):
                results[index] = each
        return results

    def _judged(self, told: m.BenchedSource) -> Measured:
        if told.error or not told.tried:
            return Measured(error=told.error, tried=told.tried)
        if told.difference is None:
            return Measured(error="its outputs have other shapes")
        if not told.difference <= self._tolerance:
            return Measured(error=f"its outputs differ by {told.difference:.2g}")
        if not all(0 < ms < float("inf") for ms in told.ms):
            return Measured(error="its times are no times")
        return Measured(told.ms)

    def _bench_command(self, sources: Sequence[str], launches: int, left: float) -> m.BenchSources:
        assert self._command is not None
        cuda = self.subject.device != "cpu"
        passes = max(1, launches // 10)
        return m.BenchSources(
            kernel=self._command,
            sources=list(sources),
            sets=self._sets,
            launches=max(1, launches // passes),
            passes=passes,
            method="events" if cuda else "clock",
            hold_cycles=HOLDS[0] if cuda else 0,
            seconds=left,
            compile_seconds=COMPILE_SECONDS,
            # One core for the process that waits for them.
            processes=max(1, len(os.sched_getaffinity(0)) - 1) if cuda and self._in_advance else 0,
            cutoff=_CUTOFF,
        )

    # Inputs and workers

    def _prepare(self, worker: Worker) -> None:
        """Have the problem make its inputs and parameters, in buffers that stay as they are."""
        subject = self.subject
        assert self._bench is not None
        try:
            described = worker.load_problem(
                subject.problem,
                device=subject.device,
                dtype=subject.dtype,
                precision=subject.precision,
            )
            self.inputs = worker.describe_inputs(_FIRST_SEED)
        except WorkerError as error:
            raise KbError(f"the problem cannot be run: {error}") from None
        exporter = self._bench.exporter
        given = [
            exporter.allocate(f"tune.parameter.{index}", each.tensor)
            for index, each in enumerate(described.parameters)
        ]
        self._buffers += given
        for number in range(self._count()):
            arguments: list[m.Argument] = []
            for position, spec in enumerate(self.inputs):
                if spec.tensor is None:
                    arguments.append(m.ValueArgument(value=spec.value))
                    continue
                name = f"tune.{number}.{position}"
                self._buffers.append(exporter.allocate(name, spec.tensor))
                arguments.append(m.BufferArgument(buffer=name))
            self._sets.append(arguments)
        worker.open(self._buffers)
        worker.export_parameters([each.name for each in given])
        for number, each in enumerate(self._sets):
            into = [a.buffer if isinstance(a, m.BufferArgument) else None for a in each]
            worker.make_inputs(_FIRST_SEED + number, into)
        self._command = m.LoadKernel(
            source=subject.kernel.text,
            module_name="version",
            form=subject.kernel.form.value,
            device=subject.device,
            dtype=subject.dtype,
            precision=subject.precision,
            init_inputs=described.init_inputs,
            parameters=[
                m.KernelParameter(name=each.name, buffer=buffer.name, kind=each.kind)
                for each, buffer in zip(described.parameters, given, strict=True)
            ],
            attributes=described.attributes,
            input_names=described.input_names,
        )
        kinds = [each.tensor.dtype for each in self.inputs if each.tensor is not None]
        self._tolerance = max((_TOLERANCE.get(kind, 0.0) for kind in kinds), default=_LOOSEST)

    def _count(self) -> int:
        """Sets of inputs: so many that none is in the cache when its turn comes again."""
        nbytes = sum(each.tensor.nbytes for each in self.inputs if each.tensor is not None)
        if self.subject.device == "cpu":
            return 1
        device = torch.device(self.subject.device)
        l2_bytes = int(torch.cuda.get_device_properties(device).L2_cache_size)
        free = int(torch.cuda.mem_get_info(device)[0])
        return max(1, min(sets_wanted(nbytes, l2_bytes), sets_fitting(nbytes, 0, free)))

    def _worker(self) -> Worker:
        if self._desk is None:
            assert self._bench is not None
            self._desk = self._bench.start("versions")
            self._desk.worker.open(self._buffers)
        return self._desk.worker

    def _restart(self) -> None:
        self.say("starting the process for versions anew")
        if self._desk is not None:
            self._desk.close()
        self._desk = None

    def _freed(self) -> None:
        self.held_seconds = self.held
