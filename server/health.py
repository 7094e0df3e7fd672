"""Whether the server lives and is ready, and its metrics."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from kb.errors import KbError
from server.metrics import CONTENT_TYPE
from server.models import Health
from server.problems import error_responses
from server.state import state_of

router = APIRouter(responses=error_responses())


@router.get("/healthz", operation_id="getHealth", response_model=Health, summary="Alive")
async def healthz() -> Health:
    """Answers as long as the process runs."""
    return Health(status="alive")


@router.get(
    "/readyz",
    operation_id="getReadiness",
    response_model=Health,
    summary="Ready: index open and model loaded",
)
async def readyz(request: Request) -> Health:
    """503 until searches can be answered. Names the generation in use, and any problem."""
    service = state_of(request).service
    searcher = await state_of(request).pool.run(service.warm)
    return Health(
        status="ready",
        generation=searcher.generation.manifest.generation,
        problem=service.searchers.problem or searcher.nearest.problem,
    )


@router.get(
    "/metrics",
    operation_id="getMetrics",
    response_class=Response,
    responses={
        200: {"description": "OK", "content": {"text/plain": {"schema": {"type": "string"}}}}
    },
    summary="Prometheus metrics of all workers",
)
async def metrics(request: Request) -> Response:
    """Requests, times, searches, and the open generation."""
    state = state_of(request)

    def work() -> bytes:
        try:
            manifest = state.service.searchers.get().generation.manifest
        except KbError:
            return state.metrics.render(None, 0)
        return state.metrics.render(manifest.generation, manifest.chunks)

    return Response(await state.pool.run(work), media_type=CONTENT_TYPE)
