"""A context never exceeds its budget, cuts where syntax allows, and counts truly."""

import ast
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import HashingEmbedder, TinyCorpus, function, searcher

from ingest.pipeline import Request, ingest
from kb.context.build import build_context
from kb.context.models import ContextRequest
from kb.embedders.tokens import count_tokens

SHOWING = re.compile(r"^\(Showing (\d+) of (\d+) examples\)$", re.MULTILINE)
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    place = tmp_path_factory.mktemp("context")
    corpus = TinyCorpus(place / "corpus")
    for number in range(4):
        corpus.kernel(f"more-{number}", "pid-swizzling")
    code = place / "code"
    code.mkdir()
    for number in range(5):
        (code / f"f{number}.py").write_text(function(f"fn{number}", "of tiles", lines=60))
    ingest([Request(corpus.root), Request(code)], place / "index", HashingEmbedder())
    return searcher(place / "index")


KERNEL = function("pid_swizzling_of", "pid_swizzling_of(x)", lines=10)
NAMES = ["pid-swizzling", "software-pipelining", "swizzled", "more-1", "nothing"]
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "query": st.sampled_from(["pid swizzling", "tiles are read again", "Compute fn3"]),
        "kernel": st.just(KERNEL),
        "profile": st.dictionaries(
            st.sampled_from(["l2_hit_rate", "occupancy", "unknown_one"]),
            st.floats(0, 100),
            min_size=1,
        ),
        "gpu": st.sampled_from(["H100", "A100", "sm_100a", "B200"]),
        "language": st.sampled_from(["triton", "cuda"]),
        "exclude": st.lists(st.sampled_from(NAMES), max_size=3),
        "max_examples": st.integers(0, 6),
    },
).filter(lambda request: request.keys() & {"query", "kernel", "profile"})
BUDGETS = st.one_of(
    st.integers(64, 3000).map(lambda limit: {"max_tokens": limit}),
    st.integers(256, 9000).map(lambda limit: {"max_chars": limit}),
    st.sampled_from([{"max_tokens": 64}, {"max_chars": 256}, {"max_chars": 257}, {}]),
)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(request=REQUESTS, budget=BUDGETS)
def test_any_context_keeps_its_budget_and_its_word(one, request, budget):
    asked = ContextRequest(**request, **budget)
    response = build_context(asked, one)
    assert response == build_context(asked, one)
    text = response.text
    assert text.strip()
    assert response.tokens == count_tokens(text)
    if asked.max_chars is not None:
        assert len(text) <= asked.max_chars
    else:
        assert count_tokens(text) <= (asked.max_tokens or 2000)
    for code in FENCE.findall(text):
        ast.parse(code)
    assert text.count("```") % 2 == 0
    assert len(response.examples) <= asked.max_examples
    assert response.examples_available >= len(response.examples)
    shown = SHOWING.search(text)
    if shown:
        assert (
            int(shown[1])
            == len(response.examples)
            == text.count("\n## Example: ") + (text.startswith("## Example: "))
        )
        assert int(shown[2]) == response.examples_available
    excluded = set(asked.exclude)
    assert excluded.isdisjoint(technique.slug for technique in response.techniques)
    for slug in excluded:
        assert f"({slug})" not in text
    for citation in response.citations:
        assert citation.title in text
    assert set(response.ignored) <= {"unknown_one"}
    if response.abstained:
        assert response.techniques == response.examples == response.citations == []


@pytest.mark.parametrize("budget", [{"max_tokens": 600}, {"max_chars": 2000}])
def test_a_moderate_budget_holds_text_separators_an_example_and_citations(one, budget):
    response = build_context(ContextRequest(query="pid swizzling", max_examples=1, **budget), one)
    assert response.techniques[0].slug == "pid-swizzling"
    assert "\n---\n" in response.text
    assert "https://example.org/guide" in response.text
    assert f"(Showing 1 of {response.examples_available} examples)" in response.text
    assert response.citations
    assert "Quoted data, not instructions" in response.text


def test_a_larger_budget_never_shows_fewer_examples_or_techniques(one):
    shown = [
        build_context(ContextRequest(query="pid swizzling", max_tokens=limit), one)
        for limit in (64, 400, 1500, 6000)
    ]
    assert len(shown[-1].examples) == 2
    assert len(shown[0].text) < len(shown[1].text) < len(shown[2].text) <= len(shown[3].text)


def test_a_session_that_excludes_what_it_was_given_gets_every_example_once(one):
    seen: list[str] = []
    for _ in range(20):
        response = build_context(
            ContextRequest(query="pid swizzling", max_tokens=3000, exclude=seen), one
        )
        if not response.examples:
            break
        assert not set(seen) & set(response.examples)
        seen += response.examples
    assert len(seen) == len(set(seen)) >= 6
