"""Times versions of a kernel in a sandboxed process, quickly; what it says are claims."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
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
# Of what is left for versions, for compiling: what is compiled has to be timed as well.
_COMPILING_SHARE: Final = 0.75
# What the version to compare with may: without it there is nothing to compare. One that spills for
# all it is worth took 30 s.
_GIVEN_COMPILE_SECONDS: Final = 90.0
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


def processes() -> int:
    """How many versions compile at a time: one core is for the process that waits for them."""
    return max(1, len(os.sched_getaffinity(0)) - 1)


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
    reference: KernelFile | None = None
    """Another file to compare with, right for sure; it can be timed as well."""


@dataclass(slots=True)
class SourceTimer:
    """A problem's inputs in memory, and a worker that runs versions on them.

    A context manager. Use `times` within. The card's lock is held while anything runs on it, and
    free while versions compile.

    Raises
    ------
    KbError
        The problem cannot be run, the card is busy, or the sandbox is incomplete.
    """

    subject: Subject
    zygote: Zygote | None = None
    say: Callable[[str], None] = lambda _: None
    held_seconds: float = 0.0
    """How long the card was held so far, turns that are over."""
    waited_seconds: float = 0.0
    """How long others held it."""
    launches_made: int = 0
    ahead_seconds: float = 0.0
    """How long sources were compiled ahead; the card is free meanwhile."""
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
    _reference: m.LoadKernel | None = None
    _card: str | None = None
    _since: float | None = None
    _seen: set[str] = field(default_factory=set)
    """Sources that were compiled ahead, or found wanting."""
    _prepared: bool = False
    """The version to compare with was compiled."""
    _in_advance: bool = True
    """Compile ahead, for which host code runs without its launches: off once that went wrong."""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            device = self.subject.device
            self._card = describe_host(device).card
            self._bench = stack.enter_context(Bench(device, self.zygote))
            with self._turn():
                desk = self._bench.start("problem")
                lacking = missing(self._bench.layers)
                if lacking and not self.subject.trust:
                    raise KbError(
                        f"the sandbox lacks: {'; '.join(lacking)}; run with --trust if you know "
                        "where problem and kernel come from"
                    )
                self._prepare(desk.worker)
            self._stack = stack.pop_all()
        return self

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the card, and count for how long."""
        asked = time.monotonic()
        with contextlib.ExitStack() as stack:
            if self._card is not None:
                stack.enter_context(locked(self._card, say=self.say))
            self._since = time.monotonic()
            self.waited_seconds += self._since - asked
            try:
                yield
            finally:
                self.held_seconds += time.monotonic() - self._since
                self._since = None

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def held(self) -> float:
        """Seconds that the card was held so far."""
        running = 0.0 if self._since is None else time.monotonic() - self._since
        return self.held_seconds + running

    def clock(self) -> float:
        """Seconds, without those in which others held the card."""
        return time.monotonic() - self.waited_seconds

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
        until = self.clock() + seconds
        results: list[Measured] = []
        for start in range(0, len(sources), _BATCH):
            results += self._batch(sources[start : start + _BATCH], launches, until)
        return results

    def _batch(self, sources: Sequence[str], launches: int, until: float) -> list[Measured]:
        if until <= self.clock():
            return [Measured(tried=False) for _ in sources]
        ahead = self._in_advance
        try:
            known = self._compiled(sources, until)
            rest = [index for index in range(len(sources)) if index not in known]
            if not rest or (until <= self.clock() and known):
                return [known.get(index, Measured(tried=False)) for index in range(len(sources))]
            chosen = [sources[index] for index in rest]
            with self._turn():
                worker = self._worker()
                reply = self._asked(worker, self._bench_command(chosen, launches, until))
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
        results = [known.get(index, Measured(tried=False)) for index in range(len(sources))]
        for index, told in zip(rest, reply.results, strict=True):
            results[index] = self._judged(told)
        self.launches_made += sum(len(each.ms) for each in reply.results)
        if not reply.lost:
            return results
        self._restart()
        if not any(each.ms for each in results):
            self._in_advance = False
        again = [index for index in rest if not results[index].tried and not results[index].ms]
        if again and (len(again) < len(sources) or ahead):
            repeated = self._batch([sources[i] for i in again], launches, until)
            for index, each in zip(again, repeated, strict=True):
                results[index] = each
        return results

    def _asked(self, worker: Worker, command: m.BenchSources) -> m.Benched:
        limit = command.seconds + COMPILE_SECONDS + _GRACE_SECONDS
        reply = worker.bench_sources(command, timeout=limit)
        count = len(command.sources)
        if len(reply.results) != count:
            raise KbError(f"{worker.name}: {len(reply.results)} results for {count} sources")
        return reply

    def _compiled(self, sources: Sequence[str], until: float) -> dict[int, Measured]:
        """Compile what is new ahead; what came of those that are not to be timed, by place."""
        new = [source for source in dict.fromkeys(sources) if source not in self._seen]
        if not (self._in_advance and new and self.subject.device != "cpu"):
            return {}
        if not self._prepared and self._reference is None:
            self._prepare_given(until)
        command = self._bench_command(new, 1, until)
        noted, reply = self._noted_and_compiled(
            command, lambda: max(0.1, _COMPILING_SHARE * (until - self.clock()))
        )
        told = {}
        for source, first, then in zip(new, noted.results, reply.results, strict=True):
            error = first.error or then.error
            if error or not then.tried:
                told[source] = Measured(error=error, tried=bool(error))
            else:
                self._seen.add(source)
        return {index: told[source] for index, source in enumerate(sources) if source in told}

    def _prepare_given(self, until: float) -> None:
        """Compile the version to compare with. The search's time does not run meanwhile: a kernel
        that takes long to compile is one that has to be tuned."""
        self._prepared = True
        assert self._command is not None
        began, waited = time.monotonic(), self.waited_seconds
        command = self._bench_command([self._command.source], 1, until)
        only = {"refer": False, "compile_seconds": _GIVEN_COMPILE_SECONDS}
        self._noted_and_compiled(
            command.model_copy(update=only), lambda: _GIVEN_COMPILE_SECONDS
        )  # what goes wrong is told by the first call
        self.waited_seconds = waited + time.monotonic() - began

    def _noted_and_compiled(
        self, command: m.BenchSources, seconds: Callable[[], float]
    ) -> tuple[m.Benched, m.Benched]:
        """What noting and compiling said; the card is free while it compiles."""
        noting = command.model_copy(update={"stage": "note", "processes": processes()})
        with self._turn():
            worker = self._worker()
            noted = self._asked(worker, noting)
        compiling = noting.model_copy(update={"stage": "compile", "seconds": seconds()})
        reply = self._asked(worker, compiling)
        self.ahead_seconds += reply.ahead_seconds
        self.compiled_ahead += reply.compiled_ahead
        return noted, reply

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

    def _bench_command(self, sources: Sequence[str], launches: int, until: float) -> m.BenchSources:
        assert self._command is not None
        cuda = self.subject.device != "cpu"
        passes = max(1, launches // 10)
        return m.BenchSources(
            kernel=self._command,
            reference=self._reference,
            sources=list(sources),
            sets=self._sets,
            launches=max(1, launches // passes),
            passes=passes,
            method="events" if cuda else "clock",
            hold_cycles=HOLDS[0] if cuda else 0,
            seconds=max(0.1, until - self.clock()),
            compile_seconds=COMPILE_SECONDS,
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
        if subject.reference is not None:
            self._reference = self._command.model_copy(
                update={
                    "source": subject.reference.text,
                    "form": subject.reference.form.value,
                    "module_name": "reference",
                }
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
        self._prepared = False
        self._seen.clear()
