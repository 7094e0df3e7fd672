"""The worker's end of the socket to the judge: commands and descriptors in, replies out."""

import contextlib
import os
import socket
import subprocess
from typing import Final

from judge.memory import FULL, memory_full
from judge.worker.messages import (
    MAX_COMMAND_BYTES,
    MAX_REPLY_BYTES,
    Error,
    Failed,
    Reply,
    is_device_error,
    one_line,
)

_CHUNK: Final = 1 << 16
_MAX_DESCRIPTORS: Final = 253  # SCM_MAX_FD
# What refuses a program: Python itself, a compiler that was started, and Triton, by name since it
# may be missing.
_REFUSALS: Final = (SyntaxError, ImportError, subprocess.CalledProcessError)
_REFUSALS_BY_NAME: Final = frozenset({
    "CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct",
    "OutOfResources", "PTXASError", "NvccError",
})  # fmt: skip
_MOST_CAUSES: Final = 8


class Channel:
    """Reads lines and writes replies.

    Python cannot keep the descriptor from code in the same process; what is done is that no
    program started from here inherits it, and that nothing prints to it by accident. A reply that
    the candidate forges is a claim like every other.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.set_inheritable(False)
        connection.setblocking(True)
        self._connection = connection
        self._received = bytearray()
        self._descriptors: list[int] = []

    def receive(self) -> tuple[bytes, list[int]] | None:
        """Wait for one line; the line and the descriptors that came with it, None at the end.

        Raises
        ------
        ValueError
            The line is too long.
        """
        while (end := self._received.find(b"\n")) < 0:
            if len(self._received) > MAX_COMMAND_BYTES:
                raise ValueError("a command is too long")
            chunk, descriptors, _, _ = socket.recv_fds(self._connection, _CHUNK, _MAX_DESCRIPTORS)
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            self._descriptors += descriptors
            if not chunk:
                return None
            self._received += chunk
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        descriptors, self._descriptors = self._descriptors, []
        return line, descriptors

    def send(self, reply: Reply | Failed) -> None:
        """Write one reply; one that is too long becomes a failure."""
        line = reply.model_dump_json().encode()
        if len(line) >= MAX_REPLY_BYTES:
            error = Error(type="ReplyTooLong", message=f"the reply has {len(line)} bytes")
            line = Failed(id=reply.id, error=error).model_dump_json().encode()
        self._connection.sendall(line + b"\n")


def failure(number: int, error: BaseException) -> Failed:
    """Describe an exception of untrusted code, whose methods may themselves raise."""
    kind, message, compiling = "Exception", "its message cannot be printed", False
    with contextlib.suppress(BaseException):
        kind = one_line(str(type(error).__name__), 200) or kind
    with contextlib.suppress(BaseException):
        text = str(error)
        first_line = text.partition("\n")[0]
        # PyTorch goes on with five lines on how to debug, alike for every error of a device.
        text = first_line if is_device_error(first_line) else text
        message = one_line(memory_full(text) if kind == FULL else text)
    with contextlib.suppress(BaseException):
        compiling = _is_refusal(error)
    return Failed(id=number, error=Error(type=kind, message=message, compiling=compiling))


def _is_refusal(error: BaseException | None) -> bool:
    """Whether a compiler, or Python's loader, is what an exception comes from."""
    for _ in range(_MOST_CAUSES):
        if error is None:
            break
        names = {class_.__name__ for class_ in type(error).__mro__}
        if isinstance(error, _REFUSALS) or names & _REFUSALS_BY_NAME:
            return True
        error = error.__cause__
    return False
