"""Collect what a sandboxed process prints: head and tail kept, an end to it at a limit."""

import os
import threading
from collections.abc import Callable

# Enough for a compiler's errors or a traceback at either end.
KEPT_BYTES = 64 << 10
_CHUNK = 1 << 16


class Capture:
    """Reads a pipe in a thread of its own.

    Parameters
    ----------
    reader
        Descriptor of the pipe's reading end; closed at the end of file.
    limit
        Bytes after which `exceeded` is called, once; what comes later is read and dropped.
    exceeded
        Called from the reading thread; must not wait for it.
    """

    def __init__(self, reader: int, limit: int, exceeded: Callable[[], None]) -> None:
        self._reader, self._limit, self._exceeded = reader, limit, exceeded
        self._head, self._tail, self._total = bytearray(), bytearray(), 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="sandbox output", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        warned = False
        with os.fdopen(self._reader, "rb", buffering=0) as pipe:
            while chunk := pipe.read(_CHUNK):
                with self._lock:
                    self._keep(chunk)
                if self._total > self._limit and not warned:
                    warned = True
                    self._exceeded()

    def _keep(self, chunk: bytes) -> None:
        self._total += len(chunk)
        room = KEPT_BYTES - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        del self._tail[:-KEPT_BYTES]

    def finish(self, timeout: float) -> None:
        """Wait until the pipe is at its end."""
        self._thread.join(timeout)

    def text(self) -> str:
        """Return what was printed, the middle left out when it was long."""
        with self._lock:
            head, tail, total = bytes(self._head), bytes(self._tail), self._total
        dropped = total - len(head) - len(tail)
        middle = f"\n[... {dropped} bytes ...]\n".encode() if dropped else b""
        return (head + middle + tail).decode("utf-8", "replace")
