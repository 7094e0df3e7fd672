"""Which techniques a question's words indicate, learned from questions written for training.

A linear model over the question's words, pairs of words and pieces of words, each with a row of
weights under its hash. It is as good as the network over embeddings (`kb/search/classifier.py`) and
makes other mistakes: an embedding of 384 numbers does not tell that `LDG` was followed by `STS`,
and a table of words does not recognise two wordings of one cause. Trained by
`python -m benchmarks.retrieval.learn`.
"""

import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kb.index.tokens import terms

# About what the embedder reads; the cost stays below a millisecond.
MOST_CHARACTERS = 1_500
# Pieces are cut from each word with a space on either side. Lengths of 3 and 5 beside it, and twice
# as many rows, were no better.
PIECE_LENGTH = 4
KINDS = 2
"""Kinds of features, each of length 1 together: words with pairs of them, and pieces."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Wording:
    """A linear model over hashed words and pieces of words."""

    rarity: NDArray[np.float32]
    """How rare what has each hash is, `KINDS` tables of one size, (KINDS, rows); 0: not known."""
    weights: NDArray[np.int8]
    """(KINDS, rows, outputs)."""
    scale: NDArray[np.float32]
    """What a weight of 1 is, (outputs,)."""
    bias: NDArray[np.float32]
    """(outputs,)."""

    def log_probabilities(self, text: str) -> Floats:
        """The log-probability of each output for a question, (outputs,)."""
        logits = self.bias.astype(np.float64)
        for kind, counts in enumerate(hash_features(text, self.rarity.shape[1])):
            rows, values = weigh(counts, self.rarity[kind])
            logits += (values @ self.weights[kind, rows]) * self.scale
        return log_softmax(logits)


def log_softmax(logits: Floats) -> Floats:
    """Log-probabilities over the last dimension."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def hash_features(text: str, rows: int) -> tuple[Counter[int], Counter[int]]:
    """Row → number of occurrences, for words and their pairs, and for pieces of words."""
    excerpt = text[:MOST_CHARACTERS]
    words = terms(excerpt)
    pairs = (f"{first} {second}" for first, second in pairwise(words))
    return _rows((*words, *pairs), rows), _rows(_pieces(excerpt), rows)


def weigh(counts: Counter[int], rarity: NDArray[np.float32]) -> tuple[NDArray[np.intp], Floats]:
    """Known rows, and their weights, normalized to length 1."""
    rows = np.fromiter(sorted(counts), np.intp, len(counts))
    often = np.array([counts[row] for row in rows.tolist()], dtype=np.float64)
    rows, often = rows[rarity[rows] > 0], often[rarity[rows] > 0]
    values: Floats = (1 + np.log(often)) * rarity[rows]
    return rows, values / max(float(np.sqrt(np.vecdot(values, values))), 1e-9)


def _rows(features: Iterable[str], rows: int) -> Counter[int]:
    return Counter(zlib.crc32(feature.encode("utf-8", "replace")) % rows for feature in features)


def _pieces(text: str) -> Iterable[str]:
    for word in text.lower().split():
        spaced = f" {word} "
        for start in range(len(spaced) - PIECE_LENGTH + 1):
            yield spaced[start : start + PIECE_LENGTH]
