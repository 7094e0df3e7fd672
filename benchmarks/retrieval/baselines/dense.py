"""The embedder alone: chunks by the cosine of their vector to the query's."""

from benchmarks.retrieval.baselines.base import DEPTH, Contender, Ranked, Scope
from benchmarks.retrieval.indexes import Corpus
from kb.embedders import Embedder
from kb.index.vectors import top


class Dense(Contender):
    """The dense half of search, exact."""

    title = "dense"

    def __init__(self, corpus: Corpus, embedder: Embedder) -> None:
        self._vectors = corpus.generation.vectors
        self._embedder = embedder

    def rank(self, query: str, scope: Scope) -> Ranked:
        scores = self._vectors.similarities(self._embedder.embed_query(query))
        return Ranked(top(scores, DEPTH, scope.mask).tolist())
