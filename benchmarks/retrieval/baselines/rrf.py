"""Plain reciprocal rank fusion of symbol-weighted BM25 and the embedder (Cormack et al., 2009)."""

from benchmarks.retrieval.baselines.base import DEPTH, Contender, Ranked, Scope
from benchmarks.retrieval.baselines.dense import Dense
from benchmarks.retrieval.baselines.symbol_bm25 import SymbolBM25
from benchmarks.retrieval.indexes import Corpus
from kb.embedders import Embedder

K = 60
"""The constant of the paper, which nearly everyone uses."""


class ReciprocalRanks(Contender):
    """Sum of 1 / (60 + rank) over both orders, each 100 deep."""

    title = "plain RRF of those two"

    def __init__(self, corpus: Corpus, embedder: Embedder) -> None:
        self._orders = (SymbolBM25(corpus, embedder), Dense(corpus, embedder))

    def rank(self, query: str, scope: Scope) -> Ranked:
        fused: dict[int, float] = {}
        for order in self._orders:
            for rank, row in enumerate(order.rank(query, scope).rows, start=1):
                fused[row] = fused.get(row, 0.0) + 1 / (K + rank)
        return Ranked(sorted(fused, key=lambda row: (-fused[row], row))[:DEPTH])
