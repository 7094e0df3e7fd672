"""BM25 with symbol, title and path weighted in: the index's own lexical order alone."""

from benchmarks.retrieval.baselines.base import DEPTH, Ranked, Scope
from benchmarks.retrieval.indexes import Corpus
from kb.embedders import Embedder
from kb.index.vectors import top


class SymbolBM25:
    """The lexical half of search."""

    title = "BM25, symbol weighted"

    def __init__(self, corpus: Corpus, _embedder: Embedder) -> None:
        self._lexical = corpus.generation.lexical

    def rank(self, query: str, scope: Scope) -> Ranked:
        scores = self._lexical.scores(self._lexical.query_tokens(query))
        return Ranked(top(scores, DEPTH, scope.mask & (scores > 0)).tolist())

    def deepen(self, _query: str, _scope: Scope, ranked: Ranked) -> Ranked:
        return ranked
