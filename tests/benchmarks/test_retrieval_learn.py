"""Training the classifier: what is learned, from what, and that it comes out the same again."""

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.retrieval import learn
from benchmarks.retrieval.teaching import Question
from kb.search import classifier

SLUGS = ("split-k", "stream-k")


def taught(count=240):
    """Questions whose first three components say what answers them: one of two, or nothing."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(3, size=count)
    vectors = rng.normal(0, 0.05, (count, 8))
    vectors[np.arange(count), kinds] += 1
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    graded = [{SLUGS[0]: 3}, {SLUGS[1]: 3}, {}]
    questions = [
        Question(str(n), "agent", "symptom", graded[kind], "a", f"a/{n}")
        for n, kind in enumerate(kinds)
    ]
    return learn.Teaching(questions, vectors.astype(np.float32), np.arange(count)), kinds


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(learn, "_UNITS", 16)
    monkeypatch.setattr(learn, "_EPOCHS", 60)


def test_a_network_tells_techniques_and_nothing_apart_and_comes_out_the_same_again(small):
    lesson, kinds = taught()
    networks = [learn.train(lesson, SLUGS, "model") for _ in range(2)]
    logs = networks[0].log_probabilities(lesson.vectors)
    assert np.allclose(np.exp(logs).sum(axis=1), 1.0)
    assert (logs.argmax(axis=1) == kinds).mean() > 0.95
    assert (networks[1].log_probabilities(lesson.vectors) == logs).all()


def test_grades_are_shared_out_by_their_squares_among_the_techniques_that_are_taught():
    asked = [
        Question("a", "agent", "symptom", {"split-k": 3, "stream-k": 1}, "a", "a/1"),
        Question("b", "agent", "symptom", {"stream-k": 3, "other": 3}, "a", "a/2"),
        Question("c", "agent", "symptom", {"other": 3}, "a", "a/3"),
        Question("d", "agent", "nothing applies", {}, "a", "a/4"),
    ]
    assert learn.targets(asked, SLUGS) == pytest.approx(
        np.array([[0.9, 0.1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]])
    )


def test_what_is_recorded_is_what_the_product_reads(small, tmp_path, monkeypatch):
    lesson, _ = taught()
    network = learn.train(lesson, SLUGS, "model")
    monkeypatch.setattr(learn, "_TARGET", tmp_path / classifier.FILE)
    learn.write(network)
    first = (tmp_path / classifier.FILE).read_bytes()
    learn.write(network)
    assert (tmp_path / classifier.FILE).read_bytes() == first
    (tmp_path / "data").mkdir()
    (tmp_path / classifier.FILE).rename(tmp_path / "data" / classifier.FILE)
    monkeypatch.setattr(classifier, "files", lambda _package: tmp_path)
    read = classifier.shipped_network.__wrapped__()
    assert (read.embedder, read.techniques) == ("model", SLUGS)
    stored, trained = (each.log_probabilities(lesson.vectors) for each in (read, network))
    assert np.abs(np.exp(stored) - np.exp(trained)).max() < 0.01
