"""MCP over standard input and output, for a client that starts the server itself."""

import logging

import anyio

from server.logs import log_to_stderr
from server.mcp.tools import build_mcp
from server.pool import WorkPool
from server.service import KnowledgeService
from server.settings import Settings


def serve_stdio(settings: Settings) -> None:
    """Serve until the client closes standard input."""
    log_to_stderr(logging.WARNING)
    service = KnowledgeService(settings)
    pool = WorkPool(settings.threads, settings.max_pending, settings.request_timeout)
    server = build_mcp(service, pool.run, lambda _abstained: None)
    try:
        anyio.run(server.run_stdio_async)
    finally:
        pool.close()
