"""The lexical index of a generation: BM25 over weighted fields of a chunk.

Fields are weighted as in BM25F (Robertson, Zaragoza, Taylor: Simple BM25 extension to multiple
weighted fields, CIKM 2004): a field's counts are divided by its length relative to the average of
that field, weighted, and added up before they saturate. So a long body does not drown a name, as it
does where a name is only repeated within the text.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kb.index.library import bm25s
from kb.index.tokens import terms
from kb.parsing import PARSING
from kb.records import Chunk

# Weight of each field. What a function is called says best what it does; its class says it of its
# siblings too, and a path of all of a file. Function search was flat for names between 8 and 16 on
# the development queries, and within 0.003 nDCG@10 for any of the others.
FIELD_WEIGHTS = {"text": 1.0, "name": 12.0, "scope": 3.0, "title": 2.0, "place": 1.0}
# Counts saturate later than the usual 1.2 to 2, since a name alone comes to 12.
_K1 = 3.0
# Robertson's usual length normalisation suits chunks of a few hundred tokens.
_B = 0.75


def split_symbol(symbol: str) -> tuple[str, str]:
    """Scope and name of a qualified symbol: `ns::Class.method` → `ns::Class`, `method`."""
    name = symbol.replace("::", ".").rsplit(".", 1)[-1]
    return symbol[: len(symbol) - len(name)].rstrip(".:"), name


def _fields(chunk: Chunk) -> dict[str, str]:
    scope, name = split_symbol(chunk.symbol or "")
    return {
        "text": chunk.text,
        "name": name,
        "scope": scope,
        "title": "" if chunk.title == chunk.symbol else chunk.title,
        "place": " ".join((chunk.path, chunk.section or "", *chunk.techniques)),
    }


def write_lexical(folder: Path, chunks: Iterable[Chunk]) -> None:
    """Build the index and save it as memory-mappable arrays."""
    # bm25s stores and sums up scores but knows no fields, so the scores are ours.
    vocabulary, scores = _scores(list(chunks))
    index = bm25s().BM25(method="lucene", k1=_K1, b=_B, csc_backend="numpy")
    index.vocab_dict, index.scores, index.nonoccurrence_array = vocabulary, scores, None
    index.save(str(folder), show_progress=False)


def _scores(chunks: Sequence[Chunk]) -> tuple[dict[str, int], dict[str, Any]]:
    """Term → column, and the score of every term in every chunk by columns, rows ascending."""
    vocabulary: dict[str, int] = {}
    names = list(FIELD_WEIGHTS)
    lengths = np.zeros((len(names), len(chunks)))
    columns, rows, fields, counts = array("i"), array("i"), array("b"), array("f")
    for row, chunk in enumerate(chunks):
        for field, text in enumerate(_fields(chunk).values()):
            found = Counter(terms(text))
            lengths[field, row] = found.total()
            columns.extend(vocabulary.setdefault(term, len(vocabulary)) for term in found)
            counts.extend(found.values())
            rows.extend([row] * len(found))
            fields.extend([field] * len(found))
    if not vocabulary:  # bm25s cannot hold nothing: a term that no query has
        vocabulary, columns, rows = {"": 0}, array("i", [0]), array("i", [0])
        fields, counts, lengths = array("b", [0]), array("f", [1]), np.zeros((len(names), 1))
    count = max(len(chunks), 1)
    present = np.maximum((lengths > 0).sum(axis=1, keepdims=True), 1)
    average = np.maximum(lengths.sum(axis=1, keepdims=True) / present, 1.0)
    weights = np.array([FIELD_WEIGHTS[name] for name in names])[:, None]
    share = weights / (1 - _B + _B * lengths / average)
    of_field, of_row = np.asarray(fields), np.asarray(rows)
    key = np.asarray(columns).astype(np.int64) * count + of_row
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
    weighted = (np.asarray(counts) * share[of_field, of_row])[order]
    frequency = np.add.reduceat(weighted, first)
    column, row_of = np.divmod(key[first], count)
    pointers = np.searchsorted(column, np.arange(len(vocabulary) + 1))
    occurrences = np.diff(pointers)
    data = frequency / (frequency + _K1) * inverse_frequency(occurrences, count)[column]
    return vocabulary, {
        "data": data.astype(np.float32),
        "indices": row_of.astype(np.int32),
        "indptr": pointers.astype(np.int32),
        "num_docs": count,
    }


def inverse_frequency(occurrences: Any, count: int) -> Any:
    """Lucene's idf, ln(1 + (N − df + 0.5) / (df + 0.5)), for df = `occurrences`."""
    return np.log1p((count - occurrences + 0.5) / (occurrences + 0.5))


class LexicalIndex:
    """BM25 scores over all chunks of a generation."""

    def __init__(self, folder: Path, count: int) -> None:
        """Open the index of a generation of `count` chunks."""
        library = bm25s()
        with PARSING:
            index: Any = library.BM25.load(str(folder), mmap=True, show_progress=False)
        self._stopwords = frozenset(library.stopwords.STOPWORDS_EN_PLUS)
        self._count = count
        self._columns: dict[str, int] = index.vocab_dict
        # As plain arrays: slicing a `memmap` is slow.
        self._pointers, self._rows, self._data = (
            np.asarray(index.scores[name]) for name in ("indptr", "indices", "data")
        )

    def query_tokens(self, query: str) -> list[str]:
        """Distinct tokens of a query without stop words, in order."""
        return [t for t in dict.fromkeys(terms(query)) if t not in self._stopwords]

    def known(self, tokens: Sequence[str]) -> list[str]:
        """Those of the tokens that occur in any chunk."""
        return [token for token in tokens if token in self._columns]

    def scores(self, tokens: Sequence[str]) -> NDArray[np.float32]:
        """BM25 score of every chunk, (n,); zero where no token occurs."""
        scores = np.zeros(self._count, dtype=np.float32)
        for token in tokens:
            stretch = self._stretch(token)
            np.add.at(scores, self._rows[stretch], self._data[stretch])
        return scores

    def frequencies(
        self, token: str, places: NDArray[np.integer]
    ) -> tuple[NDArray[np.integer], NDArray[np.float32]]:
        """Which of some chunks hold a token, and how often: weighted and saturated.

        It is BM25's score without the idf, so that a part of the chunks can be scored by how rare
        a token is among them.

        Parameters
        ----------
        places
            Of every chunk of the index, its place among those chunks, or -1, (n,).

        Returns
        -------
        The places of the chunks that hold it, and its frequency in each.
        """
        stretch = self._stretch(token)
        at = places[self._rows[stretch]]
        there = np.flatnonzero(at >= 0)
        frequency: NDArray[np.float32] = self._data[stretch][there]
        frequency /= self.idf(token)
        return at[there], frequency

    def occurs(self, token: str, rows: NDArray[np.intp]) -> bool:
        """Whether any of the chunks at `rows` contains the token."""
        return bool(self.holding(token, rows).any())

    def holding(self, token: str, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """In which of the chunks at `rows` a token stands, (n,)."""
        having = self._rows[self._stretch(token)]
        if not len(having):
            return np.zeros(len(rows), dtype=np.bool_)
        at = np.minimum(np.searchsorted(having, rows), len(having) - 1)
        found: NDArray[np.bool_] = having[at] == rows
        return found

    @cached_property
    def distinct(self) -> NDArray[np.intp]:
        """How many different terms each chunk holds, (n,)."""
        return np.bincount(self._rows, minlength=self._count)

    def idf(self, token: str) -> float:
        """Inverse document frequency of a token; highest for an unknown one."""
        stretch = self._stretch(token)
        return float(inverse_frequency(stretch.stop - stretch.start, self._count))

    def _stretch(self, token: str) -> slice:
        """Where the rows that hold a token stand, ascending, and what it is worth in each."""
        column = self._columns.get(token)
        if column is None:
            return slice(0, 0)
        return slice(int(self._pointers[column]), int(self._pointers[column + 1]))
