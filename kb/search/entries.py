"""Score whole entries: any section, question or kernel of an entry counts for it.

An entry is a technique or a kernel of a corpus. There are hundreds of them, beside tens of
thousands of functions. So each is scored for every query, and a word counts by its rarity among
entries: a word rare in code (`barrier`) may be in half of the techniques, and vice versa.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kb.index.columns import Columns
from kb.index.lexical import LexicalIndex, inverse_frequency
from kb.index.reader import Generation
from kb.records import QUESTION

# Share of the words in an entry's score; meaning has the rest. Half as much for code, where names
# are the words to look for: who asks for a technique often has other words than it is written in.
WORDS = 1 / 3
# Of the words, this share by the section that has most of them; the rest by all sections together,
# each word where it stands best: a question may ask for what two sections say.
ONE_SECTION = 0.5
# Of the meaning, the nearest section's share; the rest is the mean of the nearest ones.
NEAREST = 0.6
_NEAREST_COUNT = 3
# What an entry is ahead of a middling one passes to those it belongs with: of its best kernel to a
# technique ("softmax reads its input three times" is the words of a kernel, and what helps it is
# what the kernel was written to show), and of its best technique to a kernel.
FROM_KERNEL = 0.3
FROM_TECHNIQUE = 0.15
# Fewer entries are no knowledge of a field: what they do not hold may well be of it.
_MIN_ENTRIES = 50


class EntryScores(NamedTuple):
    """Scores of a query's words and meaning for every entry, (m,), and their rows, (n,)."""

    tokens: list[str]
    idf: NDArray[np.float64]
    """How rare each token is among entries, (tokens,)."""
    best: NDArray[np.floating]
    """Frequency of each token where it stands best in each entry, (tokens, m)."""
    by_row: NDArray[np.float64]
    """What the words of each row are worth, (n,)."""
    near: NDArray[np.float64]
    """Cosine of the query to each row, 0 where that is negative or filtered out, (n,)."""
    alone: NDArray[np.float64]
    """What the words of its best row are worth, relative to the best entry, (m,)."""
    together: NDArray[np.float64]
    """What its words are worth, each where it stands best, relative to the best entry, (m,)."""
    nearest: NDArray[np.float64]
    """The cosine of its nearest row, (m,)."""
    meaning: NDArray[np.float64]
    """How near its rows are: the nearest, and the mean of the few nearest, (m,)."""
    fused: NDArray[np.float64]
    """All of it in [0, 1], 1 for an entry that has the query's words as no other has and its very
    meaning, (m,)."""
    eligible: NDArray[np.bool_]
    """Whether any of its chunks is kept by the filters, (m,)."""
    best_rows: NDArray[np.intp]
    """The row of its chunk that answers best, questions left out, (m,)."""
    covered: float | None = None
    """The share of the query's information that the entry with most of it holds, filters aside;
    None where there are too few entries to tell what is rare among them."""


class Entries:
    """The entries of one generation: which rows each has, and which belong together."""

    def __init__(self, generation: Generation) -> None:
        columns = generation.columns
        entries = columns["entries"]
        places: dict[str, int] = {}
        of_code = np.full(len(entries.values), -1)
        for code, values in enumerate(entries.values):
            if values and values[0].partition(":")[0] in {"technique", "kernel"}:
                of_code[code] = places.setdefault(values[0], len(places))
        self.names: tuple[str, ...] = tuple(places)
        """`technique:SLUG` or `kernel:SLUG`, in the order of the scores."""
        self.places: Mapping[str, int] = places
        """The place of each name."""
        of_row = of_code[entries.codes]
        self.rows: NDArray[np.intp] = np.flatnonzero(of_row >= 0)
        """The rows of all their chunks, ascending."""
        self.of_row: NDArray[np.intp] = of_row[self.rows]
        """The place of the entry that each of those rows is of, (n,)."""
        self._order = np.argsort(self.of_row, kind="stable")
        # As they are ingested, unless an entry came to others that were there before.
        self._in_order = bool((self._order[1:] > self._order[:-1]).all())
        self._starts = np.searchsorted(self.of_row[self._order], np.arange(len(places)))
        counts = np.diff(np.append(self._starts, len(self.rows)))
        # Entry → places of its rows, (m, longest), filled up with one past the end.
        self._padded = np.full((len(counts), int(counts.max(initial=0))), len(self.rows))
        self._padded[np.arange(self._padded.shape[1]) < counts[:, None]] = self._order
        self._answers_mask = ~columns["roles"].mask(lambda values: values == (QUESTION,))[self.rows]
        self.techniques: NDArray[np.bool_] = np.array(
            [name.startswith("technique:") for name in self.names], dtype=np.bool_
        )
        self.pairs: NDArray[np.intp] = self._example_pairs(columns, places)
        """(kernel, technique) for each technique that a kernel shows, (pairs, 2)."""
        self._counts = np.minimum(counts, _NEAREST_COUNT).astype(np.float64)
        self._place = np.full(columns.count, -1, dtype=np.int32)
        self._place[self.rows] = np.arange(len(self.rows))
        # Token → what `LexicalIndex.frequencies` says of it: a stretch of the index, a few of whose
        # rows are of entries. No more than all of the entries' words.
        self._frequencies: dict[str, tuple[NDArray[np.integer], NDArray[np.float32]]] = {}

    def _example_pairs(self, columns: Columns, places: dict[str, int]) -> NDArray[np.intp]:
        firsts = self.rows[self._order[self._starts]] if len(places) else self.rows
        pairs = [
            (place, places[f"technique:{slug}"])
            for place, row in enumerate(firsts.tolist())
            if not self.techniques[place]
            for slug in columns["techniques"].of(row)
            if f"technique:{slug}" in places
        ]
        return np.array(pairs, dtype=np.intp).reshape(-1, 2)

    def score(
        self,
        tokens: list[str],
        lexical: LexicalIndex,
        cosines: NDArray[np.float32],
        mask: NDArray[np.bool_] | None,
    ) -> EntryScores:
        """Score every entry by its chunks' words and cosines.

        Parameters
        ----------
        cosines
            Of the query to each of `rows`, (n,).
        mask
            Which chunks of the whole index are kept.
        """
        if not len(self.rows):
            none, valid = np.zeros(0), np.zeros(0, np.bool_)
            return EntryScores(
                tokens, none, none, none, none, none, none, none, none, none, valid, self.rows
            )
        row_mask = np.ones(len(self.rows), bool) if mask is None else mask[self.rows]
        words = self._words(tokens, lexical)
        best = self._entry_max(words)
        idf = self._idf(best)
        covered = self._best_coverage(best, idf)
        if mask is not None:
            words = words * row_mask
            best = self._entry_max(words)
            idf = self._idf(best)
        near = np.where(row_mask, np.maximum(cosines, 0.0), 0.0).astype(np.float64)
        by_row = idf @ words
        alone, together = _relative(self._entry_max(by_row)), _relative(idf @ best)
        nearest, meaning = self._meaning(near)
        fused = WORDS * (ONE_SECTION * alone + (1 - ONE_SECTION) * together) + (1 - WORDS) * meaning
        answers = _relative(by_row) + near
        answer_scores = np.where(self._answers_mask & row_mask, answers, -1.0)
        at = np.append(answer_scores, -2.0)[self._padded].argmax(axis=1)
        rows = self.rows[self._padded[np.arange(len(at)), at]]
        valid = self._entry_max((row_mask & self._answers_mask).astype(np.float64)) > 0
        return EntryScores(
            tokens, idf, best, by_row, near, alone, together, nearest, meaning, fused, valid, rows,
            covered,
        )  # fmt: skip

    def _words(self, tokens: list[str], lexical: LexicalIndex) -> NDArray[np.float32]:
        """Frequency of each token in each row, (tokens, n)."""
        words = np.zeros((len(tokens), len(self.rows)), dtype=np.float32)
        for row, token in zip(words, tokens, strict=True):
            frequencies = self._frequencies.get(token)
            if frequencies is None:
                frequencies = lexical.frequencies(token, self._place)
                if len(frequencies[0]):
                    self._frequencies[token] = frequencies
            row[frequencies[0]] = frequencies[1]
        return words

    def neighbour_gains(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """What each entry gains from related entries, (m,), given the scores of all, (m,)."""
        added = np.zeros(len(scores))
        if len(self.pairs):
            ahead = np.maximum(scores - np.median(scores), 0.0)
            kernel, technique = self.pairs.T
            np.maximum.at(added, technique, FROM_KERNEL * ahead[kernel])
            np.maximum.at(added, kernel, FROM_TECHNIQUE * ahead[technique])
        return added

    def ahead_of_named(
        self, scores: NDArray[np.float64], is_named: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """How far each kernel is ahead of the best named technique that it shows, (m,).

        `scores` (m,) has -inf for entries that the filters leave out; `is_named` (m,) says which
        techniques the query names.
        """
        best = np.full(len(scores), -np.inf)
        if len(self.pairs):
            kernel, technique = self.pairs[is_named[self.pairs[:, 1]]].T
            np.maximum.at(best, kernel, scores[technique])
        ahead = np.zeros(len(scores))
        behind = np.isfinite(best) & np.isfinite(scores)
        ahead[behind] = np.maximum(scores[behind] - best[behind], 0.0)
        return ahead

    def _best_coverage(self, best: NDArray[np.floating], idf: NDArray[np.float64]) -> float | None:
        if len(self.names) < _MIN_ENTRIES:
            return None
        total = float(idf.sum())
        return float((idf @ (best > 0)).max(initial=0.0)) / total if total else 0.0

    def _idf(self, best: NDArray[np.floating]) -> NDArray[np.float64]:
        """Of each token over entries, (tokens,)."""
        idf: NDArray[np.float64] = inverse_frequency((best > 0).sum(axis=1), len(self.names))
        return idf

    def _entry_max(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """The highest value of each entry's rows, (..., m) for (..., n)."""
        ordered = values if self._in_order else values[..., self._order]
        return np.maximum.reduceat(ordered, self._starts, axis=-1)

    def _meaning(
        self, near: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How near each entry's nearest section is; and that with the mean of the few nearest."""
        ordered = np.sort(np.append(-near, 0.0)[self._padded], axis=1)[:, :_NEAREST_COUNT]
        mean: NDArray[np.float64] = ordered.sum(axis=1) / self._counts
        return -ordered[:, 0], -(NEAREST * ordered[:, 0] + (1 - NEAREST) * mean)


def _relative(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Values as shares of the highest."""
    highest = float(values.max(initial=0.0))
    return np.asarray(values / highest if highest else values, dtype=np.float64)
