"""Queries are misspelt by one mistake in one plain word, the same one every time."""

import pytest

from benchmarks.retrieval.misspelt import misspell

QUERY = "how does tl.make_block_ptr help memory coalescing on H100"


def test_one_word_changes_by_one_letter_or_two_neighbours_and_keeps_its_first():
    seen = set()
    for seed in map(str, range(200)):
        changed = [
            (old, new)
            for old, new in zip(QUERY.split(), misspell(QUERY, seed).split(), strict=True)
            if old != new
        ]
        ((old, new),) = changed
        assert old in {"memory", "coalescing"}
        assert new[0] == old[0]
        assert abs(len(new) - len(old)) <= 1
        seen.add((len(new) - len(old), sorted(new) == sorted(old)))
    # one left out, one doubled, two swapped, another one
    assert seen == {(-1, False), (1, False), (0, True), (0, False)}


@pytest.mark.parametrize("query", ["tl.dot 3 of AB", "wgmma::MMA", "a b c"])
def test_a_query_without_a_plain_word_stays_as_it_is(query):
    assert misspell(query, "seed") == query


def test_the_mistake_is_drawn_by_the_seed_alone():
    assert misspell(QUERY, "one") == misspell(QUERY, "one")
    assert len({misspell(QUERY, str(seed)) for seed in range(50)}) > 10
