"""Who asks: the token of a request, checked before its body is read."""

import base64
import binascii

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from kb.errors import KbError
from server.problems import ADMIN_NEEDED, ForbiddenError, problem_response
from server.settings import Settings
from server.tokens import TokenFile, TokenRecord

# Say only whether the server lives: probes have no token.
OPEN_PATHS = frozenset({"/healthz", "/readyz"})


class Authenticate:
    """Puts the token's record into `scope["principal"]`, or answers 401.

    Tokens are needed as soon as a token file exists, and always where other machines can connect.
    Without them, on loopback, any Authorization header is accepted and means nothing.
    """

    def __init__(self, app: ASGIApp, settings: Settings, tokens: TokenFile) -> None:
        self._app = app
        self._always = not settings.is_loopback
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Note who asks, then pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            needed = self._always or self._tokens.exists()
            token = _given(Headers(scope=scope).get("authorization", ""))
            record = self._tokens.find(token) if needed and token else None
        except KbError as error:
            await problem_response(error.status, str(error))(scope, receive, send)
            return
        scope["principal"] = record
        scope["trusted"] = not needed
        if needed and record is None:
            scope["refused"] = scope["path"] not in OPEN_PATHS
        await self._app(scope, receive, send)


class RequireToken:
    """Answers 401 to what `Authenticate` refused; between them stands the rate limit."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what was not refused."""
        if scope["type"] == "http" and scope.get("refused"):
            refused = problem_response(
                401,
                "a valid token is needed: send `Authorization: Bearer <token>`; "
                "`kb token create --scope read` makes one",
                headers={"WWW-Authenticate": _challenge(Headers(scope=scope))},
            )
            await refused(scope, receive, send)
            return
        await self._app(scope, receive, send)


def principal_of(scope: Scope) -> TokenRecord | None:
    """The token's record, or None where no token is needed."""
    record: TokenRecord | None = scope.get("principal")
    return record


def is_admin(scope: Scope) -> bool:
    """Whether a request came with an admin token; one that needs no token is no admin's."""
    record = principal_of(scope)
    return record is not None and record.allows("admin")


def require_admin(request: Request) -> None:
    """A dependency of routes that only admins may use.

    Raises
    ------
    ForbiddenError
        The request came without an admin token.
    """
    if not is_admin(request.scope):
        raise ForbiddenError(ADMIN_NEEDED)


def _challenge(headers: Headers) -> str:
    # A browser asks for a password on "Basic"; the token is that password.
    wants_page = "text/html" in headers.get("accept", "")
    return 'Basic realm="kernel-kb", charset="UTF-8"' if wants_page else 'Bearer realm="kernel-kb"'


def _given(header: str) -> str:
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
