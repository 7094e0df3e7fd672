"""The MCP tools of evaluations: send a kernel and follow it, come back to it, cancel it."""

import time
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, TypeVar

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, ToolAnnotations
from pydantic import BaseModel, Field, ValidationError

from agent.service.models import EvaluationJob, EvaluationRequest
from agent.service.render import render
from agent.service.service import EvaluationService
from judge.evaluate.options import CALL_SECONDS
from judge.problem.forms import ModelForm
from kb.errors import KbError
from kb.refusals import refusal
from server.mcp.results import NOTICE, tool_result
from server.mounting import Permit
from server.pool import WorkPool

_T = TypeVar("_T")
# Many clients give a call a minute; what is not done by then can be asked for again.
_WAIT_S: Final = 50.0
_MOST_WAIT_S: Final = 3600.0
_POLL_S: Final = 0.25
_RUNS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
_READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_ENDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

Wait = Annotated[
    float,
    Field(
        ge=0,
        le=_MOST_WAIT_S,
        description="Seconds to wait for the answer. After that, the current state is returned; "
        "call get_evaluation to wait again.",
    ),
]
JobId = Annotated[str, Field(description="The id that evaluate_kernel returned.")]


class EvaluationToolResult(EvaluationJob):
    """What `GET /v1/evaluate/{id}` answers, labelled as quoted data."""

    notice: str = NOTICE


class CancelToolResult(BaseModel):
    """That an evaluation is gone."""

    id: str
    cancelled: bool
    notice: str = NOTICE


def add_tools(
    server: MCPServer[Any], service: EvaluationService, pool: WorkPool, permit: Permit
) -> None:
    """Add the tools to a server."""

    async def ask(work: Callable[[], _T]) -> _T:
        try:
            return await pool.run(work)
        except KbError as error:
            raise ToolError(str(error)) from error

    async def follow(context: Context[Any, Any], job_id: str, seconds: float) -> CallToolResult:
        """Report progress until the evaluation is over or the time is up."""
        until = time.monotonic() + seconds
        reported: object = None
        progress = 0
        while True:
            job = await ask(lambda: service.store.read(job_id))
            if job.is_over or time.monotonic() >= until:
                return _result(job)
            if reported != (job.steps, job.ahead):
                reported = (job.steps, job.ahead)
                progress += 1  # how much is left nobody knows; it only has to grow
                await context.report_progress(progress, None, render(job))
            await anyio.sleep(_POLL_S)

    @server.tool(title="Judge a kernel", annotations=_RUNS)
    async def evaluate_kernel(  # noqa: PLR0917 - the SDK makes the schema of these parameters
        problem: Annotated[
            str, Field(description="Problem file: class Model, get_inputs, get_init_inputs.")
        ],
        kernel: Annotated[
            str, Field(description="Kernel file: class ModelNew or def kernel_function(...).")
        ],
        ctx: Context[Any, Any],
        kernel_language: Annotated[
            Literal["python", "cuda"], Field(description="cuda for the text of a .cu file.")
        ] = "python",
        name: Annotated[
            str | None, Field(description="Operator, such as rms_norm; improves the context.")
        ] = None,
        dtype: Annotated[
            Literal["float32", "float16", "bfloat16", "float64"] | None,
            Field(description="Convert floating-point inputs and parameters to it."),
        ] = None,
        tf32: Annotated[bool, Field(description="Allow TF32 for all contenders.")] = False,
        interpret: Annotated[
            bool, Field(description="Check a Triton kernel's results without a GPU; no times.")
        ] = False,
        baselines: Annotated[
            list[ModelForm] | None,
            Field(description="Timed with the kernel; default: eager and compile."),
        ] = None,
        quick: Annotated[bool, Field(description="Time fewer launches: enough to rank.")] = False,
        call_seconds: Annotated[
            float, Field(description="Time limit of one call, including compilation.")
        ] = CALL_SECONDS,
        profile: Annotated[bool, Field(description="Profile the kernel if it is correct.")] = True,
        query: Annotated[
            str | None, Field(description="Query of the context; default: the diagnosis.")
        ] = None,
        gpu: Annotated[
            str | None, Field(description="Target GPU of the context; default: the judge's.")
        ] = None,
        max_tokens: Annotated[
            int | None, Field(description="Budget of the context; default: 2000; 0: no context.")
        ] = None,
        max_examples: Annotated[int, Field(description="Maximum number of examples.")] = 2,
        exclude: Annotated[
            list[str] | None, Field(description="Ids and slugs that you already have.")
        ] = None,
        previous: Annotated[
            str | None, Field(description="Id of your previous evaluation, to avoid repeats.")
        ] = None,
        wait_seconds: Wait = _WAIT_S,
    ) -> Annotated[CallToolResult, EvaluationToolResult]:
        """Judge a GPU kernel: is it correct, how fast is it, what limits it, what to try next.

        The kernel is checked against the problem's float64 oracle and timed against eager and
        compiled PyTorch in a sandbox, then profiled and diagnosed. The answer ends with a context
        for that diagnosis. One evaluation runs at a time. If it is not done after wait_seconds, it
        continues: call get_evaluation with its id. It also continues if this call is cancelled.
        """
        permit(ctx)
        options = {"query": query, "gpu": gpu, "max_tokens": max_tokens}
        context = None if max_tokens == 0 else {**options, "max_examples": max_examples}
        fields = EvaluationRequest.model_fields
        request = _valid(
            problem=problem,
            kernel=kernel,
            kernel_language=kernel_language,
            name=name,
            dtype=dtype,
            tf32=tf32,
            interpret=interpret,
            baselines=fields["baselines"].default if baselines is None else baselines,
            quick=quick,
            call_seconds=call_seconds,
            profile=profile,
            context=context,
            exclude=exclude or [],
            previous=previous,
        )
        job = await ask(lambda: service.submit(request))
        return await follow(ctx, job.id, wait_seconds)

    @server.tool(title="Get an evaluation", annotations=_READS)
    async def get_evaluation(
        job_id: JobId, ctx: Context[Any, Any], wait_seconds: Wait = _WAIT_S
    ) -> Annotated[CallToolResult, EvaluationToolResult]:
        """Get the answer of an evaluation that was not done when evaluate_kernel returned.

        Waits for the answer and reports progress meanwhile.
        """
        permit(ctx)
        return await follow(ctx, job_id, wait_seconds)

    @server.tool(title="Cancel an evaluation", annotations=_ENDS)
    async def cancel_evaluation(
        job_id: JobId, ctx: Context[Any, Any]
    ) -> Annotated[CallToolResult, CancelToolResult]:
        """Stop an evaluation if it is waiting or running, and delete its stored data."""
        permit(ctx)
        await ask(lambda: service.store.remove(job_id))
        result = CancelToolResult(id=job_id, cancelled=True)
        return tool_result(result, f"Evaluation {job_id} is cancelled.")


def _result(job: EvaluationJob) -> CallToolResult:
    return tool_result(EvaluationToolResult(**dict(job)), render(job))


def _valid(**values: Any) -> EvaluationRequest:
    try:
        return EvaluationRequest(**values)
    except ValidationError as error:
        raise ToolError(refusal(error)) from error
