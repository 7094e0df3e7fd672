"""One command to a worker and its reply: limits, forged messages, and why a worker ended."""

import contextlib
import socket
import time
from collections.abc import Sequence
from typing import TypeVar

from judge.evaluate.result import Fault
from judge.sandbox.launch import ExitReason, Sandboxed, readable
from judge.worker import messages as m
from kb.errors import KbError

R = TypeVar("R", bound=m.Reply)


class WorkerError(KbError):
    """A worker failed to carry out a command."""

    status = 422

    @property
    def error_text(self) -> str:
        """The error, without worker and command where the worker itself raised it."""
        return str(self)

    @property
    def fault(self) -> Fault:
        """The fault of the kernel, where the worker ran one."""
        return Fault(compiling=False)


class CommandFailedError(WorkerError):
    """The command raised an error in the worker, which continues: type and one line of message."""

    def __init__(
        self, worker: str, command: str, kind: str, message: str, *, compiling: bool = False
    ) -> None:
        super().__init__(f"{worker}: {command} failed: {kind}: {message}")
        self.kind = kind
        self.message = message
        self.compiling = compiling

    @property
    def error_text(self) -> str:
        """See `WorkerError.error_text`."""
        return f"{self.kind}: {self.message}"

    @property
    def fault(self) -> Fault:
        """See `WorkerError.fault`."""
        return Fault(compiling=self.compiling, error=self.kind)


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


class Exchange:
    """Asks one worker process; after an error other than `CommandFailedError` it is gone."""

    def __init__(self, process: Sandboxed, name: str) -> None:
        self.process = process
        self.name = name
        self.last_seconds = 0.0
        """Wall-clock seconds of the last command by the judge's clock: from the first byte sent to
        the last byte of the reply received."""
        self._next = 0
        self._gone: WorkerError | None = None

    @property
    def alive(self) -> bool:
        """Whether the worker can take further commands."""
        return self._gone is None and self.process.exit is None

    def stop(self) -> None:
        """End the worker by force, since a candidate could delay; never raises."""
        self.process.kill()
        with contextlib.suppress(OSError):
            self.process.channel.close()
        if self._gone is None:
            self._gone = WorkerDiedError(self.name, "its work", "it was stopped")

    def ask(
        self, command: m.Command, expected: type[R], timeout: float, descriptors: Sequence[int] = ()
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
            self._refuse_unsolicited(what)
            start = time.perf_counter()
            self._send(line, deadline, descriptors)
            answer = self._receive(deadline, what)
            self.last_seconds = time.perf_counter() - start
        except TimeoutError:
            timed_out = WorkerTimedOutError(self.name, what, timeout)
            raise self._end(timed_out, ExitReason.TIME) from None
        except OSError as error:
            reason = self._reason() or f"its channel broke ({error.strerror or error})"
            raise self._end_for(what, reason) from None
        try:
            reply = m.read_reply(answer, expected, self._next)
        except ValueError as error:
            reason = f"it sent an invalid reply ({m.one_line(str(error), 200)})"
            raise self._end_for(what, reason) from None
        if isinstance(reply, m.Failed):
            failure = reply.error
            kind, message = m.one_line(failure.type, 200), m.one_line(failure.message)
            raise CommandFailedError(self.name, what, kind, message, compiling=failure.compiling)
        return reply

    def _send(self, line: bytes, deadline: float, descriptors: Sequence[int]) -> None:
        """Write all of `line`; a worker that does not read cannot hold the judge up."""
        channel = self.process.channel
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
        channel = self.process.channel
        received = bytearray()
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            channel.settimeout(remaining)
            chunk = channel.recv(1 << 16)
            if not chunk:
                raise self._end_for(what, self._reason() or "it closed its channel")
            received += chunk
            end = chunk.find(b"\n")
            if len(received) > m.MAX_REPLY_BYTES:
                raise self._end_for(what, f"its reply is longer than {m.MAX_REPLY_BYTES} bytes")
            if end >= 0:
                if end != len(chunk) - 1:
                    raise self._end_for(what, "it sent more than one reply")
                return bytes(received[:-1])

    def _refuse_unsolicited(self, what: str) -> None:
        """A worker speaks only when asked: anything waiting in the channel was forged."""
        channel = self.process.channel
        if readable(channel, 0):
            channel.settimeout(0)
            with contextlib.suppress(OSError):
                if channel.recv(1):
                    raise self._end_for(what, "it sent an unexpected message")
            raise self._end_for(what, self._reason() or "it closed its channel")

    def _reason(self) -> str | None:
        """Why the process ended; the channel can close a moment before the process is reaped."""
        for _ in range(20):
            if (exit_ := self.process.exit) is not None:
                return exit_.describe()
            time.sleep(0.05)
        return None

    def _end_for(self, what: str, reason: str) -> WorkerError:
        """End the process, and return why."""
        return self._end(WorkerDiedError(self.name, what, reason), ExitReason.KILLED)

    def _end(self, error: WorkerError, reason: ExitReason) -> WorkerError:
        self.process.kill(reason)
        self._gone = error
        return error
