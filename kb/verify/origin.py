"""The verifying side of `kb.verify.forking`: start it, fork from it, end what was forked."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

# Importing torch and triton on a busy 2-core machine was seen to take 20 s.
START_TIMEOUT_S = 180.0
_PACKET_BYTES = 1 << 12
# For a process that is done to end by itself.
_GENTLE_MS = 500


class Origin:
    """A process with PyTorch loaded that checking processes fork from; starts with the first.

    A context manager, so that it ends.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def fork(self, module: str, handles: Sequence[int]) -> int:
        """Run a module's `main` with stdin, stdout and stderr; returns the process id.

        Raises
        ------
        OSError
            There is no such process to fork from any more, or it does not come up.
        """
        if self._socket is None:
            self._start()
        assert self._socket is not None
        socket.send_fds(self._socket, [module.encode()], handles)
        return self._number()

    def end(self, child: int) -> int:
        """End the process that was forked last and all that it started; returns its exit status."""
        assert self._socket is not None
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        if not waiting.poll(_GENTLE_MS):
            os.kill(child, signal.SIGKILL)  # it may be no leader of a group yet
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        try:
            return self._number()
        except OSError:
            return -signal.SIGKILL  # the process to fork from is gone, which none of them outlives

    def _number(self) -> int:
        assert self._socket is not None
        packet = self._socket.recv(_PACKET_BYTES)
        if not packet:
            self.close()
            raise ConnectionResetError("the process to fork from died")
        return int(packet)

    def _start(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(START_TIMEOUT_S)
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kb.verify.forking", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for this process, which then ends that one
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it; the next fork starts another."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._socket = self._process = None
