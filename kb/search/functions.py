"""Fitted corrections to the fused scores of functions.

The fused score counts a word the same wherever it stands. The weights of other features (query
words are in the function's name, all of them occur, the function is long) were fitted on judged
queries (`python -m benchmarks.retrieval.fit_functions`). The correction is linear.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kb.index.lexical import split_symbol
from kb.index.reader import Generation
from kb.index.tokens import spaced, terms
from kb.search.query import Understanding
from kb.search.weights import read_weights, shift_to_best

Floats = NDArray[np.float64]

# Code that does nothing itself: heads of classes; imports and constants.
_IDLE_ROLES = ("type", "other")
FEATURES = (
    "words",
    "meaning",
    "words, by length",
    "covered",
    "covered by name",
    "name covered",
    *(f"role: {role}" for role in _IDLE_ROLES),
    "later part",
    "distinct terms",
)
"""What is weighed, in the order of `FunctionWeighing.features`."""

# Of a longer name these many count; of 4,346 names of packages the longest has 9.
_MAX_TERMS = 12

# A pasted kernel's name is its author's word for what it computes; what has the same name computes
# the same more often than not. Kernels of the development half: 0.547 without, 0.591 at 0.3, 0.601
# at 0.4, 0.600 at 0.5.
ALIKE_IN_NAME = 0.4


class Candidates(NamedTuple):
    """Chunks outside entries, with their scores by a query's words and meaning, (n,) each."""

    rows: NDArray[np.intp]
    """Ascending."""
    words: NDArray[np.floating]
    """BM25, relative to the best of the query."""
    cosines: NDArray[np.floating]
    """Of the query, not below 0."""
    fused: NDArray[np.floating]


class FunctionWeighing:
    """The features of one generation's functions, and what they add to the scores."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        columns = generation.columns
        self._symbols = columns["symbols"]
        self._roles = columns["roles"]
        self._idle = np.array(
            [[values == (role,) for values in self._roles.values] for role in _IDLE_ROLES]
        )
        self._is_code = columns["kinds"].accepted_codes(lambda values: values[0] == "code")
        # Symbol's code → the numbers of the terms of its last name, filled up with 0, and how rare
        # they are together; all 0 until the symbol is first seen.
        self._names = np.zeros((len(self._symbols.values), _MAX_TERMS), dtype=np.int32)
        self._own = np.zeros(len(self._names))
        # Term of any of them → its number, and how rare it is.
        self._terms: dict[str, tuple[int, float]] = {}
        self._next = count(1)
        weights = read_weights("function_weights.yaml")
        self._weights = np.array([weights.features[name] for name in FEATURES])
        self.applies: bool = generation.manifest.embedder == weights.embedder
        """Whether the embedder is the one that was fitted with."""

    def corrections(
        self,
        intent: Understanding,
        tokens: Sequence[str],
        candidates: Candidates,
        totals: Floats,
    ) -> Floats:
        """What is added to the score of each candidate, (n,); 0 for what is not code.

        Corrections reorder code only: the best chunk of code keeps its position relative to entries
        and documents. `totals`, (n,), is what metadata adds, and `tokens` are the query's.
        """
        adjusted = np.zeros(len(candidates.rows))
        code = self._is_code[self._generation.columns["kinds"].codes[candidates.rows]]
        if not code.any() or not (self.applies or intent.pasted is not None):
            return adjusted
        rows, words, cosines, fused = candidates
        pool = Candidates(rows[code], words[code], cosines[code], fused[code])
        if intent.pasted is not None:
            corrections = ALIKE_IN_NAME * self.alike(intent.pasted.names, pool.rows)
        else:
            corrections = self._weights @ self.features(tokens, pool)
        adjusted[code] = shift_to_best(corrections, pool.fused + totals[code])
        return adjusted

    def features(self, tokens: Sequence[str], candidates: Candidates) -> Floats:
        """`FEATURES` of each candidate, (features, n), for a query of these distinct tokens."""
        rows, words, cosines, _ = candidates
        lexical = self._generation.lexical
        information = {token: lexical.idf(token) for token in tokens}
        total = max(sum(information.values()), 1e-9)
        covered = np.zeros(len(rows))
        for token, worth in information.items():
            covered[lexical.holding(token, rows)] += worth
        shared, own = self._shared(information, rows)
        return np.vstack(
            (
                words,
                cosines,
                words * np.log1p(len(tokens)),
                covered / total,
                shared / total,
                shared / np.maximum(own, 1e-9),
                self._idle[:, self._roles.codes[rows]],
                self._later[rows],
                np.log1p(lexical.distinct[rows]),
            )
        )

    def alike(self, names: Sequence[str], rows: NDArray[np.intp]) -> Floats:
        """How much information each candidate's name shares with the most similar of these, (n,).

        Dice's coefficient, terms weighted by inverse frequency; 1 for a name with equal terms.
        """
        best = np.zeros(len(rows))
        for name in names:
            information = {term: self._generation.lexical.idf(term) for term in name_terms(name)}
            shared, own = self._shared(information, rows)
            total = sum(information.values())
            best = np.maximum(best, 2 * shared / np.maximum(own + total, 1e-9))
        return best

    def _shared(
        self, information: Mapping[str, float], rows: NDArray[np.intp]
    ) -> tuple[Floats, Floats]:
        """The information of given terms that each candidate's name has, and of all its own."""
        codes = self._symbols.codes[rows]
        for code in set(codes[self._names[codes, 0] == 0].tolist()):
            self._register_name(code)
        names, shared = self._names[codes], np.zeros(len(rows))
        for term, worth in information.items():
            if (numbered := self._terms.get(term)) is not None:
                shared[(names == numbered[0]).any(axis=1)] += worth
        return shared, self._own[codes]

    def _register_name(self, code: int) -> None:
        symbol = self._symbols.values[code]
        names = sorted(name_terms(symbol[0]))[:_MAX_TERMS] if symbol else []
        numbered = [self._terms.get(term) or self._register_term(term) for term in names]
        self._own[code] = sum(rarity for _, rarity in numbered)
        numbers = [number for number, _ in numbered] or [-1]
        self._names[code, : len(numbers)] = numbers

    def _register_term(self, term: str) -> tuple[int, float]:
        numbered = (next(self._next), self._generation.lexical.idf(term))
        return self._terms.setdefault(term, numbered)

    @cached_property
    def _later(self) -> Floats:
        """1 for each chunk whose file has an earlier one of the same name, (chunks,)."""
        columns = self._generation.columns
        key = np.zeros(columns.count, dtype=np.int64)
        for name in ("sources", "paths", "symbols"):
            key = key * len(columns[name].values) + columns[name].codes
        _, firsts = np.unique(key, return_index=True)
        later = np.ones(columns.count)
        later[firsts] = 0.0
        return later


def name_terms(symbol: str) -> frozenset[str]:
    """The terms of a symbol's last name, without the name as a whole."""
    return frozenset(terms(spaced(split_symbol(symbol)[1])))
