"""The pages: addresses in, HTML out. Errors are pages too, with the status that the API gives."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from kb.context.models import ContextResponse
from kb.errors import InvalidInputError, KbError, NotFoundError
from kb.gpus import gpu_names
from kb.index.reader import Generation
from kb.search.engine import Searcher
from kb.vocabulary import all_metrics
from server.state import Host, state_of
from server.web import views
from server.web.choices import filter_fields
from server.web.forms import DEFAULT_EXAMPLES, DEFAULT_K, ContextForm, SearchForm, Values
from server.web.reference import reference
from server.web.rendering import error_page, page
from server.web.roofs import roofline_of


class PageRoute(APIRoute):
    """A route whose errors are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with its errors caught."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except KbError as error:
                return error_page(error.status, str(error))
            except HTTPException as error:
                return error_page(error.status_code, str(error.detail), error.headers)

        return handle


router = APIRouter(route_class=PageRoute, default_response_class=HTMLResponse)


def _page(path: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return router.api_route(path, methods=["GET", "HEAD"])


async def _show(
    request: Request, template: str, work: Callable[[Generation], dict[str, Any]]
) -> Response:
    """Read one generation and render it, in the pool."""
    state = state_of(request)

    def answer() -> Response:
        values = state.service.with_searcher(lambda searcher: work(searcher.generation))
        return page(template, **values)

    return await state.pool.run(answer)


@_page("/")
async def tree(request: Request) -> Response:
    """The hierarchy."""
    return await _show(request, "tree.html", views.tree_page)


@_page("/technique/{slug}")
async def technique(request: Request, slug: str) -> Response:
    """A technique."""
    return await _show(request, "technique.html", lambda g: views.technique_page(g, slug))


@_page("/kernel/{slug}")
async def kernel(request: Request, slug: str) -> Response:
    """A kernel."""
    return await _show(request, "kernel.html", lambda g: views.kernel_page(g, slug))


@_page("/chunk/{chunk_id}")
async def chunk(request: Request, chunk_id: str) -> Response:
    """A chunk."""
    return await _show(request, "chunk.html", lambda g: views.chunk_page(g, chunk_id))


@_page("/sources")
async def sources(request: Request) -> Response:
    """The sources and the state of the index."""
    return await _show(request, "sources.html", views.sources_page)


@_page("/docs")
async def docs(request: Request) -> Response:
    """The HTTP API, from its OpenAPI document."""
    root = str(request.base_url).rstrip("/")

    def answer() -> Response:
        return page("reference.html", api=reference(request.app.openapi()), root=root)

    return await state_of(request).pool.run(answer)


@_page("/search")
async def search(request: Request) -> Response:
    """The search form, with results once there is a query."""
    state = state_of(request)
    form = SearchForm.of(request.query_params)

    def answer() -> Response:
        result = state.service.with_searcher(lambda searcher: _search(state, searcher, form))
        status = InvalidInputError.status if result.error else 200
        if result.response is not None:
            state.count("web", result.response)
        return page("search.html", status, form=form, shown=result, default_k=DEFAULT_K)

    return await state.pool.run(answer)


def _search(state: Host, searcher: Searcher, form: SearchForm) -> views.SearchPage:
    """Form and results from one generation; what is wrong with the form is part of the page."""
    error = None
    try:
        if form.query.strip():
            request = form.request()
            state.service.check_query(request.query)
            state.service.check_k(request.k, "k")
            response = searcher.search(request.query, request.k, request.filters, explain=True)
            return views.search_page(searcher, form, response)
    except InvalidInputError as problem:
        error = str(problem)
    return views.SearchPage(filter_fields(searcher.generation, form.chosen), None, [], error)


@_page("/context")
async def context(request: Request) -> Response:
    """The context form, with what an agent would get once something is asked."""
    return await _context(request, request.query_params)


@router.post("/context")
async def posted_context(request: Request) -> Response:
    """The same for a form that is too long for an address, as one with a kernel may be."""
    async with request.form(max_files=0) as values:
        return await _context(request, values)


async def _context(request: Request, values: Values) -> Response:
    state = state_of(request)
    form = ContextForm.of(values)

    def answer() -> Response:
        error, response = None, None
        try:
            if not form.is_blank:
                response = state.count("web", state.service.context(form.request()))
        except InvalidInputError as problem:
            error = str(problem)
        status = InvalidInputError.status if error else 200
        return page("context.html", status, **_context_values(state, form, response), error=error)

    return await state.pool.run(answer)


def _context_values(
    state: Host, form: ContextForm, response: ContextResponse | None
) -> dict[str, Any]:
    in_characters = form.unit == "characters"
    budget = used = 0
    titles: dict[str, str] = {}
    roofline, profile = None, None
    if response is not None:
        request, profile = form.request(), form.measured()
        budget = (request.max_chars if in_characters else request.max_tokens) or 0
        used = len(response.text) if in_characters else response.tokens
        titles = {example: _title(state, example) for example in response.examples}
        roofline = roofline_of(request)
    return {
        "form": form,
        "found": response,
        "budget": budget,
        "used": used,
        "unit": "characters" if in_characters else "tokens",
        "titles": titles,
        "roofline": roofline,
        "read": profile,
        "default_examples": DEFAULT_EXAMPLES,
        "gpus": sorted(gpu_names()),
        "metrics": all_metrics(),
    }


def _title(state: Host, chunk_id: str) -> str:
    """The title of a chunk; ids name contents, so it does not matter which generation has it."""
    try:
        return state.service.chunk(chunk_id).title
    except NotFoundError:
        return chunk_id
