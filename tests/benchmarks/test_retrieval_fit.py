"""The fit of entries' weights: it finds what decides, and keeps the scale of scores."""

import numpy as np
import yaml

from benchmarks.retrieval import fit
from kb.search.weighing import FEATURES

QUERIES, ENTRIES = 360, 30


def judged():
    """Queries whose answer is the entry with the highest third feature."""
    rng = np.random.default_rng(0)
    features = rng.random((QUERIES, ENTRIES, len(FEATURES)))
    grades = np.zeros((QUERIES, ENTRIES))
    grades[np.arange(QUERIES), features[..., 2].argmax(axis=1)] = 3.0
    return features, grades


def test_the_feature_that_decides_gets_the_weight():
    features, grades = judged()
    weights = fit.fit(features, grades)
    assert weights.argmax() == 2
    first = (features @ weights).argmax(axis=1) == grades.argmax(axis=1)
    assert first.mean() > 0.7
    held_out = fit.cross_validated(features, grades, 0)
    assert (held_out.argmax(axis=1) == grades.argmax(axis=1)).mean() > 0.5


def test_weighed_scores_keep_the_spread_of_those_without(tmp_path, monkeypatch):
    features, grades = judged()
    monkeypatch.setattr(fit, "_TARGET", tmp_path / "weights.yaml")
    fit.write("some-model", features, fit.fit(features, grades))
    found = yaml.safe_load((tmp_path / "weights.yaml").read_text())
    assert found["embedder"] == "some-model"
    weights = np.array([found["features"][name] for name in FEATURES])
    weighed = features[..., 0] + features @ weights
    assert np.isclose(fit._spread(weighed), fit._spread(features[..., 0]), atol=0.01)
