"""Training the classifier: what is learned, from what, and that it comes out the same again."""

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.retrieval import learn, learn_wording
from benchmarks.retrieval.teaching import Question
from kb.search import classifier

SLUGS = ("split-k", "stream-k")
WORDS = ("few blocks", "ragged waves", "lentils")


def taught(count=240):
    """Questions whose first three components, and whose words, say what answers them: one of two
    techniques, or nothing."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(3, size=count)
    vectors = rng.normal(0, 0.05, (count, 8))
    vectors[np.arange(count), kinds] += 1
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    graded = [{SLUGS[0]: 3}, {SLUGS[1]: 3}, {}]
    questions = [
        Question(f"{WORDS[kind]} {n}", "symptom", graded[kind], "a", f"a/{n}")
        for n, kind in enumerate(kinds)
    ]
    return learn.TeachingSet(questions, vectors.astype(np.float32), np.arange(count)), kinds


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(learn, "_UNITS", 16)
    monkeypatch.setattr(learn, "_EPOCHS", 60)
    monkeypatch.setattr(learn_wording, "_ROWS", 256)


def probabilities(learned, lesson):
    """By the network and by the words, (n, outputs) each."""
    by_words = [learned.wording.log_probabilities(each.text) for each in lesson.questions]
    return np.exp(learned.network.log_probabilities(lesson.vectors)), np.exp(by_words)


def test_both_models_tell_techniques_and_nothing_apart_and_come_out_the_same_again(small):
    lesson, kinds = taught()
    first, second = (probabilities(learn.train(lesson, SLUGS, "model"), lesson) for _ in range(2))
    for found, again in zip(first, second, strict=True):
        assert np.allclose(found.sum(axis=1), 1.0)
        assert (found.argmax(axis=1) == kinds).mean() > 0.95
        assert (found == again).all()


def test_grades_are_shared_out_by_their_squares_among_the_techniques_that_are_taught():
    asked = [
        Question("a", "symptom", {"split-k": 3, "stream-k": 1}, "a", "a/1"),
        Question("b", "symptom", {"stream-k": 3, "other": 3}, "a", "a/2"),
        Question("c", "symptom", {"other": 3}, "a", "a/3"),
        Question("d", "nothing applies", {}, "a", "a/4"),
    ]
    assert learn.targets(asked, SLUGS) == pytest.approx(
        np.array([[0.9, 0.1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]])
    )


def test_what_is_recorded_is_what_the_product_reads(small, tmp_path, monkeypatch):
    lesson, _ = taught()
    learned = learn.train(lesson, SLUGS, "model")
    monkeypatch.setattr(learn, "_TARGET", tmp_path / classifier.FILE)
    learn.write(learned)
    first = (tmp_path / classifier.FILE).read_bytes()
    learn.write(learned)
    assert (tmp_path / classifier.FILE).read_bytes() == first
    (tmp_path / "data").mkdir()
    (tmp_path / classifier.FILE).rename(tmp_path / "data" / classifier.FILE)
    monkeypatch.setattr(classifier, "files", lambda _package: tmp_path)
    read = classifier.shipped.__wrapped__()
    assert (read.network.embedder, read.network.techniques) == ("model", SLUGS)
    pairs = zip(probabilities(read, lesson), probabilities(learned, lesson), strict=True)
    assert all(np.abs(stored - trained).max() < 0.01 for stored, trained in pairs)
