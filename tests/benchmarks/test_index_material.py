"""The indexes that are measured hold the corpus and code beside it."""

import pytest

from benchmarks.index.material import sized_index
from benchmarks.index.scale import SIZES
from ingest.corpus_source import corpus_state
from kb.corpus.loader import shipped_corpus


def test_the_smallest_index_that_is_measured_has_room_for_the_corpus():
    count = len(corpus_state(shipped_corpus()).chunks)
    assert count < min(SIZES)


def test_an_index_too_small_for_the_corpus_is_refused():
    with pytest.raises(SystemExit, match="100 chunks are too few: the corpus alone has"):
        sized_index(100)
