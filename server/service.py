"""What the server can do, without HTTP or MCP: both surfaces call this and so answer alike."""

import logging
import sqlite3
import weakref
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from kb import views
from kb.context.build import build_context
from kb.context.diagnosing import Diagnose
from kb.context.models import ContextRequest, ContextResponse
from kb.corpus.entries import Kernel
from kb.errors import IndexUnavailableError, InvalidInputError, NotFoundError
from kb.index.reader import Generation
from kb.search.engine import Searcher
from kb.search.filtering import unknown_filters
from kb.search.models import Filters, SearchRequest, SearchResponse
from server import models
from server.readers import CurrentSearcher
from server.settings import Settings

_T = TypeVar("_T")
_LOG = logging.getLogger("kb.server")
# What an id or slug in an address may hold; anything else names nothing.
_LONGEST_ID = 64
_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


class SearchAnswer(NamedTuple):
    """The answer to a search, and what a reader of it asks next, from the same generation."""

    response: SearchResponse
    unknown: list[str]
    """A sentence for each value of a filter that nothing in the index has."""
    kernels: dict[str, str]
    """Id of a result that is part of a corpus's kernel → the kernel's slug."""


class KnowledgeService:
    """Answers over one index. Every method is synchronous and safe to call from several threads."""

    def __init__(self, settings: Settings, diagnose: Diagnose | None = None) -> None:
        self.settings = settings
        self._diagnose = diagnose
        self.searchers = CurrentSearcher(settings.index)
        self._warm: weakref.WeakSet[Searcher] = weakref.WeakSet()

    def with_searcher(self, work: Callable[[Searcher], _T]) -> _T:
        """Do one request's work on one generation.

        Raises
        ------
        IndexUnavailableError
            There is no index, or its files turn out to be damaged.
        """
        searcher = self.searchers.get()
        try:
            return work(searcher)
        except IndexUnavailableError:
            self.searchers.drop(searcher)
            raise
        except (OSError, sqlite3.Error, LookupError, ValueError) as error:
            # Requests are validated before this: what breaks here are the index's files.
            _LOG.exception("reading the index failed")
            self.searchers.drop(searcher)
            raise IndexUnavailableError(
                f"the index is damaged ({type(error).__name__}): run `kb doctor`"
            ) from error

    def search(self, request: SearchRequest) -> SearchResponse:
        """Answer a search.

        Raises
        ------
        InvalidInputError
            A limit is exceeded, the query is blank, or a filter is malformed.
        """
        self._check_search(request)
        return self.with_searcher(lambda searcher: _search(searcher, request))

    def explained_search(self, request: SearchRequest) -> SearchAnswer:
        """Answer a search for a reader who asks on: as `search`, with what explains its answer."""
        self._check_search(request)

        def work(searcher: Searcher) -> SearchAnswer:
            response, generation = _search(searcher, request), searcher.generation
            entries = {result.id: views.entry_of(generation, result) for result in response.results}
            kernels = {
                id_: entry.slug for id_, entry in entries.items() if isinstance(entry, Kernel)
            }
            return SearchAnswer(response, unknown_filters(request.filters, generation), kernels)

        return self.with_searcher(work)

    def _check_search(self, request: SearchRequest) -> None:
        self.check_query(request.query)
        self.check_k(request.k, "k")

    def check_query(self, query: str) -> None:
        """Refuse a query that is longer than this server takes."""
        limit = self.settings.max_query_chars
        if len(query) > limit:
            raise InvalidInputError(f"the query has {len(query)} characters: at most {limit}")

    def check_k(self, k: int, name: str) -> None:
        """Refuse more results than this server gives."""
        if k > self.settings.max_k:
            raise InvalidInputError(f"{name} is {k}; the limit is {self.settings.max_k}")

    def check_context(self, request: ContextRequest) -> None:
        """Refuse a context that exceeds a limit of this server."""
        self.check_query(request.query or "")
        limit = self.settings.max_kernel_chars
        for name, text in (("kernel", request.kernel), ("problem", request.problem)):
            if len(text or "") > limit:
                raise InvalidInputError(f"the {name} is too long: at most {limit} characters")
        budget = max(request.max_tokens or 0, request.max_chars or 0)
        if budget > self.settings.max_budget:
            raise InvalidInputError(f"the budget is {budget}: at most {self.settings.max_budget}")

    def context(self, request: ContextRequest) -> ContextResponse:
        """Build a context.

        Raises
        ------
        InvalidInputError
            A limit is exceeded, the GPU is unknown, or the problem cannot be read.
        """
        self.check_context(request)
        return self.with_searcher(lambda searcher: build_context(request, searcher, self._diagnose))

    def tree(self) -> models.Tree:
        """The hierarchy."""
        return self._on_generation(lambda g: models.Tree.model_validate(views.tree_view(g)))

    def techniques(self, filters: Filters | None = None) -> list[models.TechniqueSummary]:
        """Techniques in the order of the tree, each once.

        Of the filters, `bottlenecks` and `languages` apply.
        """
        conditions = filters or Filters()

        def work(generation: Generation) -> list[models.TechniqueSummary]:
            slugs = [
                technique["slug"]
                for bottleneck in views.tree_view(generation)["bottlenecks"]
                for technique in bottleneck["techniques"]
            ]
            summaries = [_summary(generation, slug) for slug in dict.fromkeys(slugs)]
            return [
                summary
                for summary in summaries
                if _meets(summary.bottlenecks, conditions.bottlenecks)
                and _meets(summary.languages, conditions.languages)
            ]

        return self._on_generation(work)

    def technique(self, slug: str) -> models.TechniqueDetail:
        """One technique.

        Raises
        ------
        NotFoundError
            No technique has this slug.
        """

        def work(generation: Generation) -> models.TechniqueDetail:
            if slug in generation.techniques:
                return models.TechniqueDetail.model_validate(views.technique_view(generation, slug))
            if slug in generation.kernels:
                raise NotFoundError("this is the slug of a kernel: request it as a kernel")
            raise NotFoundError("no technique has this slug: see the list of techniques")

        return self._on_generation(work)

    def kernel(self, slug: str) -> models.KernelDetail:
        """One kernel of a corpus, with its code.

        Raises
        ------
        NotFoundError
            No kernel has this slug.
        """

        def work(generation: Generation) -> models.KernelDetail:
            if slug in generation.kernels:
                return models.KernelDetail.model_validate(views.kernel_view(generation, slug))
            if slug in generation.techniques:
                raise NotFoundError("this is the slug of a technique: request it as a technique")
            raise NotFoundError("no kernel has this slug: techniques list theirs under `examples`")

        return self._on_generation(work)

    def sources(self) -> models.SourceList:
        """The ingested sources, without where they lie on this machine."""
        return self._on_generation(
            lambda g: models.SourceList.model_validate({"sources": views.sources_view(g)})
        )

    def chunk(self, chunk_id: str) -> models.ChunkDetail:
        """One chunk.

        Raises
        ------
        NotFoundError
            No chunk has this id.
        """

        def work(generation: Generation) -> models.ChunkDetail:
            well_formed = len(chunk_id) <= _LONGEST_ID and _ID_CHARACTERS.issuperset(chunk_id)
            view = views.chunk_view(generation, chunk_id) if well_formed else None
            if view is None:
                raise NotFoundError("no chunk has this id: take an id from a search result")
            return models.ChunkDetail.model_validate(view)

        return self._on_generation(work)

    def index(self) -> models.IndexDetail:
        """What the index holds."""
        return self._on_generation(lambda g: models.IndexDetail.model_validate(views.index_view(g)))

    def warm(self) -> Searcher:
        """Open the index and load the model; returns what answers searches now.

        Raises
        ------
        KbError
            One of them cannot be had.
        """

        def work(searcher: Searcher) -> Searcher:
            if searcher not in self._warm:
                searcher.rank("warm up", 1, Filters())
                self._warm.add(searcher)
            return searcher

        return self.with_searcher(work)

    def _on_generation(self, work: Callable[[Generation], _T]) -> _T:
        return self.with_searcher(lambda searcher: work(searcher.generation))


def _search(searcher: Searcher, request: SearchRequest) -> SearchResponse:
    return searcher.search(request.query, request.k, request.filters, explain=request.explain)


def _summary(generation: Generation, slug: str) -> models.TechniqueSummary:
    entry = generation.techniques[slug].entry
    fields = {"slug", "title", "bottlenecks", "languages", "architectures", "effect"}
    return models.TechniqueSummary(
        **entry.model_dump(include=fields),
        measured=bool(views.technique_records(generation, slug)),
        examples=generation.examples[slug],
    )


def _meets(values: Sequence[str], allowed: Sequence[str]) -> bool:
    return not allowed or not set(allowed).isdisjoint(values)
