"""Who asks, and how often: the token of a request, checked before its body is read."""

import base64
import binascii
import ipaddress
import math

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from kb.errors import KbError
from server.problems import ADMIN_NEEDED, ForbiddenError, problem_response
from server.ratelimit import RateLimiter
from server.settings import Settings
from server.tokens import TokenFile, TokenRecord

# Say only whether the server lives: probes have no token.
_OPEN_PATHS = frozenset({"/healthz", "/readyz"})
# One IPv6 customer holds at least a /64.
_IPV6_PREFIX = 64


class Admit:
    """Puts the token's record into `scope["principal"]`; answers 401 without, 429 to too many.

    Tokens are needed as soon as a token file exists, and always where other machines can connect.
    Without them, on loopback, any Authorization header is accepted and means nothing. Whoever has
    no valid token counts against the limit of the address, so tokens cannot be guessed faster.
    """

    def __init__(
        self, app: ASGIApp, settings: Settings, tokens: TokenFile, limiter: RateLimiter
    ) -> None:
        self._app = app
        self._always = not settings.is_loopback
        self._tokens = tokens
        self._limiter = limiter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Note who asks and count the request, then pass it on."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        try:
            is_required = self._always or self._tokens.exists()
            token = _token_of(headers.get("authorization", ""))
            record = self._tokens.find(token) if is_required and token else None
        except KbError as error:
            return problem_response(error.status, str(error))
        scope["principal"] = record
        if scope["path"] in _OPEN_PATHS:
            return None
        if (wait := self._limiter.wait(_client_key(scope))) > 0:
            seconds = str(math.ceil(wait))
            return problem_response(
                429,
                f"too many requests: try again in {seconds} s",
                headers={"Retry-After": seconds},
            )
        if is_required and record is None:
            return problem_response(
                401,
                "a valid token is needed: send `Authorization: Bearer <token>`; "
                "`kb token create --scope read` creates one",
                headers={"WWW-Authenticate": _challenge(headers)},
            )
        return None


def is_admin(scope: Scope) -> bool:
    """Whether a request came with an admin token; one that needs no token is no admin's."""
    record: TokenRecord | None = scope.get("principal")
    return record is not None and record.is_admin


def require_admin(request: Request) -> None:
    """A dependency of routes that only admins may use.

    Raises
    ------
    ForbiddenError
        The request came without an admin token.
    """
    if not is_admin(request.scope):
        raise ForbiddenError(ADMIN_NEEDED)


def _client_key(scope: Scope) -> str:
    record: TokenRecord | None = scope["principal"]
    if record is not None:
        return f"token:{record.id}"
    client = scope.get("client")
    host = client[0] if client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"host:{host}"
    if address.version == 6:
        return f"net:{ipaddress.ip_network((address, _IPV6_PREFIX), strict=False)}"
    return f"host:{host}"


def _challenge(headers: Headers) -> str:
    # A browser asks for a password on "Basic"; the token is that password.
    wants_page = "text/html" in headers.get("accept", "")
    return 'Basic realm="kernel-kb", charset="UTF-8"' if wants_page else 'Bearer realm="kernel-kb"'


def _token_of(header: str) -> str:
    scheme, _, value = header.partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer":
        return value
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError, ValueError):
            return ""
    return ""
