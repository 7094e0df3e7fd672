"""Fit the weights of a function's name and other features: `benchmarks.retrieval.fit_functions`.

The weights of `kb/search/functions.py`, on the development half of all function queries that the
rules of `benchmarks/retrieval/functions.py` allow over all packages; sets are chosen from them. The
candidates of a query go through a softmax, whose cross-entropy to the answer is minimized. The
score without weights has a fixed weight, the best one for it alone: it is nearly a sum of the
features, and a free weight came out below zero. It prints the scores of cross-validation that
leaves out one package at a time; `--write` puts the weights of the whole development half into
`kb/data/function_weights.yaml`. The test half is not read.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar  # type: ignore[import-untyped]

from benchmarks.retrieval.cases import Case
from benchmarks.retrieval.fitting import DATA, make_parser, report, write_weights
from benchmarks.retrieval.functions import eligible_cases
from benchmarks.retrieval.indexes import Corpus, build_index, open_index
from benchmarks.retrieval.metrics import named_answers, rank_metrics
from kb.embedders import Embedder, load_embedder
from kb.index.vectors import top
from kb.search.engine import CANDIDATES, WORDS
from kb.search.functions import FEATURES, Candidates, FunctionWeighing
from kb.search.names import NamedRows
from kb.search.query import QueryReader
from kb.search.query_terms import query_terms
from kb.search.ranking import Ranker
from kb.search.weights import Weights

_TARGET = DATA / "function_weights.yaml"
# Of squared weights of features of unit variance. Cross-validation was flat from 0.0003 to 0.003.
_PENALTY = 0.001
# Of the score without weights; no fit came near it.
_STEEPEST = 100.0
_HEAD = (
    "# What each feature of a function adds to its score: see kb/search/functions.py.\n"
    "# Written by `python -m benchmarks.retrieval.fit_functions --write`.\n"
)
Floats = NDArray[np.float64]


class Query(NamedTuple):
    """One query with its candidates, (n,) each."""

    case: Case
    units: list[str]
    scores: Floats
    """Without weights."""
    features: Floats
    """(n, features)."""
    right: NDArray[np.bool_]

    @property
    def package(self) -> str:
        """Of the function that is asked for."""
        return self.case.labels["package"]


def queries_of(cases: Sequence[Case], corpus: Corpus, embedder: Embedder) -> list[Query]:
    """The candidates of every query, as search has them before they are weighed."""
    generation = corpus.generation
    reader, names = QueryReader(generation), NamedRows(generation.columns)
    weighing = FunctionWeighing(generation)
    code = corpus.of_kinds(frozenset({"code"}))
    queries = []
    for case in cases:
        intent = reader.read(case.query)
        tokens = query_terms(intent, generation.lexical)
        words = generation.lexical.scores(tokens)
        similarities = generation.vectors.similarities(embedder.embed_query(intent.text))
        orders = (top(words, CANDIDATES, code & (words > 0)), top(similarities, CANDIDATES, code))
        defined = names.definitions(intent.symbols)
        rows = np.unique(np.concatenate((*orders, defined[code[defined]])))
        relative = words[rows] / (float(words[code].max(initial=0.0)) or 1.0)
        cosines = np.maximum(similarities[rows], 0.0)
        fused = WORDS * relative + (1 - WORDS) * cosines
        scores = fused + Ranker(intent, generation, names).totals(rows)
        features = weighing.features(tokens, Candidates(rows, relative, cosines, fused))
        units = [corpus.units[row] for row in rows.tolist()]
        answer_units = frozenset().union(*(answer.units for answer in case.answers))
        right = np.array([unit in answer_units for unit in units], dtype=np.bool_)
        queries.append(Query(case, units, scores, features.T, right))
    return queries


def fit(queries: Sequence[Query]) -> Floats:
    """What each feature adds, (features,), in units of the score; of queries with their answer
    among the candidates."""
    queries = [query for query in queries if query.right.any()]
    counts = [len(query.units) for query in queries]
    starts = np.cumsum([0, *counts])[:-1]
    query_ids = np.repeat(np.arange(len(queries)), counts)
    features, scores, right = (
        np.concatenate([getattr(query, name) for query in queries])
        for name in ("features", "scores", "right")
    )
    scale = features.std(axis=0) + 1e-6
    scaled = features / scale

    def loss(logits: Floats) -> tuple[float, Floats]:
        """Mean of -ln of the answers' share, and its gradient."""
        shares = np.exp(logits - np.maximum.reduceat(logits, starts)[query_ids])
        shares /= np.add.reduceat(shares, starts)[query_ids]
        answers = np.maximum(np.add.reduceat(shares * right, starts), 1e-30)
        gradient = shares - shares * right / answers[query_ids]
        return -float(np.log(answers).mean()), gradient / len(queries)

    steepness = minimize_scalar(
        lambda steepness: loss(steepness * scores)[0], bounds=(1.0, _STEEPEST), method="bounded"
    ).x

    def penalized(weights: Floats) -> tuple[float, Floats]:
        value, gradient = loss(steepness * scores + scaled @ weights)
        value += _PENALTY * float(weights @ weights)
        return value, scaled.T @ gradient + 2 * _PENALTY * weights

    solution = minimize(penalized, np.zeros(len(scale)), jac=True, method="L-BFGS-B").x
    return np.asarray(solution / scale / steepness)


def main() -> None:
    """Cross-validate, and with `--write` record the weights."""
    arguments = make_parser(__doc__, write="record the weights").parse_args()
    embedder = load_embedder()
    built = build_index("full", arguments.work, embedder)
    with open_index(built.folder) as corpus:
        cases = [case for case in eligible_cases(built, corpus) if case.half == "dev"]
        queries = queries_of(cases, corpus, embedder)
    zeros = np.zeros(len(FEATURES))
    print(f"{len(queries)} queries")
    _report("without weights", lambda _: zeros, queries)
    without_package = {
        package: fit([query for query in queries if query.package != package])
        for package in {query.package for query in queries}
    }
    _report("each package by the others", without_package.__getitem__, queries)
    weights = fit(queries)
    _report("fitted on all", lambda _: weights, queries)
    if arguments.write:
        by_name = dict(zip(FEATURES, weights.tolist(), strict=True))
        write_weights(_TARGET, _HEAD, Weights(embedder.name, by_name))


def _report(name: str, weights: Callable[[str], Floats], queries: Sequence[Query]) -> None:
    """Among functions, before copies are folded, by package; `weights` are for a package."""
    scored = []
    for query in sorted(queries, key=lambda query: query.package):
        scores = query.scores + query.features @ weights(query.package)
        order = np.argsort(-scores, kind="stable")
        ranking = named_answers([query.units[row] for row in order], query.case.answers)
        scored.append((query.package, rank_metrics(ranking, query.case.answers)["nDCG@10"]))
    report(name, scored)


if __name__ == "__main__":
    main()
