"""Contenders: each ranks the chunks of one index for a query, all in the same run."""

from collections.abc import Callable

from benchmarks.retrieval.baselines.base import Contender, Ranked
from benchmarks.retrieval.baselines.bm25 import BodyBM25
from benchmarks.retrieval.baselines.dense import Dense
from benchmarks.retrieval.baselines.product import Product
from benchmarks.retrieval.baselines.rrf import ReciprocalRanks
from benchmarks.retrieval.baselines.symbol_bm25 import SymbolBM25
from benchmarks.retrieval.baselines.terms import Terms
from benchmarks.retrieval.indexes import Corpus
from kb.embedders import Embedder

__all__ = ["CONTENDERS", "Contender", "Ranked"]

CONTENDERS: dict[str, Callable[[Corpus, Embedder], Contender]] = {
    "terms": Terms,
    "bm25": BodyBM25,
    "symbol_bm25": SymbolBM25,
    "dense": Dense,
    "rrf": ReciprocalRanks,
    "product": Product,
}
"""By the name used in results, from the plainest to the product."""
