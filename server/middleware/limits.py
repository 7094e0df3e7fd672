"""How much a client may send, and for how long."""

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.problems import problem_response
from server.settings import Settings

_UPLOAD_PATH = "/v1/ingest"


class LimitBody:
    """Reads the body within its size and time, then hands it on whole; else 413 or 408.

    A body that comes slowly so holds one connection and nothing else. Uploads are handed on as
    they come, within limits of their own.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, then pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        settings = self._settings
        uploads = settings.allow_ingest and scope["path"] == _UPLOAD_PATH
        largest = settings.max_upload_bytes if uploads else settings.max_body_bytes
        declared = Headers(scope=scope).get("content-length", "0")
        if not declared.isascii() or not declared.isdigit() or int(declared[:20]) > largest:
            await _too_large(largest)(scope, receive, send)
        elif uploads:
            await self._stream(scope, receive, send, largest)
        else:
            await self._whole(scope, receive, send, largest)

    async def _whole(self, scope: Scope, receive: Receive, send: Send, largest: int) -> None:
        body = bytearray()
        try:
            async with asyncio.timeout(self._settings.body_timeout):
                more = True
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        return  # the client has gone
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > largest:
                        await _too_large(largest)(scope, receive, send)
                        return
        except TimeoutError:
            slow = problem_response(
                408,
                f"the body did not arrive in {self._settings.body_timeout:g} s",
                headers={"Connection": "close"},
            )
            await slow(scope, receive, send)
            return
        pending: Message | None = {"type": "http.request", "body": bytes(body), "more_body": False}

        async def replay() -> Message:
            nonlocal pending
            if pending is not None:
                message, pending = pending, None
                return message
            return await receive()

        await self._app(scope, replay, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send, largest: int) -> None:
        deadline = asyncio.get_running_loop().time() + self._settings.upload_timeout
        received = 0

        async def limited_receive() -> Message:
            nonlocal received
            async with asyncio.timeout_at(deadline):
                message = await receive()
            received += len(message.get("body", b""))
            if received > largest:
                raise _UploadTooLargeError
            return message

        started = False

        async def tracked_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, limited_receive, tracked_send)
        except _UploadTooLargeError:
            if not started:
                await _too_large(largest)(scope, receive, send)
        except TimeoutError:
            if not started:
                limit = self._settings.upload_timeout
                slow = problem_response(408, f"the upload did not arrive in {limit:g} s")
                await slow(scope, receive, send)


class _UploadTooLargeError(Exception):
    pass


def _too_large(largest: int) -> ASGIApp:
    return problem_response(
        413, f"the body is too large: at most {largest} bytes", headers={"Connection": "close"}
    )
