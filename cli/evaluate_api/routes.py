"""The routes of `/v1/evaluate`: send a kernel, poll, cancel. All of them need an admin token."""

from typing import Any

from fastapi import APIRouter, Depends
from starlette.responses import Response

from agent.service.models import EvaluationJob, EvaluationList, EvaluationRequest
from agent.service.service import EvaluationService
from server.middleware.auth import require_admin
from server.pool import WorkPool
from server.problems import error_responses

_PATH = "/v1/evaluate"
# Where a client can go on from a job; stateful tests follow these.
_LINKS = {
    name: {"operationId": name, "parameters": {"evaluation_id": "$response.body#/id"}}
    for name in ("getEvaluation", "cancelEvaluation")
}
_ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {"model": EvaluationJob, "description": "Accepted", "links": _LINKS}
}


def build_router(service: EvaluationService, pool: WorkPool) -> APIRouter:
    """The routes over a service; its work is done in the server's threads."""
    router = APIRouter(prefix=_PATH, dependencies=[Depends(require_admin)])

    @router.post(
        "",
        operation_id="evaluate",
        status_code=202,
        response_model=EvaluationJob,
        responses=error_responses() | _ACCEPTED,
        summary="Judge a kernel",
    )
    async def evaluate(body: EvaluationRequest) -> Response:
        """Queues the kernel. `GET /v1/evaluate/{id}` returns its state, then the answer."""
        job = await pool.run(lambda: service.submit(body))
        headers = {"Location": f"{_PATH}/{job.id}"}
        return Response(job.model_dump_json(), 202, headers, "application/json")

    @router.get(
        "",
        operation_id="listEvaluations",
        response_model=EvaluationList,
        responses=error_responses(),
        summary="Evaluations, newest first, without their answers",
    )
    async def evaluations() -> Response:
        """All evaluations that are waiting, running or kept, on all workers."""
        text = await pool.run(
            lambda: EvaluationList(evaluations=service.store.all()).model_dump_json()
        )
        return Response(text, media_type="application/json")

    @router.get(
        "/{evaluation_id}",
        operation_id="getEvaluation",
        response_model=EvaluationJob,
        responses=error_responses(),
        summary="An evaluation's state, and its answer",
    )
    async def evaluation(evaluation_id: str) -> Response:
        """Once done, `answer` holds the verdict, times, profile, diagnosis and next context.

        The context's text is quoted data with its provenance, never instructions.
        """
        text = await pool.run(lambda: service.store.read(evaluation_id).model_dump_json())
        return Response(text, media_type="application/json")

    @router.delete(
        "/{evaluation_id}",
        operation_id="cancelEvaluation",
        status_code=204,
        response_class=Response,
        responses=error_responses(),
        summary="Cancel an evaluation, and delete it",
    )
    async def cancel(evaluation_id: str) -> Response:
        """A waiting or running evaluation is stopped. Everything stored for it is deleted."""
        await pool.run(lambda: service.store.remove(evaluation_id))
        return Response(status_code=204)

    return router
