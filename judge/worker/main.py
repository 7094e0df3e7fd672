"""The worker's command loop: reads a command, obeys, replies; survives what candidates raise.

Candidates share this process. Whatever they print goes to standard output and error, which the
sandbox captures; the channel is another descriptor. What they do to the process itself (ending it,
closing descriptors, never returning) the judge sees from outside.
"""

import contextlib
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

# torch.manual_seed imports the first at its first call, which takes a second, and an export the
# other: here the process that workers fork from does so, once for all.
import torch._dynamo
import torch.export._trace  # noqa: F401

from judge.sandbox.policy import Policy
from judge.worker import messages as m
from judge.worker.channel import Channel, failure
from judge.worker.handler import Handler
from judge.worker.originals import patched


def main(connection: socket.socket, policy: Policy) -> None:
    """Serve the judge until it closes the channel (entry point of the sandbox)."""
    # Remembered from before the fork; the sandbox has a temporary folder of its own.
    tempfile.tempdir = None
    channel = Channel(connection)
    handler = Handler(policy.scratch)
    restore_signals = _remember_signals()
    number = 0
    while True:
        # A signal handler or a trace function of the candidate can raise anywhere in here: nothing
        # of it may end the loop, and every command has one reply.
        try:
            received = channel.receive()
            if received is None:
                return
            line, descriptors = received
            command = m.COMMAND.validate_json(line)
            number = command.id
            answer = _answer(handler, command, descriptors)
            restore_signals()
            channel.send(answer)
        except OSError:
            # The candidate closed the descriptor; the judge sees the end of the channel.
            return
        except BaseException as error:
            with contextlib.suppress(BaseException):
                restore_signals()
            with contextlib.suppress(BaseException):
                channel.send(failure(number, error))


def _answer(handler: Handler, command: m.AnyCommand, descriptors: list[int]) -> m.Reply | m.Failed:
    """Obey one command; SystemExit and KeyboardInterrupt are failures of the candidate's, too."""
    try:
        reply = handler.do(command, descriptors)
        return reply.model_copy(update={"id": command.id})
    except BaseException as error:
        return failure(command.id, error)
    finally:
        _flush()


def _flush() -> None:
    """Hand prints to the sandbox now, in case the process is ended later."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()


def _remember_signals() -> Callable[[], None]:
    """Remember signal handlers and timers; the result puts them back."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None  # only a process's main thread can set handlers
    numbers = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}
    unset, set_timer, get, put = signal.alarm, signal.setitimer, signal.getsignal, signal.signal
    timers = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)

    def restore() -> None:
        unset(0)
        for timer in timers:
            set_timer(timer, 0)
        for number, handler in handlers.items():
            if handler is not None and get(number) is not handler:
                put(number, handler)
        sys.settrace(None)
        sys.setprofile(None)

    return restore


# Takes its references now: every worker that went through all modules would copy their memory.
patched()
