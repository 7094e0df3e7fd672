"""MCP over standard input and output, for a client that starts the server itself."""

import contextlib
from collections.abc import Sequence

import anyio

from kb.context.diagnosing import Diagnose
from server.logs import log_to_stderr
from server.mcp.tools import build_mcp
from server.mounting import Mounting
from server.settings import Settings
from server.state import Host


def serve_stdio(
    settings: Settings, mounted: Sequence[Mounting] = (), diagnose: Diagnose | None = None
) -> None:
    """Serve until the client closes standard input.

    Whoever started this process may use all of its tools: there are no tokens here.
    """
    log_to_stderr()
    host = Host.of(settings, diagnose)
    server = build_mcp(host.service, host.pool.run, lambda _abstained: None)
    try:
        with contextlib.ExitStack() as working:
            for make in mounted:
                mount = make(host)
                mount.add_tools(server, lambda _context: None)
                working.enter_context(mount.running())
            anyio.run(server.run_stdio_async)
    finally:
        host.pool.close()
