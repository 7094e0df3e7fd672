"""What a command may add to the server: routes, MCP tools, and work that lasts as long as it does.

The server knows nothing of what is added. It gives a `Host`, and gets a `Mount` back.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from server.state import Host

if TYPE_CHECKING:
    from fastapi import APIRouter
    from mcp.server.mcpserver import Context, MCPServer

Permit = Callable[["Context[Any, Any]"], None]
"""Called by a tool that only admins may use, with its context; raises `ToolError` for others."""


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
