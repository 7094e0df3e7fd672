"""Interfaces that replaced others are told by either name, with version and source."""

import pytest
from support import TinyCorpus, add, searcher

from kb.search.replacements import all_replacements, replacements_in


def test_there_are_forty_of_them_each_with_version_and_source():
    known = all_replacements()
    assert len(known) >= 40
    assert len({(each.library, each.old) for each in known}) == len(known)
    for each in known:
        assert each.source.startswith("https://")
        assert each.since
        assert each.old != each.new


@pytest.mark.parametrize("each", all_replacements(), ids=lambda each: each.old)
def test_each_is_found_by_either_name(each):
    for name in (each.old, each.new):
        if " " not in name:
            assert each in replacements_in(f"how do I use {name}(x)?")[:4] or len(
                replacements_in(name)
            ) == 4  # fmt: skip


def test_words_of_a_sentence_are_no_interface():
    assert replacements_in("the sum of all rows, any max or min of the warp, in advance") == []
    assert replacements_in("use __shfl_down_sync")[0].old == "__shfl_down"


def test_an_answer_tells_what_replaced_what(tmp_path):
    corpus = TinyCorpus(tmp_path / "corpus")
    add(corpus.root, tmp_path / "index")
    one = searcher(tmp_path / "index")
    (note,) = one.search("create_2d_tma_descriptor", 3).notes
    assert note.startswith("create_2d_tma_descriptor: replaced by TensorDescriptor.from_tensor")
    assert "since Triton 3.4" in note
    assert "https://" in note
