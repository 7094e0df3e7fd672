"""Fit the weights of sections, names and neighbours: `python -m benchmarks.retrieval.fit`.

The weights of `kb/search/weighing.py`, on the development half of the technique queries over the
shipped corpus: other chunks hardly change the scores of entries. The scores of all entries
for a query go through a softmax, whose cross-entropy to the squared grades is made small (ListNet:
Cao et al., Learning to rank, ICML 2007); the score without weights is one feature among the others.
It prints the scores of cross-validation over queries; `--write` puts the weights of the whole
development half into `kb/data/entry_weights.yaml`. The test half is not read.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize  # type: ignore[import-untyped]
from scipy.special import log_softmax, softmax  # type: ignore[import-untyped]

from benchmarks.retrieval.cases import Case
from benchmarks.retrieval.fitting import DATA, make_parser, report, write_weights
from benchmarks.retrieval.indexes import build_index, open_index
from benchmarks.retrieval.judgements import technique_cases
from benchmarks.retrieval.metrics import rank_metrics
from kb.embedders import Embedder, load_embedder
from kb.index.reader import Generation
from kb.search.classifier import Classifier
from kb.search.entries import Entries
from kb.search.names import NamedRows
from kb.search.query import QueryReader
from kb.search.query_terms import query_terms
from kb.search.ranking import Ranker
from kb.search.weighing import FEATURES, Weighing
from kb.search.weights import Weights

_TARGET = DATA / "entry_weights.yaml"
# Of squared weights of features of unit variance. Cross-validation was flat from 0.02 to 0.1.
_PENALTY = 0.05
# A grade of 3 is worth nine of 1: full answers should come first. Squares and cubes were 0.002
# above the grades themselves in cross-validation.
_POWER = 2.0
_FOLDS = 8
_SEEDS = 3
# Code is not weighed. So the weighed scores of entries get the spread of those without weights, as
# far as they are seen: from the best one to the tenth.
_SEEN = 10
_HEAD = (
    "# What each feature of an entry adds to its score: see kb/search/weighing.py.\n"
    "# Written by `python -m benchmarks.retrieval.fit --write`.\n"
)
Floats = NDArray[np.float64]


def features_of(
    cases: Sequence[Case], generation: Generation, embedder: Embedder
) -> tuple[Floats, Floats, tuple[str, ...]]:
    """(queries, m, features), the unweighed score first; grades, (queries, m); names, (m,)."""
    reader, entries = QueryReader(generation), Entries(generation)
    names, weighing = NamedRows(generation.columns), Weighing(generation, entries)
    classifier = Classifier(embedder.name, entries.places)
    rows, grades = [], []
    for case in cases:
        intent = reader.read(case.query)
        vector = embedder.embed_query(intent.text)
        cosines = generation.vectors.rows[entries.rows] @ vector
        tokens = query_terms(intent, generation.lexical)
        scores = entries.score(tokens, generation.lexical, cosines, None)
        ranker = Ranker(intent, generation, names)
        signals = ranker.signals(entries.places)
        gains = entries.neighbour_gains(scores.fused + signals.named + signals.gates)
        unweighted = scores.fused + gains + ranker.totals(scores.best_rows)
        likelihoods = classifier.likelihoods(vector, intent.text)
        rows.append(weighing.features(scores, intent, signals, unweighted, likelihoods).T)
        graded = {answer.name: answer.grade for answer in case.answers}
        grades.append([graded.get(name, 0) for name in entries.names])
    return np.array(rows), np.array(grades, dtype=np.float64), entries.names


def fit(features: Floats, grades: Floats) -> Floats:
    """A weight per feature, (features,), for (queries, m, features) and grades (queries, m)."""
    scale = features.std(axis=(0, 1)) + 1e-6
    scaled = features / scale
    target = grades**_POWER
    target /= target.sum(axis=1, keepdims=True)

    def loss(weights: Floats) -> tuple[float, Floats]:
        scores = scaled @ weights
        value = -(target * log_softmax(scores, axis=1)).sum(axis=1).mean()
        residual = (softmax(scores, axis=1) - target) / len(scores)
        gradient = np.tensordot(residual, scaled, axes=((0, 1), (0, 1))) + 2 * _PENALTY * weights
        return float(value + _PENALTY * weights @ weights), gradient

    result = minimize(loss, np.zeros(scaled.shape[-1]), jac=True, method="L-BFGS-B")
    return np.asarray(result.x / scale)


def main() -> None:
    """Cross-validate, and with `--write` record the weights."""
    arguments = make_parser(__doc__, write="record the weights").parse_args()
    embedder = load_embedder()
    built = build_index("corpus", arguments.work, embedder)
    with open_index(built.folder) as corpus:
        cases = [case for case in technique_cases(corpus) if case.half == "dev"]
        features, grades, names = features_of(cases, corpus.generation, embedder)

    def show(name: str, *scored: Floats) -> None:
        """By style, as a mean over `scored`."""
        pairs = [pair for scores in scored for pair in zip(cases, scores, strict=True)]
        report(name, ((case.labels["style"], entry_score(case, s, names)) for case, s in pairs))

    show("without weights", features[..., 0])
    show("cross-validated", *(cross_validated(features, grades, seed) for seed in range(_SEEDS)))
    weights = fit(features, grades)
    show("fitted on all", features @ weights)
    if arguments.write:
        write(embedder.name, features, weights)


def write(embedder: str, features: Floats, weights: Floats) -> None:
    """Write what each feature adds to the score without weights, which is the first feature."""
    weights = weights * _spread(features[..., 0]) / _spread(features @ weights)
    weights[0] -= 1.0
    by_name = dict(zip(FEATURES, weights.tolist(), strict=True))
    write_weights(_TARGET, _HEAD, Weights(embedder, by_name))


def _spread(scores: Floats) -> float:
    """Mean difference of a query's best score and its `_SEEN`th."""
    ordered = -np.sort(-scores, axis=1)
    return float((ordered[:, 0] - ordered[:, _SEEN - 1]).mean())


def cross_validated(features: Floats, grades: Floats, seed: int) -> Floats:
    """Scores of each fold's entries, (queries, m), by the weights of the other folds."""
    fold = np.random.default_rng(seed).permutation(len(features)) % _FOLDS
    scores = np.zeros(grades.shape)
    for number in range(_FOLDS):
        held_out = fold == number
        scores[held_out] = features[held_out] @ fit(features[~held_out], grades[~held_out])
    return scores


def entry_score(case: Case, scores: Floats, names: tuple[str, ...]) -> float:
    """nDCG@10 of a query among entries alone, by the scores of all, (m,)."""
    ranking = [names[row] for row in np.argsort(-scores, kind="stable")]
    return rank_metrics(ranking, case.answers)["nDCG@10"]


if __name__ == "__main__":
    main()
