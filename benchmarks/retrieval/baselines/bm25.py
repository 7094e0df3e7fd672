"""BM25 over bodies alone: what a chunk is called and where it stands does not count."""

import bm25s
import numpy as np

from benchmarks.retrieval.baselines.base import DEPTH, Ranked, Scope
from benchmarks.retrieval.indexes import Corpus
from kb.embedders import Embedder
from kb.index.tokens import tokenize
from kb.index.vectors import top


class BodyBM25:
    """bm25s with its own parameters (k1 1.5, b 0.75) over the product's tokens of each text."""

    title = "BM25, bodies"

    def __init__(self, corpus: Corpus, _embedder: Embedder) -> None:
        self._index = bm25s.BM25(method="lucene")
        self._index.index([tokenize(chunk.text) for chunk in corpus.chunks], show_progress=False)
        self._query_tokens = corpus.generation.lexical.query_tokens

    def rank(self, query: str, scope: Scope) -> Ranked:
        known = [token for token in self._query_tokens(query) if token in self._index.vocab_dict]
        if not known:
            return Ranked([])
        scores = np.asarray(self._index.get_scores(known), dtype=np.float32)
        return Ranked(top(scores, DEPTH, scope.mask & (scores > 0)).tolist())

    def deepen(self, _query: str, _scope: Scope, ranked: Ranked) -> Ranked:
        return ranked
