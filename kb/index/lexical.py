"""The lexical index of a generation: BM25 with symbol and title weighted above the text."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kb.index.tokens import tokenize
from kb.parsing import PARSING
from kb.records import Chunk

# A field's tokens count this many times. Symbols name exactly one thing; a title sums up the text.
SYMBOL_WEIGHT = 3
TITLE_WEIGHT = 2
# Robertson's usual saturation and length normalisation suit chunks of a few hundred tokens.
_K1 = 1.5
_B = 0.75


def chunk_tokens(chunk: Chunk) -> list[str]:
    """The weighted bag of tokens that stands for a chunk."""
    tokens = tokenize(chunk.text)
    tokens += tokenize(chunk.title) * TITLE_WEIGHT
    if chunk.symbol:
        tokens += tokenize(chunk.symbol) * SYMBOL_WEIGHT
    tokens += tokenize(" ".join((chunk.path, chunk.section or "", *chunk.techniques)))
    return tokens


def write_lexical(folder: Path, chunks: Iterable[Chunk]) -> None:
    """Build the index and save it as memory-mappable arrays."""
    import bm25s  # noqa: PLC0415 - takes a third of a second to import

    # The numpy backend sorts each token's rows, which `LexicalIndex.occurs` relies on.
    index = bm25s.BM25(method="lucene", k1=_K1, b=_B, csc_backend="numpy")
    # bm25s cannot index nothing: an empty index holds one document that no query reaches.
    index.index([chunk_tokens(chunk) for chunk in chunks] or [["\0"]], show_progress=False)
    index.save(str(folder), show_progress=False)


class LexicalIndex:
    """BM25 scores over all chunks of a generation."""

    def __init__(self, folder: Path, count: int) -> None:
        """Open the index of a generation of `count` chunks."""
        import bm25s  # noqa: PLC0415
        from bm25s.stopwords import STOPWORDS_EN_PLUS  # noqa: PLC0415

        with PARSING:
            self._index: Any = bm25s.BM25.load(str(folder), mmap=True, show_progress=False)
        self._stopwords = frozenset(STOPWORDS_EN_PLUS)
        self._count = count

    def query_tokens(self, query: str) -> list[str]:
        """Distinct tokens of a query without stop words, in order."""
        return [t for t in dict.fromkeys(tokenize(query)) if t not in self._stopwords]

    def known(self, tokens: Sequence[str]) -> list[str]:
        """Those of the tokens that occur in any chunk."""
        return [token for token in tokens if token in self._index.vocab_dict]

    def scores(self, tokens: Sequence[str]) -> NDArray[np.float32]:
        """BM25 score of every chunk, (n,); zero where no token occurs."""
        known = self.known(tokens)
        if not known:
            return np.zeros(self._count, dtype=np.float32)
        scores: NDArray[np.float32] = self._index.get_scores(known)
        return scores

    def occurs(self, token: str, rows: NDArray[np.intp]) -> bool:
        """Whether a token stands in any of the chunks at `rows`."""
        index = self._index.vocab_dict.get(token)
        if index is None:
            return False
        pointers, indices = self._index.scores["indptr"], self._index.scores["indices"]
        having = indices[pointers[index] : pointers[index + 1]]
        at = np.searchsorted(having, rows)
        inside = at < len(having)
        return bool((having[at[inside]] == rows[inside]).any())

    def idf(self, token: str) -> float:
        """Lucene's idf, ln(1 + (N − df + 0.5) / (df + 0.5)); highest for an unknown token."""
        index = self._index.vocab_dict.get(token)
        df = 0
        if index is not None:
            pointers = self._index.scores["indptr"]
            df = int(pointers[index + 1] - pointers[index])
        return float(np.log1p((self._count - df + 0.5) / (df + 0.5)))
