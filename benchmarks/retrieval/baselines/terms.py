"""Term match in ripgrep's manner: chunks by how many words of the query they hold, as text."""

from array import array
from functools import lru_cache

import numpy as np
from bm25s.stopwords import STOPWORDS_EN_PLUS
from numpy.typing import NDArray

from benchmarks.retrieval.baselines.base import DEPTH, Contender, Ranked, Scope
from benchmarks.retrieval.indexes import Corpus
from kb.embedders import Embedder
from kb.index.vectors import top

_STOPWORDS = frozenset(STOPWORDS_EN_PLUS)
_MARKS = ".,;:()[]{}'\"`"
_BELOW_ONE = 1e-6
"""Weight of an occurrence: it only breaks ties between chunks with equally many of the words."""


class Terms(Contender):
    """`rg -i -F` for each word, chunks in the order of words matched, then of occurrences."""

    title = "term match"

    def __init__(self, corpus: Corpus, _embedder: Embedder) -> None:
        # A word of a query holds no white space, so each of its occurrences lies within one run of
        # other characters. Each distinct run is searched once, however often it occurs.
        ids: dict[str, int] = {}
        runs, rows = array("q"), array("q")
        for row, chunk in enumerate(corpus.chunks):
            for run in chunk.text.lower().split():
                runs.append(ids.setdefault(run, len(ids)))
                rows.append(row)
        self._size = len(corpus.chunks)
        self._text = "\0".join(ids)
        self._ends = np.cumsum([len(run) + 1 for run in ids])
        run_ids = np.asarray(runs)
        order = np.argsort(run_ids, kind="stable")
        self._rows = np.asarray(rows)[order]
        self._starts = np.searchsorted(run_ids[order], np.arange(len(ids) + 1))
        self._counts = lru_cache(maxsize=4096)(self._count)

    def rank(self, query: str, scope: Scope) -> Ranked:
        words = [word.strip(_MARKS) for word in dict.fromkeys(query.lower().split())]
        scores = np.zeros(self._size, dtype=np.float32)
        for word in words:
            if word in _STOPWORDS:
                continue
            rows, counts = self._counts(word)
            scores[rows] += 1 + np.minimum(counts, 1000) * _BELOW_ONE
        return Ranked(top(scores, DEPTH, scope.mask & (scores > 0)).tolist())

    def _count(self, word: str) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows that hold the word, and how often."""
        offsets: list[int] = []
        offset = self._text.find(word) if word else -1
        while offset >= 0:
            offsets.append(offset)
            offset = self._text.find(word, offset + len(word))
        runs, occurrences = np.unique(
            np.searchsorted(self._ends, offsets, side="right"), return_counts=True
        )
        starts, lengths = self._starts[runs], self._starts[runs + 1] - self._starts[runs]
        before = np.cumsum(lengths) - lengths
        positions = np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
        counts = np.bincount(
            self._rows[positions], weights=np.repeat(occurrences, lengths), minlength=self._size
        )
        rows = np.flatnonzero(counts)
        return rows, counts[rows].astype(np.intp)
