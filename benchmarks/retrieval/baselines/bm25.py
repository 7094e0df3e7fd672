"""BM25 over bodies alone, without a chunk's name and path."""

from collections.abc import Iterable

import bm25s
import numpy as np

from benchmarks.retrieval.baselines.base import DEPTH, Contender, Ranked, Scope
from benchmarks.retrieval.baselines.tokens import query_tokens, tokens
from benchmarks.retrieval.indexes import Corpus
from kb.embedders import Embedder
from kb.index.vectors import top
from kb.records import Chunk


class BodyBM25(Contender):
    """bm25s with its own parameters: Lucene's form, k1 1.5, b 0.75."""

    title = "BM25, bodies"

    def __init__(self, corpus: Corpus, _embedder: Embedder) -> None:
        self._index = bm25s.BM25(method="lucene")
        self._index.index(list(self._bags(corpus.chunks)), show_progress=False)

    def _bags(self, chunks: Iterable[Chunk]) -> Iterable[list[str]]:
        return (tokens(chunk.text) for chunk in chunks)

    def rank(self, query: str, scope: Scope) -> Ranked:
        terms = [token for token in query_tokens(query) if token in self._index.vocab_dict]
        if not terms:
            return Ranked([])
        scores = np.asarray(self._index.get_scores(terms), dtype=np.float32)
        return Ranked(top(scores, DEPTH, scope.mask & (scores > 0)).tolist())
