"""Host and Origin checks: a page from elsewhere must not reach the server through a browser.

In a DNS rebinding attack a page's own host name is made to point to this machine, so the request
carries that name as Host. An IP address as Host cannot be rebound.
"""

import ipaddress
import socket
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from server.problems import problem_response
from server.settings import Settings


class Guard:
    """Answers 421 to a Host that is not this server's, and 403 to a foreign Origin."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._loopback = settings.is_loopback
        self._names = {"localhost", *(name.lower() for name in settings.allowed_hosts)}
        if not self._loopback:
            self._names |= {settings.host.lower(), socket.gethostname().lower()}
        self._origins = frozenset(settings.cors_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check Host and Origin, then pass the request on."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            refused = problem_response(
                421, "this server does not answer to that Host: add it with --allowed-hosts"
            )
        elif not self._may_ask(headers.getlist("origin"), scope["scheme"], hosts[0]):
            refused = problem_response(
                403, "requests from pages of that Origin are refused: see --cors-origins"
            )
        else:
            await self._app(scope, receive, send)
            return
        await refused(scope, receive, send)

    def _is_own(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
            _ = urlsplit(f"//{host}").port
        except ValueError:
            return False
        if "@" in host or "/" in host:
            return False
        if name.lower() in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._loopback

    def _may_ask(self, origins: list[str], scheme: str, host: str) -> bool:
        own = f"{scheme}://{host}".lower()
        return all(each.lower() == own or each in self._origins for each in origins)
