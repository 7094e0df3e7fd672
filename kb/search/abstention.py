"""Whether anything in the index answers a query at all, as a calibrated probability."""

import math
from dataclasses import astuple, dataclass
from functools import cache

from kb.vocabulary import read_data


@dataclass(frozen=True, slots=True)
class Evidence:
    """The features of the best answers to a query, in the order of the calibrated weights."""

    similarity: float
    """Highest cosine between the query and a chunk."""
    support: float
    """Mean cosine of the ten nearest chunks: one chance hit is not a topic."""
    coverage: float
    """Share of the query's information (sum of idf) found in the chunk that has most of it."""
    named: float
    """The largest share of the query's words that name a technique: of many words two name one by
    chance."""
    identified: float
    """1 if the query gives a metric with its value, an identifier that the index defines or that a
    technique is known by, or a kernel; or if it is one word that the index has."""
    covered: float
    """Share of the query's information, by how rare words are among entries, that one entry holds.

    In tens of thousands of functions some hold any few words by chance."""
    operator: float
    """1 if the query names an operator."""
    length: float
    """ln(1 + the query's words), at least of five: a few words are covered by chance."""
    known: float
    """Share of the query's words that the index has."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Weights of a logistic regression, fitted by `benchmarks/abstention/calibrate.py`."""

    bias: float
    weights: tuple[float, ...]
    threshold: float
    """Below this probability the answer is "nothing relevant"."""


@cache
def calibration(embedder: str) -> Calibration:
    """The calibration for an embedder; the default embedder's if this one has none.

    Cosines mean different things under different models, so each has its own weights.
    """
    data = read_data("abstention.yaml")
    chosen = data["embedders"].get(embedder) or data["embedders"][data["default"]]
    return Calibration(chosen["bias"], tuple(chosen["weights"]), chosen["threshold"])


def relevance(evidence: Evidence, weights: Calibration) -> float:
    """Probability that the index answers the query, in [0, 1]."""
    pairs = zip(weights.weights, astuple(evidence), strict=True)
    logit = weights.bias + sum(weight * value for weight, value in pairs)
    return 1.0 / (1.0 + math.exp(-logit))
