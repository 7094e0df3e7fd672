"""BM25 with weighted symbols: a chunk's name, title and path are in its bag of tokens."""

from collections.abc import Iterable

from benchmarks.retrieval.baselines.bm25 import BodyBM25
from benchmarks.retrieval.baselines.tokens import tokens
from kb.records import Chunk

SYMBOL_WEIGHT = 3
TITLE_WEIGHT = 2


class SymbolBM25(BodyBM25):
    """As `BodyBM25`, with the symbol three times, the title twice, path and section once."""

    title = "BM25, symbol weighted"

    def _bags(self, chunks: Iterable[Chunk]) -> Iterable[list[str]]:
        for chunk in chunks:
            names = tokens(chunk.symbol or "") * SYMBOL_WEIGHT + tokens(chunk.title) * TITLE_WEIGHT
            yield tokens(chunk.text) + names + tokens(f"{chunk.path} {chunk.section or ''}")
