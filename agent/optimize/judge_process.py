"""Client of a judging process: sends requests, waits, and restarts a lost process."""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Final, TypeVar, cast

from pydantic import BaseModel

from agent.optimize.judge_requests import Request
from judge.progress import Progress, Say, Step
from kb.errors import KbError

R = TypeVar("R", bound=BaseModel)

# The longest that an evaluation says nothing: one call of a candidate takes 180 s at most, tuning
# a baseline several minutes.
SILENCE_S: Final = 900.0
# Waiting for a card that others use, and starting, which loads torch from a cold disk.
_WAIT_S: Final = 2400.0
# An evaluation has some tens of kilobytes.
_LINE_BYTES: Final = 16 << 20
_MAX_ERROR_CHARS: Final = 300
MODULE: Final = (sys.executable, "-m", "agent.optimize.judge_main")


class JudgeLostError(KbError):
    """The judging process died, or gave no answer."""


class JudgeError(KbError):
    """The judging process reports that it cannot do what was asked."""

    def __init__(self, message: str, lacking: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.lacking = tuple(lacking)
        """Missing layers of the sandbox, if they are the reason."""


def write_request(request: Request[R]) -> str:
    """A request as a line, which `agent.optimize.judge_main` reads."""
    request_class = type(request)
    name = f"{request_class.__module__}:{request_class.__qualname__}"
    return json.dumps({"request": name, "fields": request.model_dump(mode="json")})


def read_message(request: Request[R], line: str | bytes) -> R | Progress:
    """A line of what comes back: the answer, or progress.

    Raises
    ------
    JudgeError
        The answer is that it cannot be done.
    ValueError, TypeError, KeyError
        It is neither.
    """
    message = json.loads(line)
    if "error" in message:
        raise JudgeError(str(message["error"]), message.get("lacking", ()))
    if "ok" in message:
        return cast("R", type(request).reply.model_validate(message["ok"]))
    return Progress(str(message["say"]), Step(message["step"]))


@dataclass(eq=False)
class JudgeProcess:
    """One judging process, started at the first request and again after each loss."""

    command: Sequence[str] = MODULE
    """What to start; the number of the descriptor for answers is appended."""
    silence: float = SILENCE_S
    """Seconds without a line after which it is ended."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables beside those of this process."""
    cores: Collection[int] | None = None
    """Numbers of the cores that it and all that it starts keep to; None: any."""

    def __post_init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._replies: int | None = None
        self._errors: IO[bytes] | None = None
        self._buffer = b""
        self._closed = False
        self._lock = threading.Lock()

    def ask(self, request: Request[R], say: Say) -> R:
        """The answer to a request; `say` gets progress meanwhile.

        Raises
        ------
        JudgeError
            It answers that it cannot.
        JudgeLostError
            It died, hung, or sent an invalid answer; the next request starts another one.
        """
        self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(write_request(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._lost_error("died") from None
        deadline = time.monotonic() + self.silence
        while True:
            try:
                message = read_message(request, self._read_line(deadline))
            except (ValueError, TypeError, KeyError):
                raise self._lost_error("sent an invalid answer") from None
            if not isinstance(message, Progress):
                return message
            say(message)
            patience = _WAIT_S if message.step is Step.WAIT else self.silence
            deadline = time.monotonic() + patience

    def _start(self) -> None:
        with self._lock:
            if self._closed:
                raise JudgeLostError("the run is being ended")
            if self._process is not None and self._process.poll() is None:
                return
            self._drop()
            reading, writing = os.pipe()
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (kept as long as the process)
            self._replies, self._buffer = reading, b""
            try:
                self._process = subprocess.Popen(
                    [*self.command, str(writing)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=self._errors,
                    pass_fds=[writing],
                    env={**os.environ, **self.environment},
                    # Ctrl-C is for the run, which then ends this process.
                    start_new_session=True,
                )
                if self.cores is not None:
                    with contextlib.suppress(OSError):  # it is gone already: its answer tells
                        os.sched_setaffinity(self._process.pid, self.cores)
            finally:
                os.close(writing)

    def _read_line(self, deadline: float) -> bytes:
        assert self._replies is not None
        parts = [self._buffer]
        length = len(self._buffer)
        with selectors.DefaultSelector() as selector:
            selector.register(self._replies, selectors.EVENT_READ)
            while b"\n" not in parts[-1]:
                remaining = deadline - time.monotonic()
                if remaining <= 0 or not selector.select(remaining):
                    raise self._lost_error(f"sent nothing for {self.silence:.0f} s")
                data = os.read(self._replies, 1 << 16)
                if not data:
                    raise self._lost_error("died")
                parts.append(data)
                length += len(data)
                if length > _LINE_BYTES:
                    raise self._lost_error("sent too long an answer")
        line, _, self._buffer = b"".join(parts).partition(b"\n")
        return line

    def _lost_error(self, how: str) -> JudgeLostError:
        process, errors = self._process, self._errors
        code: int | None = None
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(0.5)
        detail = "" if code is None else f" with status {code}"
        if errors is not None:
            size = errors.seek(0, os.SEEK_END)
            errors.seek(max(0, size - _MAX_ERROR_CHARS * 4))
            lines = errors.read().decode(errors="replace").strip().splitlines()
            detail += f": {lines[-1][:_MAX_ERROR_CHARS]}" if lines else ""
        self._drop()
        return JudgeLostError(f"the judging process {how}{detail}")

    def _drop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
        if self._replies is not None:
            os.close(self._replies)
            self._replies = None
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def cancel(self) -> None:
        """End the process from another thread; `ask` then raises, and no other is started."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                with contextlib.suppress(OSError):
                    self._process.kill()

    def close(self) -> None:
        """End the process for good."""
        self._closed = True
        self._drop()
