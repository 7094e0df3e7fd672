"""The shapes of a search: filters, results and response, as the HTTP API publishes them."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from kb.profiles.values import MetricValue
from kb.records import Chunk, Kind, Source
from kb.search.gates import GateStanding

MAX_K = 100
MAX_QUERY_CHARS = 20_000


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Filters(_Model):
    """Conditions on results: ORed within a field, ANDed between fields; empty means any."""

    techniques: list[str] = []
    """Slugs, as `/v1/techniques` lists them."""
    bottlenecks: list[str] = []
    """`memory`, `latency` or `utilization`."""
    languages: list[str] = []
    """`triton`, `cuda`, `python`, `cpp` or `markdown`."""
    architectures: list[str] = []
    """Targets such as `sm_90a`: results that run on any of them are kept."""
    sources: list[str] = []
    """Names, as `/v1/sources` lists them."""
    kinds: list[Kind] = []
    """What a result is: a technique, a kernel of the corpus, ingested code, a document, a note."""


class SearchRequest(_Model):
    """The body of `POST /v1/search`."""

    query: Annotated[str, Field(max_length=MAX_QUERY_CHARS)]
    """What the kernel does, what is slow, a name, an error message, or a metric with its value."""
    k: Annotated[int, Field(ge=1, le=MAX_K)] = 10
    """Maximum number of results."""
    filters: Filters = Filters()
    """Conditions that results must meet."""
    explain: bool = False
    """Whether each result includes the parts of its score."""


class ResultSource(_Model):
    """How a result is cited."""

    name: str
    version: str | None
    licence: str | None
    url: str | None


class Result(_Model):
    """One chunk that answers the query."""

    id: str
    score: float
    """In [0, 1], comparable within one response."""
    kind: Kind
    title: str
    path: str
    start_line: int
    end_line: int
    symbol: str | None
    language: str
    techniques: list[str]
    bottlenecks: list[str]
    architectures: list[str]
    source: ResultSource
    text: str
    gates: list[GateStanding] = []
    """The techniques' gates (conditions on metrics) that the query's numbers decide."""
    explanation: dict[str, Any] | None = Field(default=None, exclude_if=lambda value: value is None)
    """With `explain`: every part of the score."""


class IndexInfo(_Model):
    """Which index answered."""

    generation: str
    chunks: int
    embedder: str


class SearchResponse(_Model):
    """The answer of `POST /v1/search`."""

    query: str
    results: list[Result]
    """Best first."""
    abstained: bool
    """Whether nothing in the index is relevant; then there are no results."""
    metrics: list[MetricValue] = []
    """The metrics recognized in the query."""
    notes: list[str] = []
    """Notes to read before the results, such as what a counter means."""
    took_ms: float
    """Time of the search in milliseconds."""
    index: IndexInfo


_OF_CHUNK = Result.model_fields.keys() & {field.name for field in fields(Chunk)} - {"source"}


def to_result(
    chunk: Chunk,
    source: Source,
    score: float,
    gates: Sequence[GateStanding] = (),
    explanation: dict[str, Any] | None = None,
) -> Result:
    """A chunk as a result."""
    return Result(
        **{name: getattr(chunk, name) for name in _OF_CHUNK},
        score=score,
        source=ResultSource.model_validate(source.citation()),
        gates=list(gates),
        explanation=explanation,
    )
