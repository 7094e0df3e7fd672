"""The shapes of the answers that are not searches, as the OpenAPI document publishes them."""

from pydantic import BaseModel, ConfigDict, Field

from kb.corpus.entries import Bottleneck, Detect, Dtype, Gate, Language, Sizes, Source, Verified
from kb.records import Kind
from kb.search.models import ResultSource


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TreeExample(_Model):
    """A kernel that shows a technique."""

    slug: str
    title: str
    language: Language


class TreeTechnique(_Model):
    """A technique with its examples."""

    slug: str
    title: str
    examples: list[TreeExample]


class TreeBottleneck(_Model):
    """A bottleneck with the techniques that relieve it."""

    bottleneck: Bottleneck
    techniques: list[TreeTechnique]


class Tree(_Model):
    """The hierarchy bottleneck → technique → example."""

    bottlenecks: list[TreeBottleneck]


class TechniqueSummary(_Model):
    """A technique in a list."""

    slug: str
    title: str
    bottlenecks: list[Bottleneck]
    languages: list[Language]
    architectures: list[str]
    """Oldest targets that support it."""
    effect: str
    measured: bool
    """Whether a speed-up was measured; if not, `effect` is what the sources say."""
    examples: list[str]
    """Kernel slugs, the best one first."""


class TechniqueList(_Model):
    """The answer of `GET /v1/techniques`."""

    techniques: list[TechniqueSummary]


class Evidence(_Model):
    """A note: what one run verified about a technique."""

    id: str
    """Id of the chunk with its text."""
    title: str
    source: str
    """Name of the ingested run."""


class TechniqueDetail(_Model):
    """A technique's entry: its gates, measurements, text, examples, and what runs found."""

    slug: str
    title: str
    architectures: list[str]
    sources: list[Source]
    verified: list[Verified]
    bottlenecks: list[Bottleneck]
    languages: list[Language]
    aliases: list[str]
    when: list[Gate]
    avoid_when: list[Gate]
    effect: str
    risks: list[str]
    detect: Detect
    examples: list[str]
    evidence: list[Evidence]
    body: str
    """Markdown."""
    source: str
    """Name of the ingested source that it came with."""
    path: str


class KernelDetail(_Model):
    """A kernel's entry and code."""

    slug: str
    title: str
    architectures: list[str]
    sources: list[Source]
    verified: list[Verified]
    op: str
    language: Language
    techniques: list[str]
    dtypes: list[Dtype]
    derived_from: str | None
    """The plain version it improves on."""
    sizes: Sizes
    """What it is checked and measured at; `make_inputs` in the code says what the numbers mean."""
    check_params: dict[str, int | float | str | bool]
    expect_sass: dict[str, list[str]]
    interpretable: bool
    code: str
    """The file without its leading comment."""
    source: str
    """Name of the ingested source that it came with."""
    path: str


class SourceDetail(_Model):
    """An ingested source, as it is cited."""

    name: str
    """As `filters.sources` takes it."""
    version: str | None
    licence: str | None
    url: str | None
    quality: float
    """Its weight in the ranking."""
    files: int
    chunks: int


class SourceList(_Model):
    """The answer of `GET /v1/sources`."""

    sources: list[SourceDetail]


class ChunkDetail(_Model):
    """One chunk: a search result without a score."""

    id: str
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


class IndexDetail(_Model):
    """The answer of `GET /v1/index`."""

    generation: str
    chunks: int
    embedder: str
    dimensions: int
    created: str
    """UTC, ISO 8601."""
    schema_version: int = Field(alias="schema")
    techniques: int
    kernels: int
    sources: int
    kinds: dict[Kind, int]


class Health(_Model):
    """The answer of `/healthz` and `/readyz`."""

    status: str
    generation: str | None = None
    """`/readyz` only: the generation that answers searches."""
    problem: str | None = None
    """Why the newest generation is not in use, or the Chroma server not queried, if so."""
