"""Quick timings of kernel versions in a sandboxed process. Its results are claims."""

import contextlib
import math
import os
from collections.abc import Callable, Sequence
from typing import Final, Self

from agent.proposers.tune.halving import Timing
from agent.proposers.tune.material import Material, Subject, prepare
from agent.proposers.tune.turns import Turns
from judge.evaluate.host import describe_host
from judge.evaluate.planning import HOLDS
from judge.evaluate.session import (
    CommandFailedError,
    Session,
    Worker,
    WorkerDiedError,
    WorkerTimedOutError,
)
from judge.progress import Progress, Say, silent
from judge.sandbox.launch import Zygote
from judge.sandbox.layers import require_layers
from judge.worker import messages as m
from kb.errors import KbError

# What one version may compile for: a matrix product takes some 3 s, one that spills minutes.
COMPILE_SECONDS: Final = 12.0
# Of what is left for versions, for compiling: what is compiled has to be timed as well.
_COMPILING_SHARE: Final = 0.75
# What the version to compare with may: without it there is nothing to compare. One that spills for
# all it is worth took 30 s.
_BASELINE_SECONDS: Final = 90.0
# Sources of one command, so that an end of the process loses no more than these.
_BATCH: Final = 64
# A version whose first launches take so many times the best is launched no more.
_CUTOFF: Final = 4.0
# Beyond its own limit a command may take this long: the compared version's first call, the last
# launches.
_GRACE_SECONDS: Final = 45.0


def processes() -> int:
    """How many versions compile at a time: one core is for the process that waits for them."""
    return max(1, len(os.sched_getaffinity(0)) - 1)


class SourceTimer:
    """A problem's inputs in memory, and a worker that runs versions on them.

    A context manager. Use `times` within. The card's lock is held while anything runs on it, and
    free while versions compile.

    Parameters
    ----------
    subject
        The problem, and the version to compare with.
    zygote
        What workers fork from; None starts one.
    say
        Takes progress.
    patience, hold_seconds
        See `Turns`.

    Raises
    ------
    KbError
        The problem cannot be run, the card is busy, or the sandbox is incomplete.
    """

    def __init__(
        self,
        subject: Subject,
        zygote: Zygote | None = None,
        say: Say = silent,
        *,
        patience: float | None = None,
        hold_seconds: float = math.inf,
    ) -> None:
        self.subject = subject
        self._patience = patience
        self._hold_seconds = hold_seconds
        self._zygote = zygote
        self._say = say
        self._stack = contextlib.ExitStack()
        self._versions: Worker | None = None
        self._seen: set[str] = set()
        """Sources that were compiled ahead, or found wanting."""
        self._prepared = False
        """The version to compare with was compiled."""
        self._in_advance = True
        """Compile ahead, for which host code runs without its launches: off once that went
        wrong."""
        self.turns: Turns
        self._session: Session
        self._material: Material

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            device = self.subject.device
            self.turns = Turns(
                describe_host(device).card,
                self._say,
                patience=self._patience,
                hold_seconds=self._hold_seconds,
            )
            session = Session(device, interpret=device == "cpu", zygote=self._zygote)
            self._session = stack.enter_context(session)
            with self.turns.turn():
                worker = self._session.worker("problem")
                require_layers(self._session.layers, trust=self.subject.trust)
                self._material = prepare(self.subject, self._session, worker)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def held_seconds(self) -> float:
        """Seconds that the GPU was held so far."""
        return self.turns.held_seconds

    def left(self, seconds: float) -> float:
        """What is left of `seconds` for a search that began when this was opened."""
        return seconds - self.turns.held_seconds - self.turns.overdue

    def clock(self) -> float:
        """Seconds, without those in which others held the card."""
        return self.turns.clock()

    @property
    def item_bytes(self) -> int:
        """Bytes per item of the smallest floating-point input; 4 if there is none."""
        kinds = {
            input_.tensor.dtype for input_ in self._material.inputs if input_.tensor is not None
        }
        return min((m.ITEM_BYTES[kind] for kind in kinds if "float" in kind), default=4)

    def times(self, sources: Sequence[str], launches: int, seconds: float) -> list[Timing]:
        """Compile, compare and time versions; see `halving.Measure`.

        Raises
        ------
        KbError
            The version to compare with does not run.
        """
        until = self.clock() + seconds
        results: list[Timing] = []
        for start in range(0, len(sources), _BATCH):
            results += self._batch(sources[start : start + _BATCH], launches, until)
        return results

    def _batch(self, sources: Sequence[str], launches: int, until: float) -> list[Timing]:
        if until <= self.clock():
            return [Timing(tried=False) for _ in sources]
        ahead = self._in_advance
        try:
            skips = self._compile_ahead(sources, until)
            rest = [index for index in range(len(sources)) if index not in skips]
            if not rest or (until <= self.clock() and skips):
                return [skips.get(index, Timing(tried=False)) for index in range(len(sources))]
            batch = [sources[index] for index in rest]
            with self.turns.turn():
                worker = self._worker()
                until = min(until, self.clock() + self.turns.hold_left)
                reply = self._bench(worker, self._bench_command(batch, launches, until))
        except CommandFailedError as error:
            raise KbError(f"the kernel to tune fails: {error.kind}: {error.message}") from None
        except (WorkerDiedError, WorkerTimedOutError) as error:
            self._restart()
            self._in_advance = False
            if len(sources) == 1 or isinstance(error, WorkerTimedOutError):
                return [Timing(error=str(error)) for _ in sources]
            half = len(sources) // 2
            first = self._batch(sources[:half], launches, until)
            return first + self._batch(sources[half:], launches, until)
        results = [skips.get(index, Timing(tried=False)) for index in range(len(sources))]
        for index, benched in zip(rest, reply.results, strict=True):
            results[index] = self._check(benched)
        if not reply.lost:
            return results
        self._restart()
        if not any(result.ms for result in results):
            self._in_advance = False
        again = [index for index in rest if not results[index].tried and not results[index].ms]
        if again and (len(again) < len(sources) or ahead):
            retried = self._batch([sources[i] for i in again], launches, until)
            for index, measured in zip(again, retried, strict=True):
                results[index] = measured
        return results

    def _bench(self, worker: Worker, command: m.BenchSources) -> m.Benched:
        limit = command.seconds + COMPILE_SECONDS + _GRACE_SECONDS
        reply = worker.bench_sources(command, timeout=limit)
        count = len(command.sources)
        if len(reply.results) != count:
            raise KbError(f"{worker.name}: {len(reply.results)} results for {count} sources")
        return reply

    def _compile_ahead(self, sources: Sequence[str], until: float) -> dict[int, Timing]:
        """Compile what is new ahead; what came of those that are not to be timed, by place."""
        new = [source for source in dict.fromkeys(sources) if source not in self._seen]
        if not (self._in_advance and new and self.subject.device != "cpu"):
            return {}
        if not self._prepared and self._material.reference is None:
            self._prepare_baseline(until)
        command = self._bench_command(new, 1, until)
        notes, reply = self._note_and_compile(
            command, lambda: max(0.1, _COMPILING_SHARE * (until - self.clock()))
        )
        fails = {}
        for source, first, then in zip(new, notes.results, reply.results, strict=True):
            error = first.error or then.error
            if error or not then.tried:
                slow = first.slow or then.slow
                fails[source] = Timing(error=error, tried=bool(error), slow=slow)
            else:
                self._seen.add(source)
        return {index: fails[source] for index, source in enumerate(sources) if source in fails}

    def _prepare_baseline(self, until: float) -> None:
        """Compile the version to compare with. The search's time does not run meanwhile: a kernel
        that takes long to compile is one that has to be tuned."""
        self._prepared = True
        command = self._bench_command([self._material.command.source], 1, until)
        only = {"refer": False, "compile_seconds": _BASELINE_SECONDS}
        with self.turns.pause_clock():  # what goes wrong is told by the first call
            self._note_and_compile(command.model_copy(update=only), lambda: _BASELINE_SECONDS)

    def _note_and_compile(
        self, command: m.BenchSources, seconds: Callable[[], float]
    ) -> tuple[m.Benched, m.Benched]:
        """Results of noting and compiling. The GPU is free during compilation."""
        noting = command.model_copy(update={"stage": "note", "processes": processes()})
        with self.turns.turn():
            worker = self._worker()
            notes = self._bench(worker, noting)
        compiling = noting.model_copy(update={"stage": "compile", "seconds": seconds()})
        return notes, self._bench(worker, compiling)

    def _check(self, result: m.BenchedSource) -> Timing:
        if result.error or not result.tried:
            return Timing(error=result.error, tried=result.tried, slow=result.slow)
        if result.difference is None:
            return Timing(error="its outputs have different shapes")
        if not result.difference <= self._material.tolerance:
            return Timing(error=f"its outputs differ by {result.difference:.2g}")
        if not all(0 < ms < float("inf") for ms in result.ms):
            return Timing(error="its times are invalid")
        return Timing(result.ms)

    def _bench_command(self, sources: Sequence[str], launches: int, until: float) -> m.BenchSources:
        material = self._material
        cuda = self.subject.device != "cpu"
        passes = max(1, launches // 10)
        return m.BenchSources(
            kernel=material.command,
            reference=material.reference,
            tolerance=material.tolerance,
            sources=list(sources),
            sets=material.sets,
            launches=max(1, launches // passes),
            passes=passes,
            method="events" if cuda else "clock",
            hold_cycles=HOLDS[0] if cuda else 0,
            seconds=max(0.1, until - self.clock()),
            compile_seconds=COMPILE_SECONDS,
            cutoff=_CUTOFF,
        )

    def _worker(self) -> Worker:
        if self._versions is None:
            self._versions = self._session.worker("versions")
            self._versions.open(self._material.buffers)
        return self._versions

    def _restart(self) -> None:
        self._say(Progress("restarting the process that times versions"))
        if self._versions is not None:
            self._versions.stop()
        self._versions = None
        self._prepared = False
        self._seen.clear()
