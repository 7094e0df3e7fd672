"""The lexical index of a generation: BM25 over weighted fields of a chunk.

Fields are weighted as in BM25F (Robertson, Zaragoza, Taylor: Simple BM25 extension to multiple
weighted fields, CIKM 2004): a field's counts are divided by its length relative to the average of
that field, weighted, and added up before they saturate. So a long body does not drown a name, as it
does where a name is only repeated within the text.
"""

import sys
import threading
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kb.caching import cached_by_word
from kb.index.strings import StringTable, write_strings
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
# Postings that are sorted at once: 100 MB of scratch.
_BLOCK = 2_000_000
_MAX_INT32 = 2**31 - 1
# Files that are memory-mapped: the vocabulary, and the number of distinct terms in each chunk.
_TERMS, _DISTINCT = "terms", "distinct.npy"
_ONE = array("f", [1])
_IMPORTING = threading.Lock()
_UNUSED_MODULES = ("jax", "scipy.sparse")


@cache
def _bm25s() -> Any:
    """The library, without what it would load besides and is not used here.

    Where JAX is installed, `bm25s.selection` runs it once when imported, and a JAX made for GPUs
    then keeps three quarters of the card's memory for as long as the process lives. SciPy takes
    longer to load than all the rest, for one of two ways to build an index.
    """
    with _IMPORTING:
        modules: dict[str, Any] = sys.modules
        saved = {name: modules.get(name) for name in _UNUSED_MODULES}
        modules |= dict.fromkeys(_UNUSED_MODULES)  # an import fails, as where it is not installed
        try:
            import bm25s as library  # noqa: PLC0415
        finally:
            for name, module in saved.items():
                del modules[name]
                if module is not None:
                    modules[name] = module
    return library


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
    """Build the index and save it as memory-mappable arrays; reads the chunks once, in order."""
    # bm25s stores and sums up scores but knows no fields, so the scores are ours.
    postings = _Postings(chunks)
    folder.mkdir()
    vocabulary = postings.sort_vocabulary(write_strings(folder / _TERMS, postings.vocabulary))
    scores, distinct = _scores(postings)
    np.save(folder / _DISTINCT, distinct)
    index = _bm25s().BM25(method="lucene", k1=_K1, b=_B, csc_backend="numpy")
    index.vocab_dict, index.scores, index.nonoccurrence_array = vocabulary, scores, None
    index.save(str(folder), show_progress=False)


class _Postings:
    """How often each term stands in each field of each chunk, in the order of the chunks."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self.vocabulary: dict[str, int] = {}
        # A row's postings end at `_ends[row]`; the lengths of its fields stand at 5 * row.
        self._ends, self._lengths = array("q"), array("i")
        self._columns, self._fields, self._counts = array("i"), array("b"), array("f")
        vocabulary = self.vocabulary
        for chunk in chunks:
            for field, text in enumerate(_fields(chunk).values()):
                counts = Counter(terms(text))
                self._lengths.append(counts.total())
                self._columns.extend(
                    vocabulary.setdefault(term, len(vocabulary)) for term in counts
                )
                self._counts.extend(counts.values())
                self._fields.extend([field] * len(counts))
            self._ends.append(len(self._columns))
        if not vocabulary:  # bm25s cannot hold nothing: a term that no query has
            vocabulary[""] = 0
            self._columns, self._fields, self._counts = array("i", [0]), array("b", [0]), _ONE
            self._ends, self._lengths = array("q", [1]), array("i", [0] * len(FIELD_WEIGHTS))
        self.chunks = len(self._ends)

    def sort_vocabulary(self, terms: Sequence[str]) -> dict[str, int]:
        """Number the columns by these, the vocabulary sorted; returns term → column."""
        columns = np.empty(len(terms), dtype=np.int32)
        for column, term in enumerate(terms):
            columns[self.vocabulary[term]] = column
        self.vocabulary = {term: column for column, term in enumerate(terms)}
        numbered = np.asarray(self._columns)
        for start in range(0, len(numbered), _BLOCK):
            block = numbered[start : start + _BLOCK]
            block[:] = columns[block]
        return self.vocabulary

    def shares(self) -> NDArray[np.float64]:
        """What one occurrence in each field of each chunk counts, (fields, chunks)."""
        lengths = np.asarray(self._lengths).reshape(self.chunks, -1).T
        present = np.maximum((lengths > 0).sum(axis=1, keepdims=True), 1)
        average = np.maximum(lengths.sum(axis=1, keepdims=True) / present, 1.0)
        weights = np.array(list(FIELD_WEIGHTS.values()))[:, None]
        shares: NDArray[np.float64] = weights / (1 - _B + _B * lengths / average)
        return shares

    def blocks(self) -> Iterator[tuple[slice, int, NDArray[np.int32]]]:
        """Blocks of chunks: the slice of their postings, the first row, and each posting's row."""
        ends, first, start = np.asarray(self._ends), 0, 0
        while first < self.chunks:
            last = max(int(np.searchsorted(ends, start + _BLOCK, side="right")), first + 1)
            sizes = np.diff(ends[first:last], prepend=start)
            rows = np.repeat(np.arange(first, last, dtype=np.int32), sizes)
            yield slice(start, int(ends[last - 1])), first, rows
            first, start = last, int(ends[last - 1])

    def by_column(
        self, shares: NDArray[np.float64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
        """Column, row and weighted frequency of each term of a block's chunks, in that order."""
        columns, fields = np.asarray(self._columns), np.asarray(self._fields)
        counts = np.asarray(self._counts)
        for stretch, first, rows in self.blocks():
            width = int(rows[-1]) - first + 1 if len(rows) else 1
            key = columns[stretch].astype(np.int64) * width + (rows - first)
            order = np.argsort(key, kind="stable")
            key = key[order]
            starts = np.flatnonzero(np.r_[True, key[1:] != key[:-1]]) if len(key) else order
            weighted = (counts[stretch] * shares[fields[stretch], rows])[order]
            column, row = np.divmod(key[starts], width)
            frequency = np.add.reduceat(weighted, starts) if len(key) else weighted
            yield column, row + first, frequency


def _scores(postings: _Postings) -> tuple[dict[str, Any], NDArray[np.int32]]:
    """The score of every term in every chunk by columns, rows ascending, and each chunk's terms.

    In blocks of chunks, so that beside the postings and the result little stands in memory.
    """
    shares = postings.shares()
    occurrences = np.zeros(len(postings.vocabulary), dtype=np.int64)
    distinct = np.zeros(postings.chunks, dtype=np.int32)
    for column, row, _ in postings.by_column(shares):
        occurrences += np.bincount(column, minlength=len(occurrences))
        present, counts = np.unique(row, return_counts=True)
        distinct[present] = counts
    pointers = np.concatenate(([0], np.cumsum(occurrences)))
    worth = inverse_frequency(occurrences, postings.chunks)
    data = np.empty(pointers[-1], dtype=np.float32)
    indices = np.empty(pointers[-1], dtype=np.int32)
    following = pointers[:-1].copy()
    for column, row, frequency in postings.by_column(shares):
        present, starts, counts = np.unique(column, return_index=True, return_counts=True)
        places = np.arange(len(column)) + np.repeat(following[present] - starts, counts)
        data[places] = frequency / (frequency + _K1) * worth[column]
        indices[places] = row
        following[present] += counts
    scores = {
        "data": data,
        "indices": indices,
        "indptr": pointers.astype(np.int64 if pointers[-1] > _MAX_INT32 else np.int32),
        "num_docs": postings.chunks,
    }
    return scores, distinct


def inverse_frequency(occurrences: Any, count: int) -> Any:
    """Lucene's idf, ln(1 + (N − df + 0.5) / (df + 0.5)), for df = `occurrences`."""
    return np.log1p((count - occurrences + 0.5) / (occurrences + 0.5))


class LexicalIndex:
    """BM25 scores over all chunks of a generation."""

    def __init__(self, folder: Path, count: int) -> None:
        """Open the index of a generation of `count` chunks."""
        library = _bm25s()
        with PARSING:
            index: Any = library.BM25.load(
                str(folder), mmap=True, load_vocab=False, show_progress=False
            )
            self.distinct: NDArray[np.int32] = np.asarray(
                np.load(folder / _DISTINCT, mmap_mode="r")
            )
            """How many different terms each chunk holds, (n,)."""
        self._stopwords = frozenset(library.stopwords.STOPWORDS_EN_PLUS)
        self._count = count
        # A query asks for the same few words again and again.
        self._column_of = cached_by_word(StringTable(folder / _TERMS).find)
        # As plain arrays: slicing a `memmap` is slow.
        self._pointers, self._rows, self._data = (
            np.asarray(index.scores[name]) for name in ("indptr", "indices", "data")
        )

    def query_tokens(self, query: str) -> list[str]:
        """Distinct tokens of a query without stop words, in order."""
        return [t for t in dict.fromkeys(terms(query)) if t not in self._stopwords]

    def known(self, tokens: Sequence[str]) -> list[str]:
        """Those of the tokens that occur in any chunk."""
        return [token for token in tokens if self._column_of(token) is not None]

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
        present = np.flatnonzero(at >= 0)
        frequency: NDArray[np.float32] = self._data[stretch][present]
        frequency /= self.idf(token)
        return at[present], frequency

    def holding(self, token: str, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """In which of the chunks at `rows` a token stands, (n,)."""
        having = self._rows[self._stretch(token)]
        if not len(having):
            return np.zeros(len(rows), dtype=np.bool_)
        at = np.minimum(np.searchsorted(having, rows), len(having) - 1)
        result: NDArray[np.bool_] = having[at] == rows
        return result

    def idf(self, token: str) -> float:
        """Inverse document frequency of a token; highest for an unknown one."""
        stretch = self._stretch(token)
        return float(inverse_frequency(stretch.stop - stretch.start, self._count))

    def _stretch(self, token: str) -> slice:
        """Where the rows that hold a token stand, ascending, and what it is worth in each."""
        column = self._column_of(token)
        if column is None:
            return slice(0, 0)
        return slice(int(self._pointers[column]), int(self._pointers[column + 1]))
