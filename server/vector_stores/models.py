"""The shapes of OpenAI's `POST /vector_stores/{id}/search`."""

from typing import Annotated, Literal, Union

from pydantic import BaseModel, ConfigDict, Field

from kb.search.models import MAX_QUERY_CHARS

# OpenAI's limits on `max_num_results`, and on attributes of an object.
MAX_RESULTS = 50
DEFAULT_RESULTS = 10
MAX_ATTRIBUTE_CHARS = 512
# Our own: each query of a list costs a search.
MAX_QUERIES = 8
MAX_FILTERS = 64
MAX_FILTER_VALUES = 256

Scalar = str | bool | float
"""What an attribute may be. `bool` stands before `float`, which would else take it."""
Query = Annotated[str, Field(max_length=MAX_QUERY_CHARS)]


class _Request(BaseModel):
    # As OpenAI's clients grow, they send fields that are not known here; those do not matter.
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class ComparisonFilter(_Request):
    """A condition on one attribute."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    key: Annotated[str, Field(max_length=64)]
    value: Scalar | Annotated[list[Scalar], Field(max_length=MAX_FILTER_VALUES)]


class CompoundFilter(_Request):
    """Several conditions, all of which (`and`) or one of which (`or`) must hold."""

    type: Literal["and", "or"]
    filters: Annotated[
        list[Union[ComparisonFilter, "CompoundFilter"]], Field(max_length=MAX_FILTERS)
    ]


class RankingOptions(_Request):
    """How results are ranked. The server always uses its own ranker."""

    ranker: Literal["none", "auto", "default-2024-11-15"] = "auto"
    score_threshold: Annotated[float, Field(ge=0, le=1)] = 0.0


class VectorStoreSearchRequest(_Request):
    """The body of `POST /v1/vector_stores/{id}/search`."""

    query: Query | Annotated[list[Query], Field(min_length=1, max_length=MAX_QUERIES)]
    """One query, or several whose results are merged by score."""
    filters: ComparisonFilter | CompoundFilter | None = None
    max_num_results: Annotated[int, Field(ge=1, le=MAX_RESULTS)] = DEFAULT_RESULTS
    ranking_options: RankingOptions | None = None
    rewrite_query: bool = False
    """Accepted and ignored: queries are never rewritten."""


class _Response(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Content(_Response):
    """A piece of a result's text."""

    type: Literal["text"] = "text"
    text: str


class VectorStoreResult(_Response):
    """One chunk."""

    file_id: str
    """The chunk's id."""
    filename: str
    """The chunk's path in its source."""
    score: float
    attributes: dict[str, str | float | bool]
    content: list[Content]


class VectorStoreResultsPage(_Response):
    """The answer: always a single page."""

    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: list[str]
    data: list[VectorStoreResult]
    has_more: bool = False
    next_page: str | None = None
