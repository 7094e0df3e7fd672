"""Trains the model of `kb/search/wording.py`, for `benchmarks.retrieval.learn`.

A softmax over hashed words and pieces of words, by the cross-entropy to the target outputs and a
penalty on squared weights, as one convex problem: no seed, and the same machine gives the same.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize  # type: ignore[import-untyped]
from scipy.sparse import csr_matrix  # type: ignore[import-untyped]
from scipy.special import log_softmax  # type: ignore[import-untyped]

from kb.search.wording import KINDS, Wording, hash_features, weigh

# Rows of hashes for each kind of features. Chosen, as all of these, on held-out situations of the
# teaching set.
_ROWS = 1 << 14
# What occurs in fewer questions is not known.
_FEWEST = 2
_PENALTY = 1e-5
_STEPS = 60
_LARGEST = 127

Floats = NDArray[np.float64]


def train_wording(
    texts: Sequence[str], targets: NDArray[np.float32], weights: NDArray[np.float32]
) -> Wording:
    """A model of questions.

    Parameters
    ----------
    targets
        The target of each output, (n, outputs), rows of sum 1 or 0.
    weights
        How much each question counts, (n,).
    """
    counts = [hash_features(text, _ROWS) for text in texts]
    rarity = np.stack([_rarity([count[kind] for count in counts]) for kind in range(KINDS)])
    features = _matrix(counts, rarity)
    # Rows that no question has keep no weights, and take no part.
    used = np.unique(features.indices)
    outputs = targets.shape[1]
    fitted, bias = _fit(features[:, used], targets.astype(np.float64), weights / weights.sum())
    scale = (np.abs(fitted).max(axis=0) / _LARGEST).astype(np.float32) + np.float32(1e-9)
    table = np.zeros((KINDS * _ROWS, outputs), dtype=np.int8)
    table[used] = np.rint(fitted / scale)
    return Wording(rarity, table.reshape(KINDS, _ROWS, outputs), scale, bias.astype(np.float32))


def _rarity(counts: Sequence[Counter[int]]) -> NDArray[np.float32]:
    """Of each row, (rows,); at half precision, as it is stored."""
    question_counts = np.zeros(_ROWS)
    for count in counts:
        question_counts[list(count)] += 1
    rarity = np.log((len(counts) + 1) / (question_counts + 1)) + 1
    rarity[question_counts < _FEWEST] = 0
    return rarity.astype(np.float16).astype(np.float32)


def _matrix(
    counts: Sequence[tuple[Counter[int], Counter[int]]], rarity: NDArray[np.float32]
) -> csr_matrix:
    """Features of each question, (n, KINDS * rows)."""
    columns, values, ends = [], [], [0]
    for kind_counts in counts:
        parts = [weigh(count, rarity[kind]) for kind, count in enumerate(kind_counts)]
        columns += [rows + kind * _ROWS for kind, (rows, _) in enumerate(parts)]
        values += [part_values for _, part_values in parts]
        ends.append(ends[-1] + sum(len(rows) for rows, _ in parts))
    data = (np.concatenate(values), np.concatenate(columns), ends)
    return csr_matrix(data, shape=(len(counts), KINDS * _ROWS))


def _fit(features: csr_matrix, targets: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Weights (features, outputs) and bias (outputs,)."""
    columns = features.T.tocsr()
    outputs = targets.shape[1]
    weighted = shares[:, None] * targets
    row_sums = weighted.sum(axis=1, keepdims=True)

    def loss(flat: Floats) -> tuple[float, Floats]:
        table = flat.reshape(-1, outputs)
        logs = log_softmax(features @ table[:-1] + table[-1], axis=1)
        value = -(weighted * logs).sum() + _PENALTY * (table[:-1] ** 2).sum()
        residual = row_sums * np.exp(logs) - weighted
        gradient = np.vstack((columns @ residual + 2 * _PENALTY * table[:-1], residual.sum(axis=0)))
        return float(value), gradient.ravel()

    start = np.zeros((features.shape[1] + 1) * outputs)
    options = {"maxiter": _STEPS, "maxcor": 6}
    result = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    table = result.x.reshape(-1, outputs)
    return table[:-1], table[-1]
