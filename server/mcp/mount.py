"""MCP over streamable HTTP at `/mcp`: stateless, so that any worker answers any request."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from kb.parsing import PARSING
from server.middleware.auth import is_admin
from server.mounting import Mount
from server.problems import ADMIN_NEEDED, problem_response
from server.state import Host

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"


class McpEndpoint:
    """The ASGI application behind `/mcp`.

    The SDK takes longer to import than everything else together, so it is imported when the rest
    is ready and answers already; a request that comes before waits for it.
    """

    def __init__(self, state: Host, mounts: Sequence[Mount] = ()) -> None:
        self._state = state
        self._mounts = mounts
        self._ready: asyncio.Future[StreamableHTTPSessionManager] | None = None

    def route(self) -> Route:
        """The route; it takes every method, since it answers the wrong ones itself."""
        return Route(PATH, endpoint=self, include_in_schema=False)

    @asynccontextmanager
    async def running(self, after: asyncio.Task[None]) -> AsyncIterator[None]:
        """Serve while the context lasts, from when the task `after` is done."""
        self._ready = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        serving = asyncio.create_task(self._serve(self._ready, stop, after))
        try:
            yield
        finally:
            stop.set()
            await serving

    async def _serve(
        self,
        ready: "asyncio.Future[StreamableHTTPSessionManager]",
        stop: asyncio.Event,
        after: asyncio.Task[None],
    ) -> None:
        # entered and left in one task, as its cancel scopes demand
        await asyncio.wait({after})
        try:
            manager = await asyncio.to_thread(self._manager)
        except Exception as error:
            ready.set_exception(error)
            ready.exception()  # seen here; every request sees it too
            return
        async with manager.run():
            ready.set_result(manager)
            await stop.wait()

    def _manager(self) -> "StreamableHTTPSessionManager":
        # Its models have pydantic parse signatures, while requests may be parsing as well.
        with PARSING:
            from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415

        from server.mcp.tools import build_mcp  # noqa: PLC0415

        state = self._state

        def on_answer(abstained: bool) -> None:
            state.metrics.searches.labels("mcp", str(abstained).lower()).inc()

        server = build_mcp(state.service, state.pool.run, on_answer)
        for mount in self._mounts:
            mount.add_tools(server, _admins_only)
        # Host, Origin and size are checked before any request comes here.
        server.streamable_http_app(
            stateless_http=True,
            # An answer that reports progress is a stream of events; the server's own are at once.
            json_response=not self._mounts,
            max_request_body_size=state.settings.max_body_bytes,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        return server.session_manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] != "POST":
            # without sessions there is no stream to open or close
            wrong = problem_response(
                405, "this address accepts only POST", headers={"Allow": "POST"}
            )
            await wrong(scope, receive, send)
            return
        assert self._ready is not None, "the application's lifespan has not begun"
        manager = await asyncio.shield(self._ready)
        await manager.handle_request(scope, receive, send)


def _admins_only(context: "Context[Any, Any]") -> None:
    """Refuse a tool to whoever has no admin token.

    Raises
    ------
    ToolError
        The request that calls it came without one.
    """
    from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415

    request = context.request_context.request
    if request is None or not is_admin(request.scope):
        raise ToolError(ADMIN_NEEDED)
