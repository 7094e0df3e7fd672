"""The shapes of a context request and its answer, as the HTTP API publishes them."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from kb.dtypes import Dtype, full_dtype
from kb.problems.reading import MAX_PROBLEM_CHARS, is_problem
from kb.search.models import MAX_QUERY_CHARS

MIN_TOKENS = 64
MIN_CHARS = 256
DEFAULT_TOKENS = 2000
MAX_BUDGET = 200_000
MAX_KERNEL_CHARS = 200_000
# Nsight Compute has a few thousand metrics; their names are far shorter.
MAX_METRICS = 10_000
_MAX_NAME_CHARS = 500


def _encodable(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ValueError("a metric's name is not valid Unicode") from error
    return name


MetricName = Annotated[str, Field(max_length=_MAX_NAME_CHARS), AfterValidator(_encodable)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ContextRequest(_Model):
    """The body of `POST /v1/context`. Give at least one of problem, query, kernel and profile."""

    problem: Annotated[str, Field(max_length=MAX_PROBLEM_CHARS)] | None = None
    """Source code of a PyTorch module. It is read, never run."""
    query: Annotated[str, Field(max_length=MAX_QUERY_CHARS)] | None = None
    """A question, as for `/v1/search`."""
    kernel: Annotated[str, Field(max_length=MAX_KERNEL_CHARS)] | None = None
    """Source code of a kernel to improve. A PyTorch module is taken as the problem."""
    profile: Annotated[dict[MetricName, float], Field(max_length=MAX_METRICS)] | None = None
    """Nsight Compute metric (or an alias) → value."""
    gpu: str | None = None
    """A GPU or an architecture: what does not run on it is left out."""
    dtype: Annotated[Dtype | None, BeforeValidator(full_dtype)] = None
    """Dtype of the problem's inputs and parameters where its source says float32; short names such
    as `bf16` also work."""
    language: Literal["triton", "cuda"] | None = None
    """Examples in this language only."""
    max_tokens: Annotated[int, Field(ge=MIN_TOKENS, le=MAX_BUDGET)] | None = None
    """Budget in tokens; 2,000 if no budget is given. `tokenizer` in the answer names them."""
    max_chars: Annotated[int, Field(ge=MIN_CHARS, le=MAX_BUDGET)] | None = None
    """Budget in characters instead of tokens."""
    max_examples: Annotated[int, Field(ge=0, le=20)] = 2
    """Maximum number of examples."""
    exclude: Annotated[list[str], Field(max_length=10_000)] = []
    """Ids of chunks, and slugs of techniques and kernels, that you already have."""

    @model_validator(mode="after")
    def _something_is_asked(self) -> Self:
        texts = (self.problem, self.query, self.kernel)
        if not any((text or "").strip() for text in texts) and not self.profile:
            raise ValueError("give a problem, a query, a kernel or a profile")
        if self.max_tokens is not None and self.max_chars is not None:
            raise ValueError("give max_tokens or max_chars, not both")
        return self

    @property
    def module(self) -> str | None:
        """The PyTorch module in the request: `problem`, or a `kernel` that is one."""
        if self.problem is not None and self.problem.strip():
            return self.problem
        if self.kernel is not None and is_problem(self.kernel):
            return self.kernel
        return None


class ContextTechnique(_Model):
    """A technique that the context is about, and why."""

    slug: str
    score: float
    reason: str


class Citation(_Model):
    """A source of what the context says."""

    title: str
    url: str | None
    licence: str | None


class ContextResponse(_Model):
    """The answer of `POST /v1/context`."""

    text: str
    """The context itself, as a model should read it."""
    tokens: int
    """Tokens of the text, counted with `tokenizer`."""
    techniques: list[ContextTechnique]
    examples: list[str]
    """Id of each example's first chunk."""
    examples_available: int
    """How many examples would have been shown without a budget."""
    citations: list[Citation]
    ignored: list[str]
    """Profile keys that name no known metric."""
    tokenizer: str
    abstained: bool
    """Whether nothing in the index is relevant."""
