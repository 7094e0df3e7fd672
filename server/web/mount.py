"""Put the pages, their static files and their error page into the application."""

from pathlib import Path

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from server.problems import problem_response
from server.web.pages import router
from server.web.rendering import error_page

STATIC = Path(__file__).parent / "static"
# Below these addresses programs ask, whatever they say they accept.
_FOR_PROGRAMS = ("/v1/", "/mcp")


def install_pages(app: FastAPI) -> None:
    """Add the pages. Errors outside of them stay problem documents but for browsers."""
    app.include_router(router, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    answer_with_problem = app.exception_handlers[HTTPException]

    @app.exception_handler(HTTPException)
    async def _page_or_problem(request: Request, error: HTTPException) -> Response:
        if _wants_page(request):
            return error_page(error.status_code, headers=error.headers)
        answer = answer_with_problem(request, error)
        answer = answer if isinstance(answer, Response) else await answer
        return answer or problem_response(error.status_code, str(error.detail))


def _wants_page(request: Request) -> bool:
    accepts = "text/html" in request.headers.get("accept", "")
    return accepts and not request.url.path.startswith(_FOR_PROGRAMS)
