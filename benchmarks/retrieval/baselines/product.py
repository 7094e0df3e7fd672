"""The product's whole search as every surface calls it, abstention included."""

from dataclasses import replace

from benchmarks.retrieval.baselines.base import DEPTH, Contender, Ranked, Scope
from benchmarks.retrieval.indexes import Corpus
from kb.embedders import Embedder
from kb.search.engine import Searcher
from kb.search.models import Filters

SHOWN = 10


class Product(Contender):
    """`Searcher.search` for ten results, and its ranking for what a token budget holds."""

    title = "whole search"

    def __init__(self, corpus: Corpus, embedder: Embedder) -> None:
        self._searcher = Searcher(corpus.generation, embedder)
        self._rows = corpus.rows

    def rank(self, query: str, scope: Scope) -> Ranked:
        filters = Filters(kinds=list(scope.kinds))
        response = self._searcher.search(query, SHOWN, filters, mask=scope.allowed)
        rows = [self._rows[result.id] for result in response.results]
        return Ranked(rows, rows, response.abstained)

    def deepen(self, query: str, scope: Scope, ranked: Ranked) -> Ranked:
        filters = Filters(kinds=list(scope.kinds))

        def rows(k: int) -> list[int]:
            return [hit.row for hit in self._searcher.rank(query, k, filters, scope.allowed).hits]

        if ranked.abstained:
            return replace(ranked, unjudged=rows(SHOWN))
        return replace(ranked, rows=rows(DEPTH), unjudged=ranked.top)
