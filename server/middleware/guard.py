"""Host, Origin and Sec-Fetch checks: a page elsewhere must not reach the server by a browser.

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

# Where a browser says that a request comes from: this server's pages, or the user.
_OWN_SITES = frozenset({"same-origin", "none"})


class Guard:
    """Answers 421 to a Host that is not this server's, and 403 to what a foreign page asks."""

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
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            return problem_response(
                421, "this server does not accept that Host: allow it with --allowed-hosts"
            )
        own = self._may_ask(headers.getlist("origin"), scope["scheme"], hosts[0])
        if not own or self._from_elsewhere(headers, scope):
            return problem_response(
                403, "requests from pages of other origins are refused: see --cors-origins"
            )
        return None

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

    def _from_elsewhere(self, headers: Headers, scope: Scope) -> bool:
        """Whether a page elsewhere made the browser ask: an image's address has no Origin.

        A link that leads here is followed, if it asks for nothing or the user clicked on it.
        """
        if headers.get("sec-fetch-site", "none") in _OWN_SITES:
            return False
        if any(origin in self._origins for origin in headers.getlist("origin")):
            return False
        opens_page = (
            scope["method"] == "GET"
            and headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-dest") == "document"
        )
        asks = bool(scope["query_string"]) and headers.get("sec-fetch-user") != "?1"
        return not opens_page or asks

    def _may_ask(self, origins: list[str], scheme: str, host: str) -> bool:
        own = f"{scheme}://{host}".lower()
        return all(origin.lower() == own or origin in self._origins for origin in origins)
