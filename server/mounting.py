"""What a command may add to the server: routes, MCP tools, and work that lasts as long as it does.

The server knows nothing of what is added. It gives a `Host`, and gets a `Mount` back.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from server.metrics import Metrics
from server.pool import WorkPool
from server.service import KnowledgeService
from server.settings import Settings

if TYPE_CHECKING:
    from fastapi import APIRouter
    from mcp.server.mcpserver import Context, MCPServer

Permit = Callable[["Context[Any, Any]"], None]
"""Called by a tool that only admins may use, with its context; raises `ToolError` for others."""


@dataclass(frozen=True, slots=True)
class Host:
    """What is added may use: the same service, threads, counters and settings as the server."""

    settings: Settings
    service: KnowledgeService
    pool: WorkPool
    metrics: Metrics


class Mount(Protocol):
    """One addition, in one process."""

    def router(self) -> "APIRouter":
        """Its routes; asked for over HTTP only."""
        ...

    def add_tools(self, server: "MCPServer[Any]", permit: Permit) -> None:
        """Add its tools; they may report progress and take long."""
        ...

    def running(self) -> AbstractContextManager[None]:
        """Run the addition's background work; leaving the context stops it promptly."""
        ...


Mounting = Callable[[Host], Mount]
"""Makes an addition for a process."""
