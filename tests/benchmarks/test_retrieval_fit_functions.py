"""The fit of functions' weights: it finds what decides, and leaves alone what needs no help."""

import numpy as np
import pytest

from benchmarks.retrieval.cases import Answer, Case
from benchmarks.retrieval.fit_functions import Query, fit
from kb.search.functions import FEATURES

QUERIES, CANDIDATES = 200, 30
DECIDES = FEATURES.index("covered by name")


def judged(decided_by):
    """Queries whose answer is the candidate that a function of scores and features puts first."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(QUERIES):
        scores = rng.random(CANDIDATES)
        features = rng.random((CANDIDATES, len(FEATURES)))
        right = np.zeros(CANDIDATES, dtype=np.bool_)
        right[decided_by(scores, features).argmax()] = True
        units = [f"chunk:{number}-{place}" for place in range(CANDIDATES)]
        answer = Answer("function", frozenset({units[int(right.argmax())]}))
        found.append(Query(Case(str(number), "", (answer,)), units, scores, features, right))
    return found


def share_found(queries, weights):
    return np.mean(
        [query.right[(query.scores + query.features @ weights).argmax()] for query in queries]
    )


def test_the_feature_that_decides_beside_the_score_gets_the_weight():
    queries = judged(lambda scores, features: scores + 0.5 * features[:, DECIDES])
    weights = fit(queries[: QUERIES // 2])
    assert np.abs(weights).argmax() == DECIDES
    assert weights[DECIDES] == pytest.approx(0.5, abs=0.25)
    held_out = queries[QUERIES // 2 :]
    assert share_found(held_out, weights) > share_found(held_out, np.zeros(len(FEATURES))) + 0.2


def test_a_score_that_is_right_is_hardly_changed():
    queries = judged(lambda scores, _: scores)
    weights = fit(queries)
    assert np.abs(weights).max() < 0.05
    assert share_found(queries, weights) > 0.9


def test_queries_without_their_answer_among_the_candidates_say_nothing():
    queries = judged(lambda scores, features: scores + 0.5 * features[:, DECIDES])
    lost = [query._replace(right=np.zeros(CANDIDATES, dtype=np.bool_)) for query in queries[:50]]
    assert np.allclose(fit(queries[50:]), fit([*lost, *queries[50:]]))
