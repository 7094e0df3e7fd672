"""Connections that cannot be held open for nothing, and cannot fill the memory.

uvicorn bounds neither the time, the size and the number of what precedes a request's answer, nor
what follows it on the same connection, and all of that comes before any token is checked. Between
headers and answer the application's own limits hold.
"""

import asyncio
from functools import cache
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from server.settings import Settings

_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
    b"content-length: 0\r\n\r\n"
)
# A header costs more than its bytes; browsers and proxies send a few dozen.
_MOST_HEADERS = 200


@cache
def _defaults() -> Settings:
    return Settings()


class GuardedProtocol(HttpToolsProtocol):  # type: ignore[misc, unused-ignore]
    """uvicorn's protocol with limits on what is read beside a request's body.

    A connection has one request at a time: one that comes before the last is answered is dropped,
    and the connection closed with the answer, which HTTP lets a server do (RFC 9112, 9.3.2).
    Trailers are dropped. When a worker has its most connections, the one that has waited longest
    without a request makes room: slow clients lose their connections, and others always get one.
    """

    # the oldest first; a process has one event loop, and so one such line
    _waiting: ClassVar[dict["GuardedProtocol", None]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        state: dict[str, Any] = kwargs.get("app_state") or {}
        self._limits: Settings = state.get("settings") or _defaults()
        self._deadline: asyncio.TimerHandle | None = None
        # bytes fed since the last request, or since the last part of a body
        self._idle_bytes = 0
        self._header_bytes = 0
        self._in_headers = False
        # what comes on this connection is not looked at any more
        self._deaf = False

    def connection_made(self, transport: Any) -> None:
        """Take a connection, and close the idlest one if there are too many."""
        super().connection_made(transport)
        while len(self.connections) > self._limits.max_connections and self._waiting:
            next(iter(self._waiting))._close(b"")
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take bytes; what is no body is counted, and timed while no request is being answered."""
        if self._deaf or self.transport.is_closing():
            return
        was_active = self._active()
        self._idle_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            self._stop_waiting()
        elif self._idle_bytes > self._limits.max_header_bytes:
            self._refuse()
        elif was_active or self._active():
            self._stop_waiting()
        else:
            self._wait()

    def on_message_begin(self) -> None:
        """Begin a request, unless one is being answered."""
        if self._deaf:
            return
        if self._active():
            self._deaf = True
            self.cycle.keep_alive = False
            return
        self._header_bytes = 0
        self._in_headers = True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        if self._counts(len(url)):
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; a trailer is dropped."""
        if self._counts(len(name) + len(value)) and len(self.headers) < _MOST_HEADERS:
            super().on_header(name, value)
        elif self._in_headers:
            self._refuse()

    def on_headers_complete(self) -> None:
        """Start the request, unless it was refused."""
        self._in_headers = False
        if not self._deaf:
            # what the same read holds behind the headers is not theirs
            self._idle_bytes = 0
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if not self._deaf:
            if self._active():
                self._idle_bytes = 0
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End the body."""
        if not self._deaf:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on: an idle connection waits for its next request, as long as uvicorn keeps it."""
        super().on_response_complete()
        if self.transport.is_closing() or self._active():
            return
        if self._deaf:
            self._close(b"")
        else:
            self._waiting[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and what was read of it."""
        self._stop_waiting()
        self._deaf = True
        super().connection_lost(exc)

    def _active(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _counts(self, size: int) -> bool:
        """Count bytes of a request's head; whether they are to be taken."""
        if self._deaf or not self._in_headers:
            return False
        self._header_bytes += size
        if self._header_bytes > self._limits.max_header_bytes:
            self._refuse()
        return not self._deaf

    def _refuse(self) -> None:
        """Close the connection: what it sends beside bodies is too large."""
        if not self._deaf:
            self._close(_TOO_LARGE if self._in_headers else b"")

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
        self._deaf = True
        if last_words and not self.transport.is_closing():
            self.transport.write(last_words)
        # what a peer does not read must not keep the connection
        self.loop.call_later(1.0, self.transport.abort)
        self.transport.close()
