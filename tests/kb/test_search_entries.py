"""Entries are scored whole: by their questions, their sections, and what belongs with them."""

import numpy as np
import pytest
from support import TinyCorpus, add, opened, searcher

from kb.context.build import build_context
from kb.context.models import ContextRequest
from kb.index.vectors import top
from kb.records import QUESTION
from kb.search.entries import Entries
from kb.search.models import Filters

ASKED = "embedding gradients of skewed tokens crawl behind one hot address"


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    root = tmp_path_factory.mktemp("entries")
    corpus = TinyCorpus(root / "corpus")
    corpus.technique(
        "atomics-privatization",
        "latency",
        questions=f'["{ASKED}", "which histogram copes with one crowded bin"]',
    )
    add(corpus.root, root / "index")
    return root / "index"


@pytest.fixture(scope="module")
def one(index):
    return searcher(index)


def test_a_question_finds_its_technique_and_is_not_what_is_shown(one):
    results = one.search("skewed tokens and one hot address", 10).results
    assert results[0].techniques == ["atomics-privatization"]
    assert ASKED not in results[0].text
    assert [each.title for each in results].count(results[0].title) == 1
    texts = {result.text for result in one.search(ASKED, 50).results}
    assert all(ASKED not in text for text in texts)


def test_questions_are_chunks_of_their_own_after_the_card(index):
    with opened(index) as generation:
        mine = [c for c in generation.store.all() if c.entry == "atomics-privatization"]
        asked = [chunk for chunk in mine if chunk.role == QUESTION]
        card, *_ = mine
        assert card.section == "card"
        assert ASKED not in card.text
        assert {chunk.text for chunk in asked} == {
            ASKED,
            "which histogram copes with one crowded bin",
        }
        assert all(chunk.start_line > card.start_line for chunk in asked)


def test_a_context_tells_what_a_question_found_and_not_the_question(one):
    answer = build_context(ContextRequest(query=ASKED, max_tokens=1500), one)
    assert answer.techniques[0].slug == "atomics-privatization"
    assert "# All about atomics privatization" in answer.text
    assert ASKED not in answer.text


def test_words_count_wherever_in_the_entry_they_stand(index):
    with opened(index) as generation:
        entries = Entries(generation)
        flat = np.zeros(len(entries.rows), dtype=np.float32)
        tokens = generation.lexical.query_tokens("skewed tokens in a crowded histogram bin")
        scores = entries.score(tokens, generation.lexical, flat, None)
        best = entries.names[int(scores.fused.argmax())]
        assert best == "technique:atomics-privatization"
        alone = generation.lexical.scores(tokens)
        (row,) = top(alone, 1)
        held = [generation.lexical.holding(token, np.array([row])).any() for token in tokens]
        assert not all(held)  # no single chunk holds what the entry holds
        assert scores.covered is None  # seven entries are no knowledge of a field


def test_a_filter_leaves_out_entries_and_the_words_of_what_it_leaves_out(one, index):
    kept = one.search(ASKED, 10, Filters(kinds=["kernel"])).results
    assert {result.kind for result in kept} == {"kernel"}
    with opened(index) as generation:
        entries = Entries(generation)
        nothing = np.zeros(generation.columns.count, dtype=np.bool_)
        flat = np.ones(len(entries.rows), dtype=np.float32)
        scores = entries.score(["skew"], generation.lexical, flat, nothing)
        assert not scores.eligible.any()
        assert not scores.fused.any()


def test_what_is_ahead_passes_a_part_on_to_what_belongs_with_it(index):
    with opened(index) as generation:
        entries = Entries(generation)
        scores = np.full(len(entries.names), 0.2)
        scores[entries.names.index("kernel:swizzled")] = 0.9
        passed = dict(zip(entries.names, entries.neighbour_gains(scores), strict=True))
        assert {name for name, value in passed.items() if value} == {"technique:pid-swizzling"}
        scores[entries.names.index("technique:persistent-kernel")] = 0.9
        passed = dict(zip(entries.names, entries.neighbour_gains(scores), strict=True))
        assert passed["kernel:streams"] > 0
        assert passed["kernel:swizzled"] == passed["kernel:plain"] == 0


def test_a_name_in_passing_counts_less_than_one_that_is_the_query(one):
    def named(query: str) -> float:
        for result in one.search(query, 10, explain=True).results:
            if result.title == "All about pid swizzling":
                return float(result.explanation["technique named"])
        raise AssertionError(query)

    whole = named("pid swizzling")
    passing = named("registers spill and barriers stall since somebody added pid swizzling there")
    assert 0 < passing < whole
