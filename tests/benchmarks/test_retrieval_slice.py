"""Search does not lose, beyond noise, what it was recorded to find on a slice of the benchmark."""

import functools
import json

import pytest

from benchmarks.retrieval.baselines import CONTENDERS, Ranked
from benchmarks.retrieval.indexes import open_index
from benchmarks.retrieval.slice import RECORD, build_slice, change, run_slice, scores
from kb.embedders import load_embedder


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    embedder = load_embedder()
    # The ranking is asked for three depths of each query.
    embedder.embed_query = functools.cache(embedder.embed_query)
    built = build_slice(tmp_path_factory.mktemp("slice"), embedder)
    with open_index(built.folder) as corpus:
        yield built, corpus, embedder


def test_search_finds_what_it_was_recorded_to_find(searched):
    recorded = json.loads(RECORD.read_text())["nDCG@10"]
    for part, run in run_slice(*searched).items():
        now = scores(run)
        if not recorded[part]:
            continue
        difference = change(now, recorded[part])
        assert difference.count >= 0.8 * len(recorded[part]), f"{part}: record it anew"
        lost = {name: value for name, value in recorded[part].items() if now.get(name, 0) < value}
        assert difference.high >= 0, f"{part} lost {difference.mean:.3f} nDCG@10: {lost}"


def test_a_ranking_that_puts_the_best_last_is_a_regression(searched, monkeypatch):
    class Reversed:
        title = "worst first"

        def __init__(self, corpus, embedder):
            self._dense = CONTENDERS["dense"](corpus, embedder)

        def rank(self, query, scope):
            return Ranked(self._dense.rank(query, scope).rows[::-1])

        def deepen(self, query, scope, ranked):
            return ranked

    monkeypatch.setitem(CONTENDERS, "reversed", Reversed)
    recorded = json.loads(RECORD.read_text())["nDCG@10"]["functions"]
    run = run_slice(*searched, "reversed")["functions"]
    assert change(scores(run), recorded).high < 0


def test_every_function_of_the_package_is_asked_for_without_its_comment(searched):
    built, corpus, _ = searched
    texts = "\n".join(chunk.text for chunk in corpus.chunks if chunk.source == "slice")
    documented = built.material["slice"].documented
    assert sum(map(len, documented.values())) == 16
    for functions in documented.values():
        for function in functions:
            assert function.doc.split(".")[0] not in texts
            assert function.symbol in texts
