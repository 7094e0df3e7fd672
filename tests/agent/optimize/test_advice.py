"""What a run asks the knowledge base."""

import pytest

from agent.optimize.advice import query_of
from kb.search.models import MAX_QUERY_CHARS


@pytest.mark.parametrize(
    ("stem", "query"),
    [
        ("conv_transpose3d", "conv transpose 3d"),
        ("max_pool1d", "max pool 1d"),
        ("36_RMSNorm_", "36 RMSNorm "),
        ("rms_norm-bf16.v2", "rms norm bf16 v2"),
        ("method_of_3d", "method of 3d"),
    ],
)
def test_a_problem_is_asked_for_in_words(stem: str, query: str) -> None:
    assert query_of(stem, None, ()) == query


def test_a_query_is_never_longer_than_search_takes() -> None:
    assert len(query_of("word_" * 10_000, None, ())) <= MAX_QUERY_CHARS
