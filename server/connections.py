"""Connections that cannot be held open for nothing: slow, endless or idle ones are closed.

uvicorn bounds none of the time, the size or the number of requests' headers. Between headers and
answer the application's own limits hold.
"""

import asyncio
from functools import cache
from typing import Any, ClassVar

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from server.settings import Settings

_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
    b"content-length: 0\r\n\r\n"
)


@cache
def _defaults() -> Settings:
    return Settings()


class GuardedProtocol(AutoHTTPProtocol):  # type: ignore[valid-type, misc]
    """uvicorn's protocol with limits on what comes before a complete header.

    When a worker has its most connections, the one that has waited longest without a request
    makes room: slow clients lose their connections, and others always get one.
    """

    # the oldest first; a process has one event loop, and so one such line
    _waiting: ClassVar[dict["GuardedProtocol", None]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        state: dict[str, Any] = kwargs.get("app_state") or {}
        self._limits: Settings = state.get("settings") or _defaults()
        self._deadline: asyncio.TimerHandle | None = None
        self._header_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Take a connection, and close the idlest one if there are too many."""
        super().connection_made(transport)
        while len(self.connections) > self._limits.max_connections and self._waiting:
            next(iter(self._waiting))._close(b"")
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take bytes; while they are headers, they are counted and timed."""
        was_active = self._active()
        super().data_received(data)
        if was_active or self._active():
            self._header_bytes = 0
            self._stop_waiting()
            return
        if self.transport.is_closing():
            self._stop_waiting()
            return
        self._header_bytes += len(data)
        if self._header_bytes > self._limits.max_header_bytes:
            self._close(_TOO_LARGE)
        else:
            self._wait()

    def on_response_complete(self) -> None:
        """Go on: an idle connection waits for its next request, as long as uvicorn keeps it."""
        super().on_response_complete()
        if not self.transport.is_closing() and not self._active():
            self._waiting[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _active(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._waiting.setdefault(self)
        if self._deadline is None:
            timeout = self._limits.header_timeout
            self._deadline = self.loop.call_later(timeout, self._close, _TIMEOUT)

    def _stop_waiting(self) -> None:
        self._waiting.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self, last_words: bytes) -> None:
        self._stop_waiting()
        if last_words and not self.transport.is_closing():
            self.transport.write(last_words)
        # what a peer does not read must not keep the connection
        self.loop.call_later(1.0, self.transport.abort)
        self.transport.close()
