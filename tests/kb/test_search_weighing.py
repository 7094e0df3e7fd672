"""Entries' scores are corrected by fitted weights of their sections, names and neighbours."""

import numpy as np
import pytest
from support import TinyCorpus, add, opened

from kb.embedders import load_embedder
from kb.search.entries import Entries
from kb.search.names import NamedRows
from kb.search.query import QueryReader
from kb.search.ranking import Ranker
from kb.search.weighing import FEATURES, Signals, Weighing
from kb.search.weights import read_weights


@pytest.fixture(scope="module")
def generation(tmp_path_factory):
    root = tmp_path_factory.mktemp("weighing")
    corpus = TinyCorpus(root / "corpus")
    corpus.technique("atomics-privatization", "latency", questions='["one hot address"]')
    add(corpus.root, root / "index")
    with opened(root / "index") as found:
        yield found


def features(generation, query, near=None):
    entries = Entries(generation)
    understood = QueryReader(generation).read(query)
    flat = np.zeros(len(entries.rows), dtype=np.float32) if near is None else near(entries)
    tokens = generation.lexical.query_tokens(query)
    scores = entries.score(tokens, generation.lexical, flat, None)
    signals = Ranker(understood, generation, NamedRows(generation.columns)).signals(entries.places)
    weighing = Weighing(generation, entries)
    learned = np.linspace(0.1, 0.9, len(entries.names))
    found = weighing.features(scores, understood, signals, scores.fused, learned)
    assert found.shape == (len(FEATURES), len(entries.names))
    return entries, dict(zip(FEATURES, found, strict=True))


def test_there_is_a_weight_for_every_feature_and_they_are_of_the_shipped_embedder():
    weights = read_weights("entry_weights.yaml")
    assert set(weights.features) == set(FEATURES)
    assert weights.embedder == load_embedder().name
    assert any(weights.features.values())


def test_words_count_for_the_section_that_they_stand_in(generation):
    entries, found = features(generation, "hot address")
    place = entries.places["technique:atomics-privatization"]
    assert found["words: Questions"][place] == 1.0
    assert found["words: Pitfalls"][place] < 1.0
    others = np.delete(found["words: Questions"], place)
    assert not others.any()


def test_names_count_by_the_information_that_stands_in_them(generation):
    entries, found = features(generation, "pid swizzling")
    named = int(found["words: title"].argmax())
    assert entries.names[named] == "technique:pid-swizzling"
    assert found["words: title"][named] == pytest.approx(1.0)
    assert found["named"][named] > 0


def test_neighbours_pass_what_they_score(generation):
    def only_the_kernel(entries):
        mine = entries.of_row == entries.places["kernel:swizzled"]
        return mine.astype(np.float32)

    entries, found = features(generation, "zzz", only_the_kernel)
    place = entries.places["technique:pid-swizzling"]
    assert found["kernels: best"][place] > 0
    assert found["kernels: best"].argmax() == place
    assert found["meaning: code"][entries.places["kernel:swizzled"]] == 1.0
    assert found["meaning: code"][place] == 0.0


def test_what_was_learned_counts_apart_where_gates_judge(generation):
    _, found = features(generation, "hot address")
    assert found["learned"].min() > 0
    assert not found["learned, with metrics"].any()
    _, found = features(generation, "hot address, l2 hit rate 30 %")
    assert (found["learned, with metrics"] == found["learned"]).all()


def test_few_entries_are_scored_without_weights(generation):
    entries = Entries(generation)
    weighing = Weighing(generation, entries)
    assert not weighing.applies
    nothing = np.zeros(len(entries.names))
    scores = entries.score(["swizzl"], generation.lexical, np.zeros(len(entries.rows)), None)
    understood = QueryReader(generation).read("swizzle")
    signals = Signals(nothing, nothing, nothing)
    assert not weighing.corrections(scores, understood, signals, scores.fused, nothing).any()


def test_what_a_metric_is_called_names_no_technique_and_no_operator(generation):
    reader = QueryReader(generation)
    profile = "sm__warps_active.avg.pct_of_peak_sustained_active 31, dram_throughput 40"
    read = reader.read(profile)
    assert len(read.metrics) == 2
    assert read.ops == ()
    assert "matmul" in reader.read(f"{profile}, a matmul").ops
