"""Request ids, the access log, metrics, and the answer when something unforeseen fails."""

import logging
import re
import secrets
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.logs import request_id
from server.metrics import Metrics
from server.problems import problem_response

_ACCESS = logging.getLogger("kb.server.access")
_LOG = logging.getLogger("kb.server")
_VALID_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NO_ROUTE = "unmatched"
# Labels of a metric must be few: whatever else a client sends counts as one.
_METHODS = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"})


class Observe:
    """Outermost: everything below is counted, timed and logged under one request id."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and record what came of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        header = Headers(scope=scope).get("x-request-id", "")
        current = header if _VALID_ID.fullmatch(header) else secrets.token_hex(8)
        token = request_id.set(current)
        status = 0

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = current
                headers["X-Content-Type-Options"] = "nosniff"
                took = (time.perf_counter() - started) * 1e3
                headers.append("Server-Timing", f"app;dur={took:.3f}")
            await send(message)

        try:
            await self._app(scope, receive, observed)
        except Exception:
            _LOG.exception("request failed")
            if status:
                raise  # the answer has begun: only closing the connection tells the client
            response = problem_response(500, f"unexpected error: the log has it under {current}")
            await response(scope, receive, observed)
        finally:
            self._record(scope, status, time.perf_counter() - started)
            request_id.reset(token)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", _NO_ROUTE)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.requests.labels(method, route, status).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        client = scope.get("client")
        _ACCESS.info(
            "request",
            extra={
                "method": method,
                "path": scope["path"],
                "status": status,
                "ms": round(seconds * 1e3, 3),
                "client": client[0] if client else None,
                "token": getattr(scope.get("principal"), "id", None),
            },
        )
