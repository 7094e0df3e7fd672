"""MCP over standard input and output, for a client that starts the server itself."""

import contextlib
import logging
from collections.abc import Sequence

import anyio

from kb.context.diagnosing import Diagnose
from server.logs import log_to_stderr
from server.mcp.tools import build_mcp
from server.metrics import Metrics
from server.mounting import Host, Mounting
from server.pool import WorkPool
from server.service import KnowledgeService
from server.settings import Settings


def serve_stdio(
    settings: Settings, mounted: Sequence[Mounting] = (), diagnose: Diagnose | None = None
) -> None:
    """Serve until the client closes standard input.

    Whoever started this process may use all of its tools: there are no tokens here.
    """
    log_to_stderr(logging.WARNING)
    service = KnowledgeService(settings, diagnose)
    pool = WorkPool(settings.threads, settings.max_pending, settings.request_timeout)
    server = build_mcp(service, pool.run, lambda _abstained: None)
    host = Host(settings, service, pool, Metrics())
    try:
        with contextlib.ExitStack() as working:
            for make in mounted:
                mount = make(host)
                mount.add_tools(server, lambda _context: None)
                working.enter_context(mount.running())
            anyio.run(server.run_stdio_async)
    finally:
        pool.close()
