"""What the classifier says of a query, and of techniques that it was not taught."""

import numpy as np
import pytest

from kb.embedders import load_embedder
from kb.search.classifier import (
    FLOOR,
    UNKNOWN,
    Classifier,
    Network,
    TrainedModels,
    combine,
    shipped,
)
from kb.search.wording import KINDS, MOST_CHARACTERS, Wording, hash_features
from kb.vocabulary import taxonomy

PLACES = {"technique:b": 0, "kernel:k": 1, "technique:new": 2, "technique:a": 3}


ROWS = 64


def learned(*logits):
    """Models that say this whatever they read, of techniques a and b and of "nothing applies"."""
    outputs = np.array(logits, np.float32)
    network = Network(
        "model",
        ("a", "b"),
        np.zeros((1, 2), np.float32),
        np.zeros(1, np.float32),
        np.zeros((3, 1), np.float32),
        outputs,
    )
    return TrainedModels(network, wording(bias=outputs))


def wording(weights=0, bias=(0.0, 0.0, 0.0)):
    """A model that knows every word, with these weights."""
    table = np.broadcast_to(np.int8(weights), (KINDS, ROWS, 3))
    one = np.ones(3, np.float32)
    return Wording(np.ones((KINDS, ROWS), np.float32), table, one, np.array(bias, np.float32))


def likelihoods(*logits, embedder="model"):
    classifier = Classifier(embedder, PLACES, learned(*logits))
    return classifier.likelihoods(np.ones(2, np.float32), "a question")


def test_techniques_are_scored_in_the_order_of_the_entries():
    assert likelihoods(50.0, 0.0, 0.0).tolist() == pytest.approx([0.0, 0.0, UNKNOWN, 1.0])
    even = likelihoods(0.0, 0.0, 0.0)
    assert even[[0, 3]] == pytest.approx(1 + np.log(3) / FLOOR)


def test_a_technique_that_was_not_taught_stands_before_those_that_do_not_apply():
    found = likelihoods(0.0, -50.0, 50.0)
    assert found[PLACES["technique:new"]] == UNKNOWN > found[PLACES["technique:a"]]


def test_with_another_embedder_no_technique_is_ahead_of_another():
    found = likelihoods(50.0, 0.0, 0.0, embedder="other")
    assert found.tolist() == [UNKNOWN, 0.0, UNKNOWN, UNKNOWN]


def test_the_shipped_network_knows_the_taxonomy_and_reads_the_shipped_embedder():
    network, words = shipped()
    assert network.embedder == load_embedder().name
    assert words.weights.shape[-1] == len(network.techniques) + 1
    assert set(network.techniques) == {slug for slugs in taxonomy().values() for slug in slugs}


@pytest.mark.parametrize(
    ("query", "technique"),
    [
        ("every second thread of a warp goes through the else branch", "divergence-avoidance"),
        ("one row of the sparse matrix has a million entries, all others ten", "load-balancing"),
        ("61 blocks take twice as long as 60 on this card", "wave-quantization"),
    ],
)
def test_a_symptom_is_read_without_the_words_of_its_cure(query, technique):
    embedder = load_embedder()
    places = {f"technique:{slug}": at for at, slug in enumerate(shipped().network.techniques)}
    found = Classifier(embedder.name, places).likelihoods(embedder.embed_query(query), query)
    assert places[f"technique:{technique}"] in np.argsort(-found)[:3]


def test_words_are_weighed_by_how_often_and_how_rarely_they_occur():
    weights = np.zeros((KINDS, ROWS, 3), np.int8)
    (row,) = hash_features("barrier", ROWS)[0]
    weights[0, row] = (10, 0, -10)
    logs = wording(weights).log_probabilities("barrier")
    assert logs == pytest.approx(np.array([0, -10, -20]) - np.log1p(np.exp(-10)), abs=1e-3)


@pytest.mark.parametrize("text", ["", " \n", "?!", "\ud800", "你好", "x" * 9, "\x00"])
def test_any_text_gets_probabilities(text):
    assert np.exp(wording(3).log_probabilities(text)).sum() == pytest.approx(1.0)
    assert np.exp(shipped().wording.log_probabilities(text)).sum() == pytest.approx(1.0)


def test_a_long_text_is_read_from_its_beginning():
    text = "one thread adds up what all others wrote. " * 100
    assert hash_features(text, ROWS) == hash_features(text[:MOST_CHARACTERS], ROWS)


def test_what_one_model_rules_out_the_other_cannot_make_sure():
    sure, ruled_out = np.log([0.98, 0.01, 0.01]), np.log([1e-6, 0.5, 0.5])
    assert np.exp(combine(sure, ruled_out)) == pytest.approx([0.007, 0.4965, 0.4965], abs=1e-3)
