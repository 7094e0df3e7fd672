"""Problem documents (RFC 9457): the one shape of every error that the server answers with."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from kb.errors import KbError

MEDIA_TYPE = "application/problem+json"
# A client that sent thousands of wrong fields learns enough from the first ones.
_MAX_ERRORS = 20
ADMIN_NEEDED = "an admin token is needed: `kb token create --scope admin` creates one"
# Seconds after which trying again makes sense when the server was too busy.
RETRY_SECONDS = 1


class FieldProblem(BaseModel):
    """One wrong part of a request."""

    where: str
    """Path of the part, such as `body.filters.kinds.0`."""
    message: str


class Problem(BaseModel):
    """An error. `status` repeats the HTTP status; `detail` says what is wrong and what to do."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[FieldProblem] | None = Field(
        default=None, exclude_if=lambda value: value is None, description="Each invalid part."
    )


class OverloadedError(KbError):
    """More requests wait than the server takes, or one took too long."""

    status = 503


class ForbiddenError(KbError):
    """The token does not have the scope that this needs."""

    status = 403


def problem_response(
    status: int,
    detail: str,
    *,
    errors: list[FieldProblem] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A problem document as a response."""
    problem = Problem(
        title=HTTPStatus(status).phrase, status=status, detail=clean(detail), errors=errors
    )
    extra = dict(headers or {})
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        extra.setdefault("Retry-After", str(RETRY_SECONDS))
    body = json.dumps(problem.model_dump(mode="json"), ensure_ascii=True)
    return Response(body, status, extra, MEDIA_TYPE)


def clean(text: str) -> str:
    """Text that can be encoded: what a client sent may hold half a surrogate pair."""
    return text.encode("utf-8", "replace").decode("utf-8")


def error_responses() -> dict[int | str, dict[str, Any]]:
    """The errors among the `responses` of a route: any of them may meet any request."""
    always = (400, 401, 403, 404, 405, 408, 413, 421, 422, 429, 503)
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in always
    }


def install(app: FastAPI) -> None:
    """Answer every error of the application with a problem document."""

    @app.exception_handler(KbError)
    async def _known(_request: Request, error: KbError) -> Response:
        return problem_response(error.status, str(error))

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> Response:
        return _validation_problem(error, request.headers.get("content-type", ""))

    @app.exception_handler(HTTPException)
    async def _http(_request: Request, error: HTTPException) -> Response:
        return problem_response(error.status_code, _http_detail(error), headers=error.headers)


def _validation_problem(error: RequestValidationError, content_type: str) -> Response:
    problems = error.errors()
    if problems[0]["loc"] == ("body",) and isinstance(problems[0]["input"], bytes):
        # What is not declared as JSON is not read as JSON; curl -d declares it as a form.
        message = f"the body is {content_type or 'untyped'}: send Content-Type: application/json"
        return problem_response(422, message)
    if any(problem["type"] == "json_invalid" for problem in problems):
        return problem_response(400, "the body is not JSON: send one JSON object")
    errors = [
        FieldProblem(
            where=clean(".".join(str(part) for part in problem["loc"])),
            message=clean(problem["msg"].removeprefix("Value error, ")),
        )
        for problem in problems[:_MAX_ERRORS]
    ]
    first = f"{errors[0].where}: {errors[0].message}" if errors else "the request is not valid"
    return problem_response(422, first, errors=errors)


def _http_detail(error: HTTPException) -> str:
    if error.status_code == HTTPStatus.NOT_FOUND and error.detail == "Not Found":
        return "there is nothing at this address: /openapi.json lists all addresses"
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow") or (error.headers or {}).get("allow")
        return f"this address accepts only {allowed}" if allowed else "method not allowed"
    return str(error.detail)
