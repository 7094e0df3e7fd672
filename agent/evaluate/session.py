"""The judge's handle on one worker: typed commands, time limits, and why a worker ended."""

import contextlib
import select
import socket
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Protocol, Self, TypeVar

from agent.sandbox.launch import Exit, ExitReason
from agent.worker import messages as m
from kb.errors import KbError

if TYPE_CHECKING:
    from agent.evaluate.buffers import Exported

R = TypeVar("R", bound=m.Reply)

# Shared buffers opened by one message; Linux passes at most 253 descriptors (SCM_MAX_FD).
MAX_DESCRIPTORS: Final = 64

# Wall-clock limits in seconds; callers pass their own where they know better.
# Executing a file may build a CUDA extension (nvcc with torch's headers took 100 s once).
LOAD_SECONDS: Final = 300.0
# A first call may compile: torch.compile with max-autotune benchmarks many configurations.
CALL_SECONDS: Final = 600.0
# Everything else moves at most a few GB.
COMMAND_SECONDS: Final = 120.0


class WorkerError(KbError):
    """A worker did not do what it was told."""

    status = 422


class CommandFailedError(WorkerError):
    """The command raised in the worker, which goes on: type and one line of message."""

    def __init__(self, worker: str, command: str, kind: str, message: str) -> None:
        super().__init__(f"{worker}: {command} failed: {kind}: {message}")
        self.kind = kind
        self.message = message


class WorkerDiedError(WorkerError):
    """The process ended, or was killed for what it sent."""

    def __init__(self, worker: str, command: str, reason: str) -> None:
        super().__init__(f"{worker}: ended during {command}: {reason}")
        self.reason = reason


class WorkerTimedOutError(WorkerError):
    """No reply within the limit; the process was killed."""

    def __init__(self, worker: str, command: str, seconds: float) -> None:
        super().__init__(f"{worker}: {command} took more than {seconds:.0f} s and was ended")
        self.seconds = seconds


class Process(Protocol):
    """What the worker handle needs of `agent.sandbox.launch.Sandboxed`."""

    @property
    def channel(self) -> socket.socket:
        """A stream socket whose other end the worker reads and writes."""

    @property
    def exit(self) -> Exit | None:
        """How the process ended, None while it runs."""

    def kill(self, reason: ExitReason = ...) -> Exit:
        """End the process and all that it started; may be repeated."""


class Worker:
    """One worker process; after an error other than `CommandFailedError` it is gone.

    Parameters
    ----------
    process
        The running worker.
    name
        What messages to the user call it, such as "candidate".
    """

    def __init__(self, process: Process, name: str) -> None:
        self.name = name
        self.last_seconds = 0.0
        """Wall-clock seconds of the last command by the judge's clock: from the first byte sent
        to the last byte of the reply received."""
        self._process = process
        self._next = 0
        self._gone: WorkerError | None = None

    @property
    def alive(self) -> bool:
        """Whether further commands make sense."""
        return self._gone is None and self._process.exit is None

    def open(self, buffers: Sequence["Exported"]) -> None:
        """Let the worker map the judge's buffers."""
        for start in range(0, len(buffers), MAX_DESCRIPTORS):
            batch = buffers[start : start + MAX_DESCRIPTORS]
            shared = [each.descriptor for each in batch if each.descriptor is not None]
            command = m.Open(buffers=[each.buffer for each in batch])
            self._ask(command, m.Done, COMMAND_SECONDS, shared)

    def close_buffers(self, names: Sequence[str]) -> None:
        """Make the worker unmap buffers; do this before freeing them."""
        self._ask(m.Close(names=list(names)), m.Done, COMMAND_SECONDS)

    def load_problem(
        self,
        source: str,
        *,
        device: str,
        module_name: str = "problem",
        dtype: str | None = None,
        precision: m.Precision = "ieee",
        seed: int = 0,
        timeout: float = LOAD_SECONDS,
    ) -> m.Problem:
        """Execute a problem file and build its model under `seed`."""
        command = m.LoadProblem(
            source=source,
            module_name=module_name,
            device=device,
            dtype=dtype,
            precision=precision,
            seed=seed,
        )
        return self._ask(command, m.Problem, timeout)

    def use_variant(
        self, source: str, *, seed: int = 0, timeout: float = LOAD_SECONDS
    ) -> m.Problem:
        """Execute another text of the same problem (other constants); device and dtype stay."""
        return self._ask(m.UseVariant(source=source, seed=seed), m.Problem, timeout)

    def describe_inputs(
        self, seed: int, kind: m.ValueKind = m.ValueKind.GIVEN
    ) -> list[m.InputSpec]:
        """Shapes, dtypes and values of what `make_inputs` would write."""
        command = m.DescribeInputs(seed=seed, kind=kind)
        return self._ask(command, m.Inputs, COMMAND_SECONDS).inputs

    def make_inputs(
        self, seed: int, into: Sequence[str | None], kind: m.ValueKind = m.ValueKind.GIVEN
    ) -> None:
        """Write the inputs into open buffers, by position; None for those without a tensor."""
        command = m.MakeInputs(seed=seed, kind=kind, into=list(into))
        self._ask(command, m.Done, COMMAND_SECONDS)

    def export_parameters(self, into: Sequence[str | None]) -> None:
        """Write the model's tensors into open buffers, in the order of `Problem.parameters`."""
        self._ask(m.ExportParameters(into=list(into)), m.Done, COMMAND_SECONDS)

    def oracle(
        self,
        inputs: Sequence[m.Argument],
        into: Sequence[str | None] | None = None,
        *,
        method: str = "forward",
        mutate: m.Mutation | None = None,
        timeout: float = CALL_SECONDS,
    ) -> m.OracleOutputs:
        """Run the model in float64; with `into` None only say what the outputs look like."""
        command = m.Oracle(
            inputs=list(inputs),
            into=None if into is None else list(into),
            method=method,
            mutate=mutate,
        )
        return self._ask(command, m.OracleOutputs, timeout)

    def contender(self, form: Literal["eager", "compile", "max-autotune"]) -> None:
        """Make the problem's model what `call` and `time` run."""
        self._ask(m.Contender(form=form), m.Done, COMMAND_SECONDS)

    def load_kernel(self, command: m.LoadKernel, *, timeout: float = LOAD_SECONDS) -> m.Kernel:
        """Execute a kernel file and make it what `call` and `time` run."""
        return self._ask(command, m.Kernel, timeout)

    def call(
        self,
        inputs: Sequence[m.Argument],
        *,
        poison: bool = False,
        observe: bool = False,
        timeout: float = CALL_SECONDS,
    ) -> m.Called:
        """Call the contender once; its outputs are held until `drop`."""
        command = m.Call(inputs=list(inputs), poison=poison, observe=observe)
        return self._ask(command, m.Called, timeout)

    def fetch(
        self, into: Sequence[str | None], *, call: int | None = None, launch: int | None = None
    ) -> None:
        """Copy held outputs of one call or one kept launch into open buffers."""
        self._ask(m.Fetch(call=call, launch=launch, into=list(into)), m.Done, COMMAND_SECONDS)

    def drop(self, calls: Sequence[int] = (), *, launches: bool = False) -> None:
        """Let go of held outputs."""
        self._ask(m.Drop(calls=list(calls), launches=launches), m.Done, COMMAND_SECONDS)

    def time(self, command: m.Time, *, timeout: float = CALL_SECONDS) -> m.Times:
        """Launch and time; `last_seconds` has the judge's own wall clock of it."""
        return self._ask(command, m.Times, timeout)

    def probe(self, inputs: Sequence[m.Argument], *, timeout: float = CALL_SECONDS) -> m.Capturable:
        """Try to capture the contender in a CUDA graph."""
        return self._ask(m.Probe(inputs=list(inputs)), m.Capturable, timeout)

    def flops(self, seed: int = 0) -> m.Operations:
        """Count the model's floating-point operations without running it."""
        return self._ask(m.Flops(seed=seed), m.Operations, COMMAND_SECONDS)

    def stop(self) -> None:
        """Ask the worker to quit, then end it; never raises, never waits long."""
        if self.alive:
            with contextlib.suppress(WorkerError):
                self._ask(m.Quit(), m.Done, 5.0)
        self._process.kill()
        with contextlib.suppress(OSError):
            self._process.channel.close()
        if self._gone is None:
            self._gone = WorkerDiedError(self.name, "quit", "it was stopped")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _ask(
        self,
        command: m.Command,
        expected: type[R],
        timeout: float,
        descriptors: Sequence[int] = (),
    ) -> R:
        """Send one command and wait for its reply.

        Raises
        ------
        CommandFailedError
            The worker's code raised; the worker can go on.
        WorkerDiedError
            The process ended, or sent what no worker sends and was ended.
        WorkerTimedOutError
            No reply within `timeout` seconds; the process was ended.
        """
        if self._gone is not None:
            raise self._gone
        what = str(getattr(command, "do", "a command"))
        self._next += 1
        line = command.model_copy(update={"id": self._next}).model_dump_json().encode() + b"\n"
        deadline = time.monotonic() + timeout
        try:
            self._refuse_unasked(what)
            start = time.perf_counter()
            self._send(line, deadline, descriptors)
            answer = self._receive(deadline, what)
            self.last_seconds = time.perf_counter() - start
        except TimeoutError:
            raise self._give_up(WorkerTimedOutError(self.name, what, timeout)) from None
        except OSError as error:
            reason = self._reason() or f"its channel broke ({error.strerror or error})"
            raise self._give_up(WorkerDiedError(self.name, what, reason)) from None
        try:
            reply = m.read_reply(answer, expected, self._next)
        except ValueError as error:
            reason = f"it sent something that is no reply ({m.one_line(str(error), 200)})"
            raise self._give_up(WorkerDiedError(self.name, what, reason)) from None
        if isinstance(reply, m.Failed):
            raise CommandFailedError(
                self.name, what, m.one_line(reply.error.type, 200), m.one_line(reply.error.message)
            )
        return reply

    def _send(self, line: bytes, deadline: float, descriptors: Sequence[int]) -> None:
        """Write all of `line`; a worker that does not read cannot hold the judge up."""
        channel = self._process.channel
        view = memoryview(line)
        if descriptors:  # with the first bytes, so that they are there before the line is complete
            channel.settimeout(max(0.001, deadline - time.monotonic()))
            view = view[socket.send_fds(channel, [view], list(descriptors)) :]
        while view:
            channel.settimeout(max(0.001, deadline - time.monotonic()))
            view = view[channel.send(view) :]
            if time.monotonic() > deadline:
                raise TimeoutError

    def _receive(self, deadline: float, what: str) -> bytes:
        """One line without its end; more than a line, or too long a one, ends the worker."""
        channel = self._process.channel
        received = bytearray()
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            channel.settimeout(remaining)
            part = channel.recv(1 << 16)
            if not part:
                reason = self._reason() or "it closed its channel"
                raise self._give_up(WorkerDiedError(self.name, what, reason))
            received += part
            end = part.find(b"\n")
            if len(received) > m.MAX_REPLY_BYTES:
                reason = f"its reply is longer than {m.MAX_REPLY_BYTES} bytes"
                raise self._give_up(WorkerDiedError(self.name, what, reason))
            if end >= 0:
                if end != len(part) - 1:
                    reason = "it sent more than one reply"
                    raise self._give_up(WorkerDiedError(self.name, what, reason))
                return bytes(received[:-1])

    def _refuse_unasked(self, what: str) -> None:
        """A worker speaks only when asked: anything waiting in the channel was forged."""
        channel = self._process.channel
        if select.select([channel], [], [], 0)[0]:
            channel.settimeout(0)
            with contextlib.suppress(OSError):
                if channel.recv(1):
                    reason = "it sent a message unasked"
                    raise self._give_up(WorkerDiedError(self.name, what, reason))
            reason = self._reason() or "it closed its channel"
            raise self._give_up(WorkerDiedError(self.name, what, reason))

    def _reason(self) -> str | None:
        """Why the process ended; the channel can close a moment before the process is reaped."""
        for _ in range(20):
            if (exit_ := self._process.exit) is not None:
                return exit_.describe()
            time.sleep(0.05)
        return None

    def _give_up(self, error: WorkerError) -> WorkerError:
        timed_out = isinstance(error, WorkerTimedOutError)
        self._process.kill(ExitReason.TIME if timed_out else ExitReason.KILLED)
        self._gone = error
        return error
