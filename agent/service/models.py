"""The shapes of what is sent to be judged, and of the answer."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agent.diagnose.result import Diagnosis
from judge.evaluate.options import CALL_SECONDS
from judge.evaluate.result import Evaluation, Verdict
from judge.problem.forms import MODEL_FORMS, ModelForm
from judge.profile.result import Profile
from kb.context.models import (
    DEFAULT_TOKENS,
    MAX_BUDGET,
    MAX_KERNEL_CHARS,
    MIN_CHARS,
    MIN_TOKENS,
    ContextResponse,
)
from kb.docstrings import describe_fields
from kb.search.models import MAX_QUERY_CHARS

MAX_EXCLUDED = 10_000
ChunkName = Annotated[str, Field(max_length=200)]
"""An id of a chunk, or a slug of a technique or kernel."""
JOB_ID = r"^[0-9a-f]{16}$"


class Model(BaseModel):
    """Base of all shapes: frozen, no unknown keys, no infinities in what is sent."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=describe_fields)


class ContextWanted(Model):
    """Which knowledge to answer with."""

    model_config = ConfigDict(allow_inf_nan=False)

    query: Annotated[str, Field(max_length=MAX_QUERY_CHARS)] | None = None
    """The query; by default the operator's name and the findings of the diagnosis, or the kernel's
    text if neither is known."""
    gpu: Annotated[str, Field(max_length=64)] | None = None
    """A GPU's name or an architecture; by default the GPU that judged."""
    max_tokens: Annotated[int, Field(ge=MIN_TOKENS, le=MAX_BUDGET)] | None = None
    """Budget of the text in tokens; 2000 by default."""
    max_chars: Annotated[int, Field(ge=MIN_CHARS, le=MAX_BUDGET)] | None = None
    """Budget in characters instead."""
    max_examples: Annotated[int, Field(ge=0, le=20)] = 2
    """Maximum number of examples."""

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        if self.max_tokens is not None and self.max_chars is not None:
            raise ValueError("give max_tokens or max_chars, not both")
        return self

    @property
    def tokens(self) -> int | None:
        """The budget in tokens; None where it is in characters."""
        return None if self.max_chars is not None else self.max_tokens or DEFAULT_TOKENS


class EvaluationRequest(Model):
    """A candidate and how to judge it: the body of `POST /v1/evaluate`."""

    model_config = ConfigDict(allow_inf_nan=False)

    problem: Annotated[str, Field(min_length=1, max_length=MAX_KERNEL_CHARS)]
    """Text of a problem file: `Model`, `get_inputs` and `get_init_inputs`, as KernelBench's."""
    kernel: Annotated[str, Field(min_length=1, max_length=MAX_KERNEL_CHARS)]
    """Text of the kernel file: `ModelNew` or `kernel_function`; CUDA with its declared entry."""
    kernel_language: Literal["python", "cuda"] = "python"
    """`python` for Triton (and CUDA in a Python file), `cuda` for the text of a `.cu` file."""
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")] | None = None
    """The operator's name, such as `rms_norm`; used to search for the context."""
    dtype: Literal["float32", "float16", "bfloat16", "float64"] | None = None
    """Floating-point inputs and parameters are converted to it; as the problem has them if null."""
    tf32: bool = False
    """Allow TF32 in float32 products, to all contenders."""
    interpret: bool = False
    """Check a Triton kernel's results in Triton's interpreter, at reduced sizes: needs no GPU and
    gives no times."""
    baselines: Annotated[list[ModelForm], Field(max_length=len(MODEL_FORMS))] = ["eager", "compile"]
    """Forms of the model to time beside the kernel. Eager always is; the others compile first."""
    quick: bool = False
    """Fewer launches: enough to rank candidates, not to publish."""
    call_seconds: Annotated[float, Field(ge=1, le=CALL_SECONDS)] = CALL_SECONDS
    """The longest that one call of the kernel may take, compilation included."""
    profile: bool = True
    """Profile the kernel if it is right."""
    context: ContextWanted | None = Field(default_factory=ContextWanted)
    """The context to return from the knowledge base; null for none."""
    exclude: Annotated[list[ChunkName], Field(max_length=MAX_EXCLUDED)] = []
    """Ids and slugs that the context omits because the reader has them."""
    previous: Annotated[str, Field(pattern=JOB_ID)] | None = None
    """Id of the evaluation that this one follows: its context is not returned again."""

    @model_validator(mode="after")
    def _can_be_judged(self) -> Self:
        for name, text in (("problem", self.problem), ("kernel", self.kernel)):
            if not text.strip():
                raise ValueError(f"the {name} is blank: send the file's text")
        if self.interpret and self.kernel_language == "cuda":
            raise ValueError("CUDA needs a GPU: interpret checks Triton kernels only")
        return self


class JobState(StrEnum):
    """How far an evaluation is."""

    QUEUED = "queued"
    """It waits behind others, or the server has just started."""
    RUNNING = "running"
    DONE = "done"
    """Judged: `answer` has the verdict, whatever it is."""
    FAILED = "failed"
    """It could not be judged; `error` says why."""


class PhaseName(StrEnum):
    """What is done for an evaluation, in this order."""

    JUDGE = "judge"
    """Correctness, then times."""
    PROFILE = "profile"
    """Nsight Compute's metrics and the machine code; only of a kernel that is right."""
    DIAGNOSE = "diagnose"
    """The diagnosis: what limits the kernel."""
    RETRIEVE = "retrieve"
    """The context from the knowledge base."""


class Phase(Model):
    """One phase that has begun."""

    name: PhaseName
    """Its name."""
    started: str
    """UTC, ISO 8601."""
    said: str = ""
    """The last line of its progress."""


class EvaluationAnswer(Model):
    """Everything about one candidate."""

    verdict: Verdict
    """correct, library and specialised are right; wrong, cheat and inconclusive are not."""
    evaluation: Evaluation
    """Reasons, cases, times, ratios, floor: what `kb evaluate --json` prints."""
    profile: Profile | None
    """Null where the kernel is not right, nothing could be profiled, or it was not requested."""
    diagnosis: Diagnosis | None
    """Null where the kernel is not right."""
    context: ContextResponse | None
    """What to try next; null where it was not requested or is not available."""
    shown: list[str]
    """Ids and slugs that this chain of evaluations has returned so far: pass them as `exclude` of
    the next one, unless it names this one as `previous`."""
    notes: list[str]
    """What is missing, and why."""


class EvaluationSummary(Model):
    """An evaluation in a list."""

    id: str
    """Its id, as in URLs."""
    name: str | None
    """As in the request."""
    state: JobState
    """Its state."""
    ahead: int | None = None
    """How many are ahead of it, including the running one; null once it runs."""
    created: str
    """UTC, ISO 8601."""
    started: str | None = None
    """When it last began to run."""
    finished: str | None = None
    """When it ended."""
    verdict: Verdict | None = None
    """Once it is done."""
    error: str | None = None
    """Why it could not be judged."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in (JobState.DONE, JobState.FAILED)


class EvaluationJob(EvaluationSummary):
    """One evaluation."""

    attempts: int = 0
    """How often it was started: more than once if the server was stopped in between."""
    phases: list[Phase] = []
    """Phases that have begun; the last one is in progress while the evaluation runs."""
    steps: int = 0
    """Number of progress lines so far; it only grows while the evaluation runs."""
    answer: EvaluationAnswer | None = None
    """Once it is done."""


class EvaluationList(Model):
    """Evaluations, the newest first, without their answers."""

    evaluations: list[EvaluationSummary]
    """All stored evaluations."""
