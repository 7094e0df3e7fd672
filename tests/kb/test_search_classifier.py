"""What the classifier says of a query, and of techniques that it was not taught."""

import numpy as np
import pytest

from kb.embedders import load_embedder
from kb.search.classifier import FLOOR, UNKNOWN, Classifier, Network, shipped_network
from kb.vocabulary import taxonomy

PLACES = {"technique:b": 0, "kernel:k": 1, "technique:new": 2, "technique:a": 3}


def network(*logits):
    """One that says this whatever it reads, of techniques a and b and of "nothing applies"."""
    return Network(
        "model",
        ("a", "b"),
        np.zeros((1, 2), np.float32),
        np.zeros(1, np.float32),
        np.zeros((3, 1), np.float32),
        np.array(logits, np.float32),
    )


def likelihoods(*logits, embedder="model"):
    classifier = Classifier(embedder, PLACES, network(*logits))
    return classifier.likelihoods(np.ones(2, np.float32))


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
    shipped = shipped_network()
    assert shipped.embedder == load_embedder().name
    assert set(shipped.techniques) == {slug for slugs in taxonomy().values() for slug in slugs}


@pytest.mark.parametrize(
    ("query", "technique"),
    [
        ("every second thread of a warp goes through the else branch", "divergence-avoidance"),
        ("one row of the sparse matrix has a million entries, all others ten", "load-balancing"),
        ("61 blocks take twice as long as 60 on this card", "wave-quantization"),
    ],
)
def test_a_symptom_is_read_without_the_words_of_its_cure(query, technique):
    shipped = shipped_network()
    embedder = load_embedder()
    places = {f"technique:{slug}": at for at, slug in enumerate(shipped.techniques)}
    found = Classifier(embedder.name, places).likelihoods(embedder.embed_query(query))
    assert places[f"technique:{technique}"] in np.argsort(-found)[:3]
