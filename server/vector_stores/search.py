"""Answer OpenAI's vector store search with the server's own."""

import weakref

from kb.errors import NotFoundError
from kb.search.engine import Searcher
from kb.search.models import Result
from server.service import KnowledgeService
from server.vector_stores.filters import ChunkFilters, attributes_of
from server.vector_stores.models import (
    Content,
    VectorStoreResult,
    VectorStoreResultsPage,
    VectorStoreSearchRequest,
)

STORE_ID = "kernel-kb"
# What filters read once from a generation lives as long as the generation.
_FILTERS: "weakref.WeakKeyDictionary[object, ChunkFilters]" = weakref.WeakKeyDictionary()


def search_store(
    service: KnowledgeService, store_id: str, request: VectorStoreSearchRequest
) -> VectorStoreResultsPage:
    """Search. The results and their order are those of `/v1/search`.

    Raises
    ------
    NotFoundError
        The store's id is not `kernel-kb`.
    InvalidInputError
        A limit is exceeded, a query is blank, or a filter is malformed.
    """
    if store_id != STORE_ID:
        raise NotFoundError(f"no vector store has this id: the only one is '{STORE_ID}'")
    queries = [request.query] if isinstance(request.query, str) else request.query
    for query in queries:
        service.check_query(query)
    service.check_k(request.max_num_results, "max_num_results")
    results = service.with_searcher(lambda searcher: _search(searcher, queries, request))
    lowest = request.ranking_options.score_threshold if request.ranking_options else 0.0
    return VectorStoreResultsPage(
        search_query=queries, data=[_result(result) for result in results if result.score >= lowest]
    )


def _search(
    searcher: Searcher, queries: list[str], request: VectorStoreSearchRequest
) -> list[Result]:
    k = request.max_num_results
    mask = None
    if request.filters is not None:
        filters = _FILTERS.setdefault(searcher, ChunkFilters(searcher.generation))
        mask = filters.mask(request.filters)
    best: dict[str, Result] = {}
    for query in queries:
        for result in searcher.search(query, k, mask=mask).results:
            if result.id not in best or result.score > best[result.id].score:
                best[result.id] = result
    if len(queries) == 1:
        return list(best.values())
    return sorted(best.values(), key=lambda result: (-result.score, result.id))[:k]


def _result(result: Result) -> VectorStoreResult:
    return VectorStoreResult(
        file_id=result.id,
        filename=result.path,
        score=result.score,
        attributes=attributes_of(result),
        content=[Content(text=result.text)],
    )
